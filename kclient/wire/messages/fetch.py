"""Fetching records, and finding offsets by time and by leader epoch."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    DEFAULT,
    NO_UUID,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    Records,
    String,
    Struct,
    Tag,
    Uuid,
    V,
)


class FetchResponse(Response, key=ApiKey.FETCH, versions="4-18", flexible="12+"):
    class FetchableTopicResponse(Struct):
        class PartitionData(Struct):
            class EpochEndOffset(Struct):
                epoch: Int32 = -1
                end_offset: Int64 = -1

            class LeaderIdAndEpoch(Struct):
                leader_id: Int32 = -1
                leader_epoch: Int32 = -1

            class SnapshotId(Struct):
                end_offset: Int64 = -1
                epoch: Int32 = -1

            class AbortedTransaction(Struct):
                producer_id: Int64
                first_offset: Int64

            partition_index: Int32
            error_code: Int16 = 0
            high_watermark: Int64
            last_stable_offset: Int64 = -1
            log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
            diverging_epoch: Annotated[EpochEndOffset, V("12+"), Tag(0)] = DEFAULT
            current_leader: Annotated[LeaderIdAndEpoch, V("12+"), Tag(1)] = DEFAULT
            snapshot_id: Annotated[SnapshotId, V("12+"), Tag(2)] = DEFAULT
            aborted_transactions: NullableArray[AbortedTransaction]
            preferred_read_replica: Annotated[Int32, V("11+")] = -1
            records: Records

        topic: Annotated[String, V("0-12", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("13+", ignorable=True)] = NO_UUID
        partitions: Array[PartitionData]

    class NodeEndpoint(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = None

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, V("7+")] = 0
    responses: Array[FetchableTopicResponse]
    node_endpoints: Annotated[Array[NodeEndpoint], V("16+"), Tag(0)] = []


class FetchRequest(Request[FetchResponse], key=ApiKey.FETCH, versions="4-18", flexible="12+"):
    class ReplicaState(Struct):
        replica_id: Int32 = -1
        replica_epoch: Int64 = -1

    class FetchTopic(Struct):
        class FetchPartition(Struct):
            partition: Int32
            current_leader_epoch: Annotated[Int32, V("9+", ignorable=True)] = -1
            fetch_offset: Int64
            last_fetched_epoch: Annotated[Int32, V("12+")] = -1
            log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
            partition_max_bytes: Int32
            replica_directory_id: Annotated[Uuid, V("17+", ignorable=True), Tag(0)] = NO_UUID
            high_watermark: Annotated[Int64, V("18+", ignorable=True), Tag(1)] = 9223372036854775807

        topic: Annotated[String, V("0-12", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("13+", ignorable=True)] = NO_UUID
        partitions: Array[FetchPartition]

    class ForgottenTopic(Struct):
        topic: Annotated[String, V("7-12", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("13+", ignorable=True)] = NO_UUID
        partitions: Array[Int32]

    cluster_id: Annotated[NullableString, V("12+", ignorable=True), Tag(0)] = None
    replica_id: Annotated[Int32, V("0-14")] = -1
    replica_state: Annotated[ReplicaState, V("15+"), Tag(1)] = DEFAULT
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, V("7+", ignorable=True)] = 0
    session_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    topics: Array[FetchTopic]
    forgotten_topics_data: Annotated[Array[ForgottenTopic], V("7+")] = []
    rack_id: Annotated[String, V("11+", ignorable=True)] = ""


class ListOffsetsResponse(Response, key=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    class ListOffsetsTopicResponse(Struct):
        class ListOffsetsPartitionResponse(Struct):
            partition_index: Int32
            error_code: Int16 = 0
            timestamp: Int64 = -1
            offset: Int64 = -1
            leader_epoch: Annotated[Int32, V("4+")] = -1

        name: String
        partitions: Array[ListOffsetsPartitionResponse]

    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: Array[ListOffsetsTopicResponse]


class ListOffsetsRequest(
    Request[ListOffsetsResponse], key=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"
):
    class ListOffsetsTopic(Struct):
        class ListOffsetsPartition(Struct):
            partition_index: Int32
            current_leader_epoch: Annotated[Int32, V("4+", ignorable=True)] = -1
            timestamp: Int64

        name: String
        partitions: Array[ListOffsetsPartition]

    replica_id: Int32
    isolation_level: Annotated[Int8, V("2+")] = 0
    topics: Array[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, V("10+", ignorable=True)] = 0


class OffsetForLeaderEpochResponse(
    Response, key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+"
):
    class OffsetForLeaderTopicResult(Struct):
        class EpochEndOffset(Struct):
            error_code: Int16 = 0
            partition: Int32
            leader_epoch: Int32 = -1
            end_offset: Int64 = -1

        topic: String
        partitions: Array[EpochEndOffset]

    throttle_time_ms: Int32 = 0
    topics: Array[OffsetForLeaderTopicResult]


class OffsetForLeaderEpochRequest(
    Request[OffsetForLeaderEpochResponse], key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+"
):
    class OffsetForLeaderTopic(Struct):
        class OffsetForLeaderPartition(Struct):
            partition: Int32
            current_leader_epoch: Int32 = -1
            leader_epoch: Int32

        topic: String
        partitions: Array[OffsetForLeaderPartition]

    replica_id: Annotated[Int32, V("3+", ignorable=True)] = -2
    topics: Array[OffsetForLeaderTopic]
