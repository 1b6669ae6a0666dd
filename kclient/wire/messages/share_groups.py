"""Share groups (KIP-932): membership, fetching, acknowledging, offsets."""

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
    NullableStruct,
    Records,
    String,
    Struct,
    Uuid,
    V,
)


class ShareGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ShareGroupHeartbeatResponse(Response, key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    class Assignment(Struct):
        topic_partitions: Array[ShareGroupHeartbeatResponseTopicPartitions]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: NullableStruct[Assignment] = None


class ShareGroupHeartbeatRequest(
    Request[ShareGroupHeartbeatResponse], key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"
):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: NullableString = None
    subscribed_topic_names: NullableArray[String] = None


class ShareGroupDescribeResponseTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class ShareGroupDescribeResponseAssignment(Struct):
    topic_partitions: Array[ShareGroupDescribeResponseTopicPartitions]


class ShareGroupDescribeResponse(Response, key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    class DescribedGroup(Struct):
        class Member(Struct):
            member_id: String
            rack_id: NullableString = None
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: Array[String]
            assignment: ShareGroupDescribeResponseAssignment

        error_code: Int16 = 0
        error_message: NullableString = None
        group_id: String
        group_state: String
        group_epoch: Int32
        assignment_epoch: Int32
        assignor_name: String
        members: Array[Member]
        authorized_operations: Int32 = -2147483648

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]


class ShareGroupDescribeRequest(
    Request[ShareGroupDescribeResponse], key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"
):
    group_ids: Array[String]
    include_authorized_operations: Bool


class ShareFetchResponse(Response, key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    class ShareFetchableTopicResponse(Struct):
        class PartitionData(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: Int32
                leader_epoch: Int32

            class AcquiredRecords(Struct):
                first_offset: Int64
                last_offset: Int64
                delivery_count: Int16

            partition_index: Int32
            error_code: Int16 = 0
            error_message: NullableString = None
            acknowledge_error_code: Int16
            acknowledge_error_message: NullableString = None
            current_leader: LeaderIdAndEpoch
            records: Annotated[Records, V(nullable="0")]
            acquired_records: Array[AcquiredRecords]

        topic_id: Uuid
        partitions: Array[PartitionData]

    class NodeEndpoint(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = None

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32
    responses: Array[ShareFetchableTopicResponse]
    node_endpoints: Array[NodeEndpoint]


class ShareFetchRequest(Request[ShareFetchResponse], key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    class FetchTopic(Struct):
        class FetchPartition(Struct):
            class AcknowledgementBatch(Struct):
                first_offset: Int64
                last_offset: Int64
                acknowledge_types: Array[Int8]

            partition_index: Int32
            partition_max_bytes: Annotated[Int32, V("0")] = 0
            acknowledgement_batches: Array[AcknowledgementBatch]

        topic_id: Uuid
        partitions: Array[FetchPartition]

    class ForgottenTopic(Struct):
        topic_id: Uuid
        partitions: Array[Int32]

    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2147483647
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Annotated[Int8, V("2+", ignorable=True)] = 0
    is_renew_ack: Annotated[Bool, V("2+")] = False
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic]


class ShareAcknowledgeResponse(Response, key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    class ShareAcknowledgeTopicResponse(Struct):
        class PartitionData(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: Int32
                leader_epoch: Int32

            partition_index: Int32
            error_code: Int16 = 0
            error_message: NullableString = None
            current_leader: LeaderIdAndEpoch

        topic_id: Uuid
        partitions: Array[PartitionData]

    class NodeEndpoint(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = None

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    responses: Array[ShareAcknowledgeTopicResponse]
    node_endpoints: Array[NodeEndpoint]


class ShareAcknowledgeRequest(
    Request[ShareAcknowledgeResponse], key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"
):
    class AcknowledgeTopic(Struct):
        class AcknowledgePartition(Struct):
            class AcknowledgementBatch(Struct):
                first_offset: Int64
                last_offset: Int64
                acknowledge_types: Array[Int8]

            partition_index: Int32
            acknowledgement_batches: Array[AcknowledgementBatch]

        topic_id: Uuid
        partitions: Array[AcknowledgePartition]

    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    is_renew_ack: Annotated[Bool, V("2+")] = False
    topics: Array[AcknowledgeTopic]


class DescribeShareGroupOffsetsResponse(
    Response, key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    class DescribeShareGroupOffsetsResponseGroup(Struct):
        class DescribeShareGroupOffsetsResponseTopic(Struct):
            class DescribeShareGroupOffsetsResponsePartition(Struct):
                partition_index: Int32
                start_offset: Int64
                leader_epoch: Int32
                lag: Annotated[Int64, V("1+", ignorable=True)] = -1
                error_code: Int16 = 0
                error_message: NullableString = None

            topic_name: String
            topic_id: Uuid
            partitions: Array[DescribeShareGroupOffsetsResponsePartition]

        group_id: String
        topics: Array[DescribeShareGroupOffsetsResponseTopic]
        error_code: Int16 = 0
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup]


class DescribeShareGroupOffsetsRequest(
    Request[DescribeShareGroupOffsetsResponse],
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions="0-1",
    flexible="0+",
):
    class DescribeShareGroupOffsetsRequestGroup(Struct):
        class DescribeShareGroupOffsetsRequestTopic(Struct):
            topic_name: String
            partitions: Array[Int32]

        group_id: String
        topics: NullableArray[DescribeShareGroupOffsetsRequestTopic]

    groups: Array[DescribeShareGroupOffsetsRequestGroup]


class AlterShareGroupOffsetsResponse(
    Response, key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    class AlterShareGroupOffsetsResponseTopic(Struct):
        class AlterShareGroupOffsetsResponsePartition(Struct):
            partition_index: Int32
            error_code: Int16 = 0
            error_message: NullableString = None

        topic_name: String
        topic_id: Uuid
        partitions: Array[AlterShareGroupOffsetsResponsePartition]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[AlterShareGroupOffsetsResponseTopic]


class AlterShareGroupOffsetsRequest(
    Request[AlterShareGroupOffsetsResponse], key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    class AlterShareGroupOffsetsRequestTopic(Struct):
        class AlterShareGroupOffsetsRequestPartition(Struct):
            partition_index: Int32
            start_offset: Int64

        topic_name: String
        partitions: Array[AlterShareGroupOffsetsRequestPartition]

    group_id: String
    topics: Array[AlterShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponse(
    Response, key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: String
        topic_id: Uuid
        error_code: Int16 = 0
        error_message: NullableString = None

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic]


class DeleteShareGroupOffsetsRequest(
    Request[DeleteShareGroupOffsetsResponse],
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    versions="0",
    flexible="0+",
):
    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: String

    group_id: String
    topics: Array[DeleteShareGroupOffsetsRequestTopic]
