"""Groups of Kafka Streams applications (KIP-1071)."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    DEFAULT,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    NullableStruct,
    String,
    Struct,
    UInt16,
    V,
)


class StreamsGroupHeartbeatResponseStatus(Struct):
    status_code: Int8
    status_detail: String


class StreamsGroupHeartbeatResponseTopicPartition(Struct):
    topic: String
    partitions: Array[Int32]


class StreamsGroupHeartbeatResponseTaskIds(Struct):
    subtopology_id: String
    partitions: Array[Int32]


class StreamsGroupHeartbeatResponseEndpoint(Struct):
    host: String
    port: UInt16


class StreamsGroupHeartbeatResponse(
    Response, key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponseEndpoint
        active_partitions: Array[StreamsGroupHeartbeatResponseTopicPartition]
        standby_partitions: Array[StreamsGroupHeartbeatResponseTopicPartition]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag_legacy: Annotated[Int32, V("0")] = 0
    task_offset_interval_ms: Int32
    acceptable_recovery_lag: Annotated[Int64, V("1+", ignorable=True)] = -1
    status: NullableArray[StreamsGroupHeartbeatResponseStatus]
    active_tasks: NullableArray[StreamsGroupHeartbeatResponseTaskIds] = None
    standby_tasks: NullableArray[StreamsGroupHeartbeatResponseTaskIds] = None
    warmup_tasks: NullableArray[StreamsGroupHeartbeatResponseTaskIds] = None
    topology_description_required: Annotated[Bool, V("1+")] = False
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: NullableArray[EndpointToPartitions] = None


class StreamsGroupHeartbeatRequestKeyValue(Struct):
    key: String
    value: String


class StreamsGroupHeartbeatRequestTopicInfo(Struct):
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[StreamsGroupHeartbeatRequestKeyValue]


class StreamsGroupHeartbeatRequestEndpoint(Struct):
    host: String
    port: UInt16


class StreamsGroupHeartbeatRequestTaskOffset(Struct):
    subtopology_id: String
    partition: Int32
    offset: Int64


class StreamsGroupHeartbeatRequestTaskIds(Struct):
    subtopology_id: String
    partitions: Array[Int32]


class StreamsGroupHeartbeatRequest(
    Request[StreamsGroupHeartbeatResponse], key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    class Topology(Struct):
        class Subtopology(Struct):
            class CopartitionGroup(Struct):
                source_topics: Array[Int16]
                source_topic_regex: Array[Int16]
                repartition_source_topics: Array[Int16]

            subtopology_id: String
            source_topics: Array[String]
            source_topic_regex: Array[String]
            state_changelog_topics: Array[StreamsGroupHeartbeatRequestTopicInfo]
            repartition_sink_topics: Array[String]
            repartition_source_topics: Array[StreamsGroupHeartbeatRequestTopicInfo]
            copartition_groups: Array[CopartitionGroup]

        epoch: Int32
        subtopologies: Array[Subtopology]

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    topology: NullableStruct[Topology] = None
    active_tasks: NullableArray[StreamsGroupHeartbeatRequestTaskIds] = None
    standby_tasks: NullableArray[StreamsGroupHeartbeatRequestTaskIds] = None
    warmup_tasks: NullableArray[StreamsGroupHeartbeatRequestTaskIds] = None
    process_id: NullableString = None
    user_endpoint: NullableStruct[StreamsGroupHeartbeatRequestEndpoint] = None
    client_tags: NullableArray[StreamsGroupHeartbeatRequestKeyValue] = None
    task_offsets: NullableArray[StreamsGroupHeartbeatRequestTaskOffset] = None
    task_end_offsets: NullableArray[StreamsGroupHeartbeatRequestTaskOffset] = None
    shutdown_application: Bool = False


class StreamsGroupDescribeResponseEndpoint(Struct):
    host: String
    port: UInt16


class StreamsGroupDescribeResponseTaskOffset(Struct):
    subtopology_id: String
    partition: Int32
    offset: Int64


class StreamsGroupDescribeResponseAssignment(Struct):
    active_tasks: Array[StreamsGroupDescribeResponseTaskIds]
    standby_tasks: Array[StreamsGroupDescribeResponseTaskIds]
    warmup_tasks: Array[StreamsGroupDescribeResponseTaskIds]


class StreamsGroupDescribeResponseTaskIds(Struct):
    subtopology_id: String
    partitions: Array[Int32]


class StreamsGroupDescribeResponseKeyValue(Struct):
    key: String
    value: String


class StreamsGroupDescribeResponseTopicInfo(Struct):
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[StreamsGroupDescribeResponseKeyValue]


class StreamsGroupDescribeResponseTopologyDescription(Struct):
    subtopologies: Annotated[Array[StreamsGroupDescribeResponseTopologyDescriptionSubtopology], V("1+")] = []
    global_stores: Annotated[Array[StreamsGroupDescribeResponseTopologyDescriptionGlobalStore], V("1+")] = []


class StreamsGroupDescribeResponseTopologyDescriptionSubtopology(Struct):
    subtopology_id: Annotated[String, V("1+")] = ""
    nodes: Annotated[Array[StreamsGroupDescribeResponseTopologyDescriptionNode], V("1+")] = []


class StreamsGroupDescribeResponseTopologyDescriptionNode(Struct):
    name: Annotated[String, V("1+")] = ""
    node_type: Annotated[Int8, V("1+")] = 0
    source_topics: Annotated[Array[String], V("1+")] = []
    sink_topic: Annotated[NullableString, V("1+")] = None
    stores: Annotated[Array[String], V("1+")] = []
    successors: Annotated[Array[String], V("1+")] = []


class StreamsGroupDescribeResponseTopologyDescriptionGlobalStore(Struct):
    source: Annotated[StreamsGroupDescribeResponseTopologyDescriptionNode, V("1+")] = DEFAULT
    processor: Annotated[StreamsGroupDescribeResponseTopologyDescriptionNode, V("1+")] = DEFAULT


class StreamsGroupDescribeResponse(
    Response, key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    class DescribedGroup(Struct):
        class Topology(Struct):
            class Subtopology(Struct):
                subtopology_id: String
                source_topics: Array[String]
                repartition_sink_topics: Array[String]
                state_changelog_topics: Array[StreamsGroupDescribeResponseTopicInfo]
                repartition_source_topics: Array[StreamsGroupDescribeResponseTopicInfo]

            epoch: Int32
            subtopologies: NullableArray[Subtopology] = None

        class Member(Struct):
            member_id: String
            member_epoch: Int32
            instance_id: NullableString = None
            rack_id: NullableString = None
            client_id: String
            client_host: String
            topology_epoch: Int32
            process_id: String
            user_endpoint: NullableStruct[StreamsGroupDescribeResponseEndpoint] = None
            client_tags: Array[StreamsGroupDescribeResponseKeyValue]
            task_offsets: Array[StreamsGroupDescribeResponseTaskOffset]
            task_end_offsets: Array[StreamsGroupDescribeResponseTaskOffset]
            assignment: StreamsGroupDescribeResponseAssignment
            target_assignment: StreamsGroupDescribeResponseAssignment
            is_classic: Bool

        error_code: Int16 = 0
        error_message: NullableString = None
        group_id: String
        group_state: String
        group_epoch: Int32
        assignment_epoch: Int32
        topology: NullableStruct[Topology] = None
        members: Array[Member]
        authorized_operations: Int32 = -2147483648
        topology_description: Annotated[
            NullableStruct[StreamsGroupDescribeResponseTopologyDescription], V("1+")
        ] = None
        topology_description_status: Annotated[Int8, V("1+")] = 0
        assignor_name: Annotated[NullableString, V("1+", ignorable=True)] = None

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]


class StreamsGroupDescribeRequest(
    Request[StreamsGroupDescribeResponse], key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    group_ids: Array[String]
    include_authorized_operations: Bool
    include_topology_description: Annotated[Bool, V("1+")] = False


class StreamsGroupTopologyDescriptionUpdateResponse(
    Response, key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions="0", flexible="0+"
):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription(Struct):
    subtopologies: Array[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology]
    global_stores: Array[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore]


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology(Struct):
    subtopology_id: String
    nodes: Array[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode]


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode(Struct):
    name: String
    node_type: Int8
    source_topics: Array[String]
    sink_topic: NullableString = None
    stores: Array[String]
    successors: Array[String]


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore(Struct):
    source: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode
    processor: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request[StreamsGroupTopologyDescriptionUpdateResponse],
    key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    versions="0",
    flexible="0+",
):
    group_id: String
    member_id: String
    topology_epoch: Int32
    topology_description: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription
