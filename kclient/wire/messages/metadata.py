"""Who is in the cluster, who leads what, who coordinates whom."""

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
    NullableArray,
    NullableString,
    NullableStruct,
    String,
    Struct,
    Uuid,
    V,
)


class MetadataResponse(Response, key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    class MetadataResponseBroker(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: Annotated[NullableString, V("1+", ignorable=True)] = None

    class MetadataResponseTopic(Struct):
        class MetadataResponsePartition(Struct):
            error_code: Int16 = 0
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
            replica_nodes: Array[Int32]
            isr_nodes: Array[Int32]
            offline_replicas: Annotated[Array[Int32], V("5+", ignorable=True)] = []

        error_code: Int16 = 0
        name: Annotated[NullableString, V(nullable="12+")]
        topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
        is_internal: Annotated[Bool, V("1+", ignorable=True)] = False
        partitions: Array[MetadataResponsePartition]
        topic_authorized_operations: Annotated[Int32, V("8+")] = -2147483648

    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    brokers: Array[MetadataResponseBroker]
    cluster_id: Annotated[NullableString, V("2+", ignorable=True)] = None
    controller_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, V("8-10")] = -2147483648
    error_code: Annotated[Int16, V("13+", ignorable=True)] = 0


class MetadataRequest(Request[MetadataResponse], key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    class MetadataRequestTopic(Struct):
        topic_id: Annotated[Uuid, V("10+", ignorable=True)] = NO_UUID
        name: Annotated[NullableString, V(nullable="10+")]

    topics: Annotated[NullableArray[MetadataRequestTopic], V(nullable="1+")]
    allow_auto_topic_creation: Annotated[Bool, V("4+")] = True
    include_cluster_authorized_operations: Annotated[Bool, V("8-10")] = False
    include_topic_authorized_operations: Annotated[Bool, V("8+")] = False


class FindCoordinatorResponse(Response, key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    class Coordinator(Struct):
        key: String
        node_id: Int32
        host: String
        port: Int32
        error_code: Int16 = 0
        error_message: NullableString

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, V("0-3")] = 0
    error_message: Annotated[NullableString, V("1-3", ignorable=True)] = ""
    node_id: Annotated[Int32, V("0-3")] = 0
    host: Annotated[String, V("0-3")] = ""
    port: Annotated[Int32, V("0-3")] = 0
    coordinators: Annotated[Array[Coordinator], V("4+")] = []


class FindCoordinatorRequest(
    Request[FindCoordinatorResponse], key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"
):
    key: Annotated[String, V("0-3")] = ""
    key_type: Annotated[Int8, V("1+")] = 0
    coordinator_keys: Annotated[Array[String], V("4+")] = []


class DescribeClusterResponse(Response, key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    class DescribeClusterBroker(Struct):
        broker_id: Int32
        host: String
        port: Int32
        rack: NullableString = None
        is_fenced: Annotated[Bool, V("2+")] = False

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, V("1+")] = 1
    cluster_id: String
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648


class DescribeClusterRequest(
    Request[DescribeClusterResponse], key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"
):
    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, V("1+")] = 1
    include_fenced_brokers: Annotated[Bool, V("2+")] = False


class DescribeTopicPartitionsResponse(
    Response, key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    class DescribeTopicPartitionsResponseTopic(Struct):
        class DescribeTopicPartitionsResponsePartition(Struct):
            error_code: Int16 = 0
            partition_index: Int32
            leader_id: Int32
            leader_epoch: Int32 = -1
            replica_nodes: Array[Int32]
            isr_nodes: Array[Int32]
            eligible_leader_replicas: NullableArray[Int32] = None
            last_known_elr: NullableArray[Int32] = None
            offline_replicas: Array[Int32]

        error_code: Int16 = 0
        name: NullableString
        topic_id: Uuid
        is_internal: Bool = False
        partitions: Array[DescribeTopicPartitionsResponsePartition]
        topic_authorized_operations: Int32 = -2147483648

    class Cursor(Struct):
        topic_name: String
        partition_index: Int32

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: NullableStruct[Cursor] = None


class DescribeTopicPartitionsRequest(
    Request[DescribeTopicPartitionsResponse],
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions="0",
    flexible="0+",
):
    class TopicRequest(Struct):
        name: String

    class Cursor(Struct):
        topic_name: String
        partition_index: Int32

    topics: Array[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: NullableStruct[Cursor] = None
