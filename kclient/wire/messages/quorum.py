"""The controller quorum, its voters and the cluster's features."""

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
    NullableString,
    String,
    Struct,
    UInt16,
    Uuid,
    V,
)


class DescribeQuorumResponseReplicaState(Struct):
    replica_id: Int32
    replica_directory_id: Annotated[Uuid, V("2+")] = NO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, V("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[Int64, V("1+", ignorable=True)] = -1


class DescribeQuorumResponse(Response, key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: Int32
            error_code: Int16 = 0
            error_message: Annotated[NullableString, V("2+", ignorable=True)] = ""
            leader_id: Int32
            leader_epoch: Int32
            high_watermark: Int64
            current_voters: Array[DescribeQuorumResponseReplicaState]
            observers: Array[DescribeQuorumResponseReplicaState]

        topic_name: String
        partitions: Array[PartitionData]

    class Node(Struct):
        class Listener(Struct):
            name: String
            host: String
            port: UInt16

        node_id: Int32
        listeners: Array[Listener]

    error_code: Int16 = 0
    error_message: Annotated[NullableString, V("2+", ignorable=True)] = ""
    topics: Array[TopicData]
    nodes: Annotated[Array[Node], V("2+")] = []


class DescribeQuorumRequest(
    Request[DescribeQuorumResponse], key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"
):
    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: Int32

        topic_name: String
        partitions: Array[PartitionData]

    topics: Array[TopicData]


class AddRaftVoterResponse(Response, key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString


class AddRaftVoterRequest(
    Request[AddRaftVoterResponse], key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible="0+"
):
    class Listener(Struct):
        name: String
        host: String
        port: UInt16

    cluster_id: NullableString
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[Listener]
    ack_when_committed: Annotated[Bool, V("1+")] = True


class RemoveRaftVoterResponse(Response, key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString


class RemoveRaftVoterRequest(
    Request[RemoveRaftVoterResponse], key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible="0+"
):
    cluster_id: NullableString
    voter_id: Int32
    voter_directory_id: Uuid


class UnregisterBrokerResponse(Response, key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString


class UnregisterBrokerRequest(
    Request[UnregisterBrokerResponse], key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"
):
    broker_id: Int32


class UnregisterControllerResponse(Response, key=ApiKey.UNREGISTER_CONTROLLER, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString


class UnregisterControllerRequest(
    Request[UnregisterControllerResponse], key=ApiKey.UNREGISTER_CONTROLLER, versions="0", flexible="0+"
):
    controller_id: Int32


class UpdateFeaturesResponse(Response, key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    class UpdatableFeatureResult(Struct):
        feature: String
        error_code: Int16 = 0
        error_message: NullableString

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString
    results: Annotated[Array[UpdatableFeatureResult], V("0-1", ignorable=True)] = []


class UpdateFeaturesRequest(
    Request[UpdateFeaturesResponse], key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"
):
    class FeatureUpdateKey(Struct):
        feature: String
        max_version_level: Int16
        allow_downgrade: Annotated[Bool, V("0")] = False
        upgrade_type: Annotated[Int8, V("1+")] = 1

    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey]
    validate_only: Annotated[Bool, V("1+")] = False
