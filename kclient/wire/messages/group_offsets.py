"""Committed offsets of a group."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    NO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Struct,
    Uuid,
    V,
)


class OffsetCommitResponse(Response, key=ApiKey.OFFSET_COMMIT, versions="2-10", flexible="8+"):
    class OffsetCommitResponseTopic(Struct):
        class OffsetCommitResponsePartition(Struct):
            partition_index: Int32
            error_code: Int16 = 0

        name: Annotated[String, V("0-9", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
        partitions: Array[OffsetCommitResponsePartition]

    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: Array[OffsetCommitResponseTopic]


class OffsetCommitRequest(
    Request[OffsetCommitResponse], key=ApiKey.OFFSET_COMMIT, versions="2-10", flexible="8+"
):
    class OffsetCommitRequestTopic(Struct):
        class OffsetCommitRequestPartition(Struct):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Annotated[Int32, V("6+", ignorable=True)] = -1
            committed_metadata: NullableString

        name: Annotated[String, V("0-9", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
        partitions: Array[OffsetCommitRequestPartition]

    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: Annotated[NullableString, V("7+")] = None
    retention_time_ms: Annotated[Int64, V("2-4", ignorable=True)] = -1
    topics: Array[OffsetCommitRequestTopic]


class OffsetFetchResponse(Response, key=ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+"):
    class OffsetFetchResponseTopic(Struct):
        class OffsetFetchResponsePartition(Struct):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Annotated[Int32, V("5-7", ignorable=True)] = -1
            metadata: NullableString
            error_code: Int16 = 0

        name: String
        partitions: Array[OffsetFetchResponsePartition]

    class OffsetFetchResponseGroup(Struct):
        class OffsetFetchResponseTopics(Struct):
            class OffsetFetchResponsePartitions(Struct):
                partition_index: Int32
                committed_offset: Int64
                committed_leader_epoch: Int32 = -1
                metadata: NullableString
                error_code: Int16 = 0

            name: Annotated[String, V("8-9", ignorable=True)] = ""
            topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
            partitions: Array[OffsetFetchResponsePartitions]

        group_id: String
        topics: Array[OffsetFetchResponseTopics]
        error_code: Int16 = 0

    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: Annotated[Array[OffsetFetchResponseTopic], V("0-7")] = []
    error_code: Annotated[Int16, V("2-7", ignorable=True)] = 0
    groups: Annotated[Array[OffsetFetchResponseGroup], V("8+")] = []


class OffsetFetchRequest(
    Request[OffsetFetchResponse], key=ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+"
):
    class OffsetFetchRequestTopic(Struct):
        name: String
        partition_indexes: Array[Int32]

    class OffsetFetchRequestGroup(Struct):
        class OffsetFetchRequestTopics(Struct):
            name: Annotated[String, V("8-9", ignorable=True)] = ""
            topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
            partition_indexes: Array[Int32]

        group_id: String
        member_id: Annotated[NullableString, V("9+", ignorable=True)] = None
        member_epoch: Annotated[Int32, V("9+", ignorable=True)] = -1
        topics: NullableArray[OffsetFetchRequestTopics]

    group_id: Annotated[String, V("0-7")] = ""
    topics: Annotated[NullableArray[OffsetFetchRequestTopic], V("0-7", nullable="2-7")] = []
    groups: Annotated[Array[OffsetFetchRequestGroup], V("8+")] = []
    require_stable: Annotated[Bool, V("7+")] = False


class OffsetDeleteResponse(Response, key=ApiKey.OFFSET_DELETE, versions="0", flexible="none"):
    class OffsetDeleteResponseTopic(Struct):
        class OffsetDeleteResponsePartition(Struct):
            partition_index: Int32
            error_code: Int16 = 0

        name: String
        partitions: Array[OffsetDeleteResponsePartition]

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic]


class OffsetDeleteRequest(
    Request[OffsetDeleteResponse], key=ApiKey.OFFSET_DELETE, versions="0", flexible="none"
):
    class OffsetDeleteRequestTopic(Struct):
        class OffsetDeleteRequestPartition(Struct):
            partition_index: Int32

        name: String
        partitions: Array[OffsetDeleteRequestPartition]

    group_id: String
    topics: Array[OffsetDeleteRequestTopic]
