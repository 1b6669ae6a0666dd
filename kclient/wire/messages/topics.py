"""Creating, growing, emptying and deleting topics."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    NO_UUID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Struct,
    Tag,
    Uuid,
    V,
)


class CreateTopicsResponse(Response, key=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    class CreatableTopicResult(Struct):
        class CreatableTopicConfigs(Struct):
            name: String
            value: NullableString
            read_only: Bool
            config_source: Int8 = -1
            is_sensitive: Bool

        name: String
        topic_id: Annotated[Uuid, V("7+", ignorable=True)] = NO_UUID
        error_code: Int16 = 0
        error_message: NullableString
        topic_config_error_code: Annotated[Int16, V("5+", ignorable=True), Tag(0)] = 0
        num_partitions: Annotated[Int32, V("5+", ignorable=True)] = -1
        replication_factor: Annotated[Int16, V("5+", ignorable=True)] = -1
        configs: Annotated[NullableArray[CreatableTopicConfigs], V("5+", ignorable=True)] = []

    throttle_time_ms: Int32 = 0
    topics: Array[CreatableTopicResult]


class CreateTopicsRequest(
    Request[CreateTopicsResponse], key=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"
):
    class CreatableTopic(Struct):
        class CreatableReplicaAssignment(Struct):
            partition_index: Int32
            broker_ids: Array[Int32]

        class CreatableTopicConfig(Struct):
            name: String
            value: NullableString

        name: String
        num_partitions: Int32
        replication_factor: Int16
        assignments: Array[CreatableReplicaAssignment]
        configs: Array[CreatableTopicConfig]

    topics: Array[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class DeleteTopicsResponse(Response, key=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    class DeletableTopicResult(Struct):
        name: Annotated[NullableString, V(nullable="6+")]
        topic_id: Annotated[Uuid, V("6+", ignorable=True)] = NO_UUID
        error_code: Int16 = 0
        error_message: Annotated[NullableString, V("5+", ignorable=True)] = None

    throttle_time_ms: Int32 = 0
    responses: Array[DeletableTopicResult]


class DeleteTopicsRequest(
    Request[DeleteTopicsResponse], key=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"
):
    class DeleteTopicState(Struct):
        name: NullableString = None
        topic_id: Uuid

    topics: Annotated[Array[DeleteTopicState], V("6+")] = []
    topic_names: Annotated[Array[String], V("0-5", ignorable=True)] = []
    timeout_ms: Int32


class CreatePartitionsResponse(Response, key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    class CreatePartitionsTopicResult(Struct):
        name: String
        error_code: Int16 = 0
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult]


class CreatePartitionsRequest(
    Request[CreatePartitionsResponse], key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"
):
    class CreatePartitionsTopic(Struct):
        class CreatePartitionsAssignment(Struct):
            broker_ids: Array[Int32]

        name: String
        count: Int32
        assignments: NullableArray[CreatePartitionsAssignment]

    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class DeleteRecordsResponse(Response, key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    class DeleteRecordsTopicResult(Struct):
        class DeleteRecordsPartitionResult(Struct):
            partition_index: Int32
            low_watermark: Int64
            error_code: Int16 = 0

        name: String
        partitions: Array[DeleteRecordsPartitionResult]

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult]


class DeleteRecordsRequest(
    Request[DeleteRecordsResponse], key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"
):
    class DeleteRecordsTopic(Struct):
        class DeleteRecordsPartition(Struct):
            partition_index: Int32
            offset: Int64

        name: String
        partitions: Array[DeleteRecordsPartition]

    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32
