"""Where replicas are and who leads: log directories, reassignment, elections."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
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
    V,
)


class AlterReplicaLogDirsResponse(Response, key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="1-2", flexible="2+"):
    class AlterReplicaLogDirTopicResult(Struct):
        class AlterReplicaLogDirPartitionResult(Struct):
            partition_index: Int32
            error_code: Int16 = 0

        topic_name: String
        partitions: Array[AlterReplicaLogDirPartitionResult]

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult]


class AlterReplicaLogDirsRequest(
    Request[AlterReplicaLogDirsResponse], key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="1-2", flexible="2+"
):
    class AlterReplicaLogDir(Struct):
        class AlterReplicaLogDirTopic(Struct):
            name: String
            partitions: Array[Int32]

        path: String
        topics: Array[AlterReplicaLogDirTopic]

    dirs: Array[AlterReplicaLogDir]


class DescribeLogDirsResponse(Response, key=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"):
    class DescribeLogDirsResult(Struct):
        class DescribeLogDirsTopic(Struct):
            class DescribeLogDirsPartition(Struct):
                partition_index: Int32
                partition_size: Int64
                offset_lag: Int64
                is_future_key: Bool

            name: String
            partitions: Array[DescribeLogDirsPartition]

        error_code: Int16 = 0
        log_dir: String
        topics: Array[DescribeLogDirsTopic]
        total_bytes: Annotated[Int64, V("4+", ignorable=True)] = -1
        usable_bytes: Annotated[Int64, V("4+", ignorable=True)] = -1
        is_cordoned: Annotated[Bool, V("5+", ignorable=True)] = False

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("3+", ignorable=True)] = 0
    results: Array[DescribeLogDirsResult]


class DescribeLogDirsRequest(
    Request[DescribeLogDirsResponse], key=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"
):
    class DescribableLogDirTopic(Struct):
        topic: String
        partitions: Array[Int32]

    topics: NullableArray[DescribableLogDirTopic]


class AlterPartitionReassignmentsResponse(
    Response, key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    class ReassignableTopicResponse(Struct):
        class ReassignablePartitionResponse(Struct):
            partition_index: Int32
            error_code: Int16 = 0
            error_message: NullableString

        name: String
        partitions: Array[ReassignablePartitionResponse]

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, V("1+", ignorable=True)] = True
    error_code: Int16 = 0
    error_message: NullableString
    responses: Array[ReassignableTopicResponse]


class AlterPartitionReassignmentsRequest(
    Request[AlterPartitionReassignmentsResponse],
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions="0-1",
    flexible="0+",
):
    class ReassignableTopic(Struct):
        class ReassignablePartition(Struct):
            partition_index: Int32
            replicas: NullableArray[Int32] = None

        name: String
        partitions: Array[ReassignablePartition]

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, V("1+")] = True
    topics: Array[ReassignableTopic]


class ListPartitionReassignmentsResponse(
    Response, key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    class OngoingTopicReassignment(Struct):
        class OngoingPartitionReassignment(Struct):
            partition_index: Int32
            replicas: Array[Int32]
            adding_replicas: Array[Int32]
            removing_replicas: Array[Int32]

        name: String
        partitions: Array[OngoingPartitionReassignment]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString
    topics: Array[OngoingTopicReassignment]


class ListPartitionReassignmentsRequest(
    Request[ListPartitionReassignmentsResponse],
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions="0",
    flexible="0+",
):
    class ListPartitionReassignmentsTopics(Struct):
        name: String
        partition_indexes: Array[Int32]

    timeout_ms: Int32 = 60000
    topics: NullableArray[ListPartitionReassignmentsTopics] = None


class ElectLeadersResponse(Response, key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    class ReplicaElectionResult(Struct):
        class PartitionResult(Struct):
            partition_id: Int32
            error_code: Int16 = 0
            error_message: NullableString

        topic: String
        partition_result: Array[PartitionResult]

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("1+")] = 0
    replica_election_results: Array[ReplicaElectionResult]


class ElectLeadersRequest(
    Request[ElectLeadersResponse], key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"
):
    class TopicPartitions(Struct):
        topic: String
        partitions: Array[Int32]

    election_type: Annotated[Int8, V("1+")] = 0
    topic_partitions: NullableArray[TopicPartitions]
    timeout_ms: Int32 = 60000
