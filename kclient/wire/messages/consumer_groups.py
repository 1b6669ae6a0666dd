"""Consumer groups that the broker assigns (KIP-848)."""

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
    NullableArray,
    NullableString,
    NullableStruct,
    String,
    Struct,
    Uuid,
    V,
)


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ConsumerGroupHeartbeatResponse(
    Response, key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    class Assignment(Struct):
        topic_partitions: Array[ConsumerGroupHeartbeatResponseTopicPartitions]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: NullableStruct[Assignment] = None


class ConsumerGroupHeartbeatRequest(
    Request[ConsumerGroupHeartbeatResponse],
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions="0-1",
    flexible="0+",
):
    class TopicPartitions(Struct):
        topic_id: Uuid
        partitions: Array[Int32]

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: NullableArray[String] = None
    subscribed_topic_regex: Annotated[NullableString, V("1+")] = None
    server_assignor: NullableString = None
    topic_partitions: NullableArray[TopicPartitions] = None


class ConsumerGroupDescribeResponseTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class ConsumerGroupDescribeResponseAssignment(Struct):
    topic_partitions: Array[ConsumerGroupDescribeResponseTopicPartitions]


class ConsumerGroupDescribeResponse(
    Response, key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    class DescribedGroup(Struct):
        class Member(Struct):
            member_id: String
            instance_id: NullableString = None
            rack_id: NullableString = None
            member_epoch: Int32
            client_id: String
            client_host: String
            subscribed_topic_names: Array[String]
            subscribed_topic_regex: NullableString = None
            assignment: ConsumerGroupDescribeResponseAssignment
            target_assignment: ConsumerGroupDescribeResponseAssignment
            member_type: Annotated[Int8, V("1+", ignorable=True)] = -1

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


class ConsumerGroupDescribeRequest(
    Request[ConsumerGroupDescribeResponse], key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    group_ids: Array[String]
    include_authorized_operations: Bool
