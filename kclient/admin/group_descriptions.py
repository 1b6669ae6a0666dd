"""Groups as they are described: the values, and how the answers of both protocols become them.

Classic members tell each other their subscriptions and assignments in messages that the broker does not read
(`kclient.wire.messages.group_protocol`); they are decoded here where the group is one of consumers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

from kclient.admin.permissions import AclOperation, read_operations
from kclient.cluster.metadata import Broker
from kclient.errors import GroupIdNotFoundError, KafkaError, ProtocolError, error_for
from kclient.types import TopicPartition
from kclient.wire.message import Data
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
)
from kclient.wire.messages.group_admin import DescribeGroupsResponse
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

D = TypeVar("D", bound=Data)

_CONSUMER = "consumer"
_CLASSIC_MEMBER = 0


class _Word(StrEnum):
    """A word from the wire, whatever its case; one that this version of kclient does not know is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        known = {member.lower(): member for member in cls}
        return known.get(str(value).lower(), cls["UNKNOWN"])


class GroupType(_Word):
    """The protocol that a group follows; before Kafka 3.8 brokers do not tell when they list groups."""

    UNKNOWN = "Unknown"
    CONSUMER = "consumer"
    CLASSIC = "classic"
    SHARE = "share"
    STREAMS = "streams"


class GroupState(_Word):
    """What a group is doing; before Kafka 2.6 brokers do not tell when they list groups."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group that exists. `protocol_type` is "consumer", "connect" …, or "" if it only has offsets."""

    group_id: str
    type: GroupType
    protocol_type: str
    state: GroupState


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group.

    `target_assignment` is what it shall have once the group has come to rest; it and `member_epoch` are None
    in classic groups. `upgraded` says whether a member of a broker-assigned group speaks that protocol itself
    (None before Kafka 4.0).
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    subscription: frozenset[str]
    assignment: frozenset[TopicPartition]
    rack_id: str | None = None
    subscribed_topic_regex: str | None = None
    target_assignment: frozenset[TopicPartition] | None = None
    member_epoch: int | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group and its members; the epochs are None in classic groups, the coordinator while it is unknown."""

    group_id: str
    type: GroupType
    protocol_type: str
    state: GroupState
    partition_assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: Broker | None = None
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it has only ever committed offsets, without members."""
        return not self.protocol_type


def read_modern_group(
    group: ConsumerGroupDescribeResponse.DescribedGroup,
) -> ConsumerGroupDescription | KafkaError:
    """A group that the broker assigns."""
    return error_for(
        group.error_code, group.error_message, about=f"group {group.group_id}"
    ) or ConsumerGroupDescription(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        protocol_type=_CONSUMER,
        state=GroupState(group.group_state),
        partition_assignor=group.assignor_name,
        members=tuple(_modern_member(member) for member in group.members),
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
        authorized_operations=read_operations(group.authorized_operations),
    )


def _modern_member(member: ConsumerGroupDescribeResponse.DescribedGroup.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        subscription=frozenset(member.subscribed_topic_names),
        assignment=_assigned(member.assignment),
        rack_id=member.rack_id,
        subscribed_topic_regex=member.subscribed_topic_regex or None,
        target_assignment=_assigned(member.target_assignment),
        member_epoch=member.member_epoch,
        upgraded=None if member.member_type < 0 else member.member_type != _CLASSIC_MEMBER,
    )


def _assigned(assignment: ConsumerGroupDescribeResponseAssignment) -> frozenset[TopicPartition]:
    return _partitions((topic.topic_name, topic.partitions) for topic in assignment.topic_partitions)


def _partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(name, number) for name, numbers in topics for number in numbers)


def read_classic_group(group: DescribeGroupsResponse.DescribedGroup) -> ConsumerGroupDescription | KafkaError:
    """A classic group. One that does not exist is an error, whatever the broker's age."""
    about = f"group {group.group_id}"
    error = error_for(group.error_code, group.error_message, about=about)
    if error is not None:
        return error
    state = GroupState(group.group_state)
    if state is GroupState.DEAD:
        # How brokers before 4.0 describe a group that is not there.
        return GroupIdNotFoundError(about=about)
    try:
        members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    except ProtocolError as malformed:
        return malformed
    return ConsumerGroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        protocol_type=group.protocol_type,
        state=state,
        partition_assignor=group.protocol_data,
        members=members,
        authorized_operations=read_operations(group.authorized_operations),
    )


def _classic_member(
    member: DescribeGroupsResponse.DescribedGroup.DescribedGroupMember, protocol_type: str
) -> MemberDescription:
    """What members tell each other can be read if they are consumers, and is empty during a rebalance."""
    subscription: frozenset[str] = frozenset()
    assignment: frozenset[TopicPartition] = frozenset()
    rack_id = None
    if protocol_type == _CONSUMER and member.member_metadata:
        told = _decode(ConsumerProtocolSubscription, member.member_metadata)
        subscription, rack_id = frozenset(told.topics), told.rack_id
    if protocol_type == _CONSUMER and member.member_assignment:
        given = _decode(ConsumerProtocolAssignment, member.member_assignment)
        assignment = _partitions((topic.topic, topic.partitions) for topic in given.assigned_partitions)
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        subscription=subscription,
        assignment=assignment,
        rack_id=rack_id,
    )


def _decode(kind: type[D], data: bytes) -> D:
    """A message that begins with its version. Newer versions only add at the end, which is left unread."""
    version = int.from_bytes(data[:2], "big", signed=True)
    message, _ = kind.decode_from(data, 2, max(0, min(version, kind.versions.last)))
    return message
