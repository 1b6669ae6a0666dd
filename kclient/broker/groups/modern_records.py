"""Consumer groups (KIP-848) as Kafka keeps them in `__consumer_offsets`: keys, values, and both ways.

A key starts with an int16 that says what it is (3, 5, 6, 7, 8, 16), a value with an int16 version, always 0.
The values are flexible messages, the keys are not. `modern` writes them, `modern_service` replays them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, TypeVar

from kclient.broker.groups.base import GroupRecord
from kclient.broker.groups.modern_assignors import Partitions, TopicPartition, by_topic
from kclient.broker.groups.modern_member import ClassicSide, Member, MemberState
from kclient.wire.message import Data
from kclient.wire.schema import (
    Array,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    NullableStruct,
    String,
    Struct,
    Tag,
    Uuid,
)

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 5, 6, 7, 8, 16
KEY_VERSIONS = frozenset({GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})


class GroupKey(Data, versions="0", flexible="none"):
    """What is kept once per group."""

    kind: Int16
    group_id: String


class ItemKey(Data, versions="0", flexible="none"):
    """What is kept per member (`item` is its id) or per regular expression."""

    kind: Int16
    group_id: String
    item: String


class GroupValue(Data, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Annotated[Int64, Tag(0)] = 0


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMember(Struct):
    session_timeout_ms: Int32
    supported_protocols: Array[ClassicProtocol]


class MemberValue(Data, versions="0", flexible="0+"):
    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = None
    classic_member_metadata: Annotated[NullableStruct[ClassicMember], Tag(0)] = None


class TargetEpochValue(Data, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


class TargetPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class TargetValue(Data, versions="0", flexible="0+"):
    topic_partitions: Array[TargetPartitions]


class HeldPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Annotated[NullableArray[Int32], Tag(0)] = None


class CurrentValue(Data, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[HeldPartitions]
    partitions_pending_revocation: Array[HeldPartitions]


class RegexValue(Data, versions="0", flexible="0+"):
    topics: Array[String]
    version: Int64
    timestamp: Int64


D = TypeVar("D", bound=Data)
_VERSION = b"\x00\x00"


def group_key(kind: int, group_id: str) -> bytes:
    return GroupKey(kind=kind, group_id=group_id).encode(0)


def item_key(kind: int, group_id: str, item: str) -> bytes:
    return ItemKey(kind=kind, group_id=group_id, item=item).encode(0)


def stored(value: Data) -> bytes:
    return _VERSION + value.encode(0)


def restored(kind: type[D], value: bytes) -> D:
    return kind.decode(value[2:], 0)


def member_records(group_id: str, member: Member, target: Partitions) -> list[GroupRecord]:
    """Everything about one member."""
    about = MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=_stored_side(member.classic),
    )
    current = CurrentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_held(member.assigned),
        partitions_pending_revocation=_held(member.revoking),
    )
    given = [
        TargetPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic(target).items()
    ]
    return [
        (item_key(MEMBER, group_id, member.member_id), stored(about)),
        (item_key(TARGET, group_id, member.member_id), stored(TargetValue(topic_partitions=given))),
        (item_key(CURRENT, group_id, member.member_id), stored(current)),
    ]


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    return [(item_key(kind, group_id, member_id), None) for kind in (CURRENT, TARGET, MEMBER)]


def group_records(
    group_id: str, epoch: int, assignment_epoch: int, seen: int, assigned_at_ms: int
) -> list[GroupRecord]:
    """What the group itself is; `seen` stands for the topics that its epoch knows of."""
    target = TargetEpochValue(assignment_epoch=assignment_epoch, assignment_timestamp=assigned_at_ms)
    return [
        (group_key(GROUP, group_id), stored(GroupValue(epoch=epoch, metadata_hash=seen))),
        (group_key(TARGET_EPOCH, group_id), stored(target)),
    ]


def regex_record(group_id: str, regex: str, topics: Iterable[str] | None, now_ms: int) -> GroupRecord:
    """What a regular expression matches; None where nobody uses it any more."""
    key = item_key(REGEX, group_id, regex)
    if topics is None:
        return key, None
    return key, stored(RegexValue(topics=sorted(topics), version=0, timestamp=now_ms))


def with_metadata(member: Member, value: bytes) -> Member:
    about = restored(MemberValue, value)
    return replace(
        member,
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        client_id=about.client_id,
        client_host=about.client_host,
        topic_names=frozenset(about.subscribed_topic_names),
        topic_regex=about.subscribed_topic_regex or "",
        rebalance_timeout_ms=about.rebalance_timeout_ms,
        assignor=about.server_assignor,
        classic=_restored_side(about.classic_member_metadata),
    )


def with_assignment(member: Member, value: bytes) -> Member:
    current = restored(CurrentValue, value)
    return replace(
        member,
        epoch=current.member_epoch,
        previous_epoch=current.previous_member_epoch,
        state=MemberState(current.state),
        assigned=_restore_held(current.assigned_partitions, current.member_epoch),
        revoking=_restore_held(current.partitions_pending_revocation, current.member_epoch),
    )


def target_of(value: bytes) -> Partitions:
    topics = restored(TargetValue, value).topic_partitions
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _stored_side(side: ClassicSide | None) -> ClassicMember | None:
    if side is None:
        return None
    return ClassicMember(
        session_timeout_ms=side.session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in side.protocols],
    )


def _restored_side(stored: ClassicMember | None) -> ClassicSide | None:
    if stored is None:
        return None
    protocols = tuple((one.name, bytes(one.metadata)) for one in stored.supported_protocols)
    return ClassicSide(stored.session_timeout_ms, protocols)


def _held(held: Mapping[TopicPartition, int]) -> list[HeldPartitions]:
    return [
        HeldPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[held[topic_id, partition] for partition in partitions],
        )
        for topic_id, partitions in by_topic(held).items()
    ]


def _restore_held(topics: list[HeldPartitions], epoch: int) -> dict[TopicPartition, int]:
    """Records of before Kafka 4.3 lack the epochs: the member's own is the newest they can be."""
    return {
        (topic.topic_id, partition): since
        for topic in topics
        for partition, since in zip(
            topic.partitions, topic.assignment_epochs or [epoch] * len(topic.partitions), strict=True
        )
    }
