"""Every admin operation with something to ask, an answer of a broker, and what is to be read from it.

An answer is built for a version, because old versions cannot carry everything; so is what is read from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kclient.admin import (
    AclOperation,
    AlterConfigOp,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ConsumerGroupDescription,
    CreatedTopic,
    GroupListing,
    GroupState,
    GroupType,
    ListedOffset,
    MemberDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from kclient.admin.cluster import DescribeCluster, DescribeClusterByMetadata
from kclient.admin.configs import DescribeConfigs, IncrementalAlterConfigs
from kclient.admin.group_offsets import AlterGroupOffsets, DeleteGroupOffsets, ListGroupOffsets
from kclient.admin.groups import (
    DeleteConsumerGroups,
    DescribeClassicGroups,
    DescribeConsumerGroups,
    ListGroups,
)
from kclient.admin.offsets import ListOffsets
from kclient.admin.operation import AdminOperation
from kclient.admin.topics import CreatePartitions, CreateTopics, DeleteTopics, DescribeTopics, ListTopics
from kclient.cluster.metadata import Broker
from kclient.config import Endpoint
from kclient.errors import error_for
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.message import Response
from kclient.wire.messages.configs import DescribeConfigsResponse, IncrementalAlterConfigsResponse
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from kclient.wire.messages.fetch import ListOffsetsResponse
from kclient.wire.messages.group_admin import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from kclient.wire.messages.group_offsets import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kclient.wire.messages.metadata import DescribeClusterResponse, MetadataResponse
from kclient.wire.messages.topics import CreatePartitionsResponse, CreateTopicsResponse, DeleteTopicsResponse
from kclient.wire.schema import NO_UUID

ID = UUID(int=7)
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("users", 1)
TOPIC, BROKER = ConfigResource.topic("orders"), ConfigResource.broker(1)
READ_AND_DESCRIBE = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
PERMISSIONS = frozenset({AclOperation.READ, AclOperation.DESCRIBE})
NOT_TOLD = -(1 << 31)
ONE = Broker(1, Endpoint("one", 9092), "r1")
TWO = Broker(2, Endpoint("two", 9093), None)


@dataclass(frozen=True)
class Case:
    operation: AdminOperation[Any, Any]
    keys: list[Any]
    answer: Callable[[int], Response]
    outcomes: Callable[[int], dict[Any, Any]]

    @property
    def name(self) -> str:
        return type(self.operation).__name__

    @property
    def versions(self) -> range:
        first, last = self.operation.request.versions
        newest = self.operation.newest
        return range(first, (last if newest is None else newest) + 1)


def _created(version: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[
            result(
                name="orders",
                error_message=None,
                topic_id=ID if version >= 7 else NO_UUID,
                num_partitions=6 if version >= 5 else -1,
                replication_factor=3 if version >= 5 else -1,
            ),
            result(name="users", error_code=36, error_message="it is there"),
        ]
    )


def _deleted(version: int) -> DeleteTopicsResponse:
    result = DeleteTopicsResponse.DeletableTopicResult
    return DeleteTopicsResponse(
        responses=[
            result(name="orders"),
            result(name="users", error_code=73, error_message="not here" if version >= 5 else None),
        ]
    )


def _grown(_version: int) -> CreatePartitionsResponse:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[result(name="orders"), result(name="users", error_code=37, error_message="too few")]
    )


def _metadata(version: int) -> MetadataResponse:
    topic = MetadataResponse.MetadataResponseTopic
    broker = MetadataResponse.MetadataResponseBroker
    partitions = [
        topic.MetadataResponsePartition(
            partition_index=1, leader_id=-1, replica_nodes=[2], isr_nodes=[], error_code=5
        ),
        topic.MetadataResponsePartition(
            partition_index=0,
            leader_id=1,
            leader_epoch=4 if version >= 7 else -1,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[2] if version >= 5 else [],
        ),
    ]
    return MetadataResponse(
        brokers=[
            broker(node_id=2, host="two", port=9093),
            broker(node_id=1, host="one", port=9092, rack="r1" if version >= 1 else None),
        ],
        cluster_id="cluster" if version >= 2 else None,
        controller_id=2 if version >= 1 else -1,
        topics=[
            topic(
                name="orders",
                topic_id=ID if version >= 10 else NO_UUID,
                is_internal=version >= 1,
                partitions=partitions,
                topic_authorized_operations=READ_AND_DESCRIBE if version >= 8 else NOT_TOLD,
            ),
            topic(name="nothing", error_code=3, partitions=[]),
        ],
        cluster_authorized_operations=READ_AND_DESCRIBE if 8 <= version <= 10 else NOT_TOLD,
    )


def _described_topics(version: int) -> dict[str, Any]:
    return {
        "orders": TopicDescription(
            name="orders",
            topic_id=ID if version >= 10 else NO_UUID,
            internal=version >= 1,
            partitions=(
                PartitionDescription(
                    0, 1, 4 if version >= 7 else -1, (1, 2), (1,), (2,) if version >= 5 else ()
                ),
                PartitionDescription(1, None, -1, (2,), (), ()),
            ),
            authorized_operations=PERMISSIONS if version >= 8 else None,
        ),
        "nothing": error_for(3, about="topic nothing"),
    }


def _listed_topics(version: int) -> dict[None, Any]:
    orders = TopicListing("orders", ID if version >= 10 else NO_UUID, version >= 1)
    return {None: {"nothing": TopicListing("nothing", NO_UUID, False), "orders": orders}}


def _cluster(version: int) -> DescribeClusterResponse:
    broker = DescribeClusterResponse.DescribeClusterBroker
    fenced = [broker(broker_id=3, host="three", port=1, is_fenced=True)] if version >= 2 else []
    return DescribeClusterResponse(
        cluster_id="cluster",
        controller_id=2,
        brokers=[
            broker(broker_id=2, host="two", port=9093),
            broker(broker_id=1, host="one", port=9092, rack="r1"),
            *fenced,
        ],
        cluster_authorized_operations=READ_AND_DESCRIBE,
    )


def _described_cluster(version: int) -> dict[None, Any]:
    fenced = (Broker(3, Endpoint("three", 1)),) if version >= 2 else ()
    return {None: ClusterDescription("cluster", TWO, (ONE, TWO), fenced, PERMISSIONS)}


def _cluster_by_metadata(version: int) -> dict[None, Any]:
    one = ONE if version >= 1 else ONE._replace(rack=None)
    return {
        None: ClusterDescription(
            "cluster" if version >= 2 else None,
            TWO if version >= 1 else None,
            (one, TWO),
            (),
            PERMISSIONS if 8 <= version <= 10 else None,
        )
    }


def _configs(version: int) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        results=[
            result(
                error_message=None,
                resource_type=2,
                resource_name="orders",
                configs=[
                    entry(
                        name="retention.ms",
                        value="1",
                        read_only=False,
                        config_source=1,
                        is_sensitive=False,
                        synonyms=[entry.DescribeConfigsSynonym(name="log.retention.ms", value="2", source=5)],
                        config_type=5 if version >= 3 else 0,
                        documentation="how long" if version >= 3 else "",
                    )
                ],
            ),
            result(error_code=42, error_message="no", resource_type=4, resource_name="1", configs=[]),
        ]
    )


def _described_configs(version: int) -> dict[ConfigResource, Any]:
    entry = ConfigEntry(
        name="retention.ms",
        value="1",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        is_read_only=False,
        is_sensitive=False,
        type=ConfigType.LONG if version >= 3 else ConfigType.UNKNOWN,
        synonyms=(ConfigSynonym("log.retention.ms", "2", ConfigSource.DEFAULT_CONFIG),),
        documentation="how long" if version >= 3 else None,
    )
    return {TOPIC: {"retention.ms": entry}, BROKER: error_for(42, "no", about="configs of broker 1")}


def _altered_configs(_version: int) -> IncrementalAlterConfigsResponse:
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=[
            result(error_message=None, resource_type=2, resource_name="orders"),
            result(error_code=40, error_message="no such name", resource_type=4, resource_name="1"),
        ]
    )


def _groups(version: int) -> ListGroupsResponse:
    group = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(
        groups=[
            group(
                group_id="billing",
                protocol_type="consumer",
                group_state="Stable" if version >= 4 else "",
                group_type="Consumer" if version >= 5 else "",
            )
        ]
    )


def _listed_groups(version: int) -> dict[int, Any]:
    kind = GroupType.CONSUMER if version >= 5 else GroupType.UNKNOWN
    state = GroupState.STABLE if version >= 4 else GroupState.UNKNOWN
    return {1: (GroupListing("billing", kind, "consumer", state),)}


def _modern_groups(version: int) -> ConsumerGroupDescribeResponse:
    group = ConsumerGroupDescribeResponse.DescribedGroup

    def assignment(*partitions: int) -> ConsumerGroupDescribeResponseAssignment:
        topic = ConsumerGroupDescribeResponseTopicPartitions
        return ConsumerGroupDescribeResponseAssignment(
            topic_partitions=[topic(topic_id=ID, topic_name="orders", partitions=list(partitions))]
        )

    member = group.Member(
        member_id="m",
        instance_id="i",
        rack_id="r",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        assignment=assignment(0),
        target_assignment=assignment(0, 1),
        member_type=1 if version >= 1 else -1,
    )
    return ConsumerGroupDescribeResponse(
        groups=[
            group(
                group_id="billing",
                group_state="Reconciling",
                group_epoch=5,
                assignment_epoch=4,
                assignor_name="uniform",
                members=[member],
                authorized_operations=READ_AND_DESCRIBE,
            ),
            group(
                error_code=69,
                error_message="no",
                group_id="old",
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=[],
            ),
        ]
    )


def _described_modern_groups(version: int) -> dict[str, Any]:
    member = MemberDescription(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        host="/h",
        subscription=frozenset({"orders"}),
        assignment=frozenset({FIRST}),
        rack_id="r",
        target_assignment=frozenset({FIRST, TopicPartition("orders", 1)}),
        member_epoch=3,
        upgraded=True if version >= 1 else None,
    )
    description = ConsumerGroupDescription(
        group_id="billing",
        type=GroupType.CONSUMER,
        protocol_type="consumer",
        state=GroupState.RECONCILING,
        partition_assignor="uniform",
        members=(member,),
        group_epoch=5,
        target_assignment_epoch=4,
        authorized_operations=PERMISSIONS,
    )
    return {"billing": description, "old": error_for(69, "no", about="group old")}


SUBSCRIBED = ConsumerProtocolSubscription(topics=["orders"], rack_id="r")
ASSIGNED = ConsumerProtocolAssignment(
    assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="orders", partitions=[0])]
)


def _classic_groups(version: int) -> DescribeGroupsResponse:
    group = DescribeGroupsResponse.DescribedGroup
    member = group.DescribedGroupMember(
        member_id="m",
        group_instance_id="i" if version >= 4 else None,
        client_id="c",
        client_host="/h",
        member_metadata=b"\0\3" + SUBSCRIBED.encode(3),
        member_assignment=b"\0\1" + ASSIGNED.encode(1),
    )
    connector = group.DescribedGroupMember(
        member_id="w", client_id="c", client_host="/h", member_metadata=b"\0\1?", member_assignment=b"\0\1?"
    )
    return DescribeGroupsResponse(
        groups=[
            group(
                group_id="billing",
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[member],
                authorized_operations=READ_AND_DESCRIBE if version >= 3 else NOT_TOLD,
            ),
            group(
                group_id="sinks",
                group_state="Stable",
                protocol_type="connect",
                protocol_data="sessioned",
                members=[connector],
            ),
            group(group_id="gone", group_state="Dead", protocol_type="", protocol_data="", members=[]),
            group(
                error_code=30,
                group_id="secret",
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            ),
        ]
    )


def _described_classic_groups(version: int) -> dict[str, Any]:
    member = MemberDescription(
        member_id="m",
        group_instance_id="i" if version >= 4 else None,
        client_id="c",
        host="/h",
        subscription=frozenset({"orders"}),
        assignment=frozenset({FIRST}),
        rack_id="r",
    )
    connector = MemberDescription("w", None, "c", "/h", frozenset(), frozenset())
    described, stable = ConsumerGroupDescription, GroupState.STABLE
    return {
        "billing": described(
            "billing",
            GroupType.CLASSIC,
            "consumer",
            stable,
            "range",
            (member,),
            authorized_operations=PERMISSIONS if version >= 3 else None,
        ),
        "sinks": described("sinks", GroupType.CLASSIC, "connect", stable, "sessioned", (connector,)),
        "gone": error_for(69, about="group gone"),
        "secret": error_for(30, about="group secret"),
    }


def _deleted_groups(version: int) -> DeleteGroupsResponse:
    result = DeleteGroupsResponse.DeletableGroupResult
    told = "it has members" if version >= 3 else None
    return DeleteGroupsResponse(
        results=[result(group_id="billing"), result(group_id="audit", error_code=68, error_message=told)]
    )


def _committed(version: int) -> OffsetFetchResponse:
    epoch = 3 if version >= 5 else -1
    if version < 8:
        topic = OffsetFetchResponse.OffsetFetchResponseTopic
        partition = topic.OffsetFetchResponsePartition
        return OffsetFetchResponse(
            topics=[
                topic(
                    name="orders",
                    partitions=[
                        partition(
                            partition_index=0, committed_offset=9, committed_leader_epoch=epoch, metadata="m"
                        ),
                        partition(partition_index=1, committed_offset=-1, metadata=""),
                        partition(partition_index=2, committed_offset=-1, metadata=None, error_code=29),
                    ],
                )
            ]
        )
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    new_topic = group.OffsetFetchResponseTopics
    new_partition = new_topic.OffsetFetchResponsePartitions
    return OffsetFetchResponse(
        groups=[
            group(
                group_id="billing",
                topics=[
                    new_topic(
                        name="orders",
                        partitions=[
                            new_partition(
                                partition_index=0, committed_offset=9, committed_leader_epoch=3, metadata="m"
                            ),
                            new_partition(partition_index=1, committed_offset=-1, metadata=""),
                            new_partition(
                                partition_index=2, committed_offset=-1, metadata=None, error_code=29
                            ),
                        ],
                    )
                ],
            )
        ]
    )


def _listed_group_offsets(version: int) -> dict[str, Any]:
    refused = error_for(29, about="group billing, topic orders, partition 2")
    return {
        "billing": {
            FIRST: OffsetAndMetadata(9, "m", 3 if version >= 5 else None),
            TopicPartition("orders", 1): None,
            TopicPartition("orders", 2): refused,
        }
    }


def _altered_offsets(_version: int) -> OffsetCommitResponse:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    partition = topic.OffsetCommitResponsePartition
    return OffsetCommitResponse(
        topics=[
            topic(name="orders", partitions=[partition(partition_index=0)]),
            topic(name="users", partitions=[partition(partition_index=1, error_code=25)]),
        ]
    )


def _deleted_offsets(_version: int) -> OffsetDeleteResponse:
    topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
    partition = topic.OffsetDeleteResponsePartition
    return OffsetDeleteResponse(
        topics=[
            topic(name="orders", partitions=[partition(partition_index=0)]),
            topic(name="users", partitions=[partition(partition_index=1, error_code=86)]),
        ]
    )


def _offsets(version: int) -> ListOffsetsResponse:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = topic.ListOffsetsPartitionResponse
    epoch = 2 if version >= 4 else -1
    return ListOffsetsResponse(
        topics=[
            topic(
                name="orders",
                partitions=[partition(partition_index=0, offset=5, timestamp=8, leader_epoch=epoch)],
            ),
            topic(name="users", partitions=[partition(partition_index=1, error_code=29)]),
        ]
    )


def _listed_offsets(version: int) -> dict[TopicPartition, Any]:
    return {
        FIRST: ListedOffset(5, 8, 2 if version >= 4 else None),
        SECOND: error_for(29, about="topic users, partition 1"),
    }


GROUP_PARTITION = "group billing, topic users, partition 1"

CASES = [
    Case(
        CreateTopics(
            {
                "orders": NewTopic("orders", 6, 3, configs={"cleanup.policy": "compact"}),
                "users": NewTopic("users", assignments={0: [1, 2], 1: [2, 1]}),
                "plain": NewTopic("plain"),
            },
            30_000,
            validate_only=True,
        ),
        ["orders", "users", "plain"],
        _created,
        lambda version: {
            "orders": CreatedTopic(
                "orders",
                ID if version >= 7 else NO_UUID,
                6 if version >= 5 else -1,
                3 if version >= 5 else -1,
            ),
            "users": error_for(36, "it is there", about="topic users"),
        },
    ),
    Case(
        DeleteTopics(30_000),
        ["orders", "users"],
        _deleted,
        lambda version: {
            "orders": None,
            "users": error_for(73, "not here" if version >= 5 else None, about="topic users"),
        },
    ),
    Case(
        CreatePartitions(
            {"orders": NewPartitions(6), "users": NewPartitions(2, [[1, 2]])}, 30_000, validate_only=True
        ),
        ["orders", "users"],
        _grown,
        lambda _: {"orders": None, "users": error_for(37, "too few", about="topic users")},
    ),
    Case(
        DescribeTopics(include_authorized_operations=True),
        ["orders", "nothing"],
        _metadata,
        _described_topics,
    ),
    Case(ListTopics(), [None], _metadata, _listed_topics),
    Case(
        DescribeCluster(include_authorized_operations=True, include_fenced_brokers=True),
        [None],
        _cluster,
        _described_cluster,
    ),
    Case(
        DescribeClusterByMetadata(include_authorized_operations=True), [None], _metadata, _cluster_by_metadata
    ),
    Case(
        DescribeConfigs(["retention.ms"], include_synonyms=True, include_documentation=True),
        [TOPIC, BROKER],
        _configs,
        _described_configs,
    ),
    Case(
        IncrementalAlterConfigs(
            {
                TOPIC: [AlterConfigOp.set("retention.ms", "1"), AlterConfigOp.delete("segment.ms")],
                BROKER: [AlterConfigOp.append("a", "b"), AlterConfigOp.subtract("a", "c")],
            },
            validate_only=True,
        ),
        [TOPIC, BROKER],
        _altered_configs,
        lambda _: {TOPIC: None, BROKER: error_for(40, "no such name", about="configs of broker 1")},
    ),
    Case(ListGroups([], [GroupType.CLASSIC]), [1], _groups, _listed_groups),
    Case(
        DescribeConsumerGroups(include_authorized_operations=True),
        ["billing", "old"],
        _modern_groups,
        _described_modern_groups,
    ),
    Case(
        DescribeClassicGroups(include_authorized_operations=True),
        ["billing", "sinks", "gone", "secret"],
        _classic_groups,
        _described_classic_groups,
    ),
    Case(
        DeleteConsumerGroups(),
        ["billing", "audit"],
        _deleted_groups,
        lambda version: {
            "billing": None,
            "audit": error_for(68, "it has members" if version >= 3 else None, about="group audit"),
        },
    ),
    Case(ListGroupOffsets([FIRST, SECOND], False), ["billing"], _committed, _listed_group_offsets),
    Case(
        AlterGroupOffsets("billing", {FIRST: OffsetAndMetadata(9, "m", 3), SECOND: OffsetAndMetadata(1)}),
        [FIRST, SECOND],
        _altered_offsets,
        lambda _: {FIRST: None, SECOND: error_for(68, about=GROUP_PARTITION)},
    ),
    Case(
        DeleteGroupOffsets("billing"),
        [FIRST, SECOND],
        _deleted_offsets,
        lambda _: {FIRST: None, SECOND: error_for(86, about=GROUP_PARTITION)},
    ),
    Case(
        ListOffsets({FIRST: OffsetSpec.EARLIEST, SECOND: 1_000}, "read_uncommitted", 30_000),
        [FIRST, SECOND],
        _offsets,
        _listed_offsets,
    ),
]
