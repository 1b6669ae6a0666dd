"""All consumer groups (KIP-848) of a broker: finds or makes a request's group, describes, replays records.

Handlers call `heartbeat` and `describe`, the server `topics_changed`; for the coordinator this is the
`RecordReader` of its kinds of records. Groups live in the coordinator's dict, next to classic ones.
"""

from __future__ import annotations

from dataclasses import replace

from kclient.broker.groups import rebalance
from kclient.broker.groups.base import Group, GroupHouse
from kclient.broker.groups.classic import ClassicGroup
from kclient.broker.groups.migration import check_upgrade, downgraded, upgrade
from kclient.broker.groups.modern import ConsumerGroup, Surroundings
from kclient.broker.groups.modern_assignors import NOTHING, TopicPartition, by_topic
from kclient.broker.groups.modern_member import LEFT_FOR_GOOD, LEFT_FOR_NOW, Member
from kclient.broker.groups.modern_messages import Client, check_request, new_member_id
from kclient.broker.groups.modern_records import (
    CURRENT,
    GROUP,
    KEY_VERSIONS,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    GroupKey,
    GroupValue,
    ItemKey,
    RegexValue,
    TargetEpochValue,
    restored,
    target_of,
    with_assignment,
    with_metadata,
)
from kclient.errors import BrokerError, GroupIdNotFoundError
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup
_CLASSIC_MEMBER, _MODERN_MEMBER = 0, 1


class ConsumerGroups:
    """The consumer groups among those of a house."""

    key_versions = KEY_VERSIONS

    def __init__(self, house: GroupHouse, around: Surroundings) -> None:
        self._house = house
        self._groups = house.groups
        self._around = around

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        """Answer ConsumerGroupHeartbeat, or raise the error that does."""
        check_request(request, version)
        if request.member_epoch in (LEFT_FOR_GOOD, LEFT_FOR_NOW):
            self._existing(request.group_id).leave(
                request.member_id, request.instance_id, request.member_epoch
            )
            return ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
            )
        group, replaced = self._joined(request)
        if not request.member_id:
            request = ConsumerGroupHeartbeatRequest(
                **{name: getattr(request, name) for name in request._names}
                | {"member_id": new_member_id(self._house.random)}
            )
        try:
            response = group.heartbeat(request, client)
        except BrokerError:
            if self._groups.get(request.group_id) is not group:
                group.close()
            raise
        if self._groups.get(request.group_id) is not group:
            if isinstance(replaced, ClassicGroup):
                replaced.give_way()
            self._groups[request.group_id] = group
        return response

    def describe(self, group_id: str) -> DescribedGroup:
        """A group as ConsumerGroupDescribe shows it."""
        return _described(self._existing(group_id))

    def topics_changed(self) -> None:
        """Topics have come, gone or grown."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                group.topics_changed()

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of before the restart."""
        kind = int.from_bytes(key[:2], "big")
        if kind in (GROUP, TARGET_EPOCH):
            self._replay_group(kind, GroupKey.decode(key, 0).group_id, value)
        else:
            of = ItemKey.decode(key, 0)
            self._replay_item(kind, of.group_id, of.item, value)

    def _replay_group(self, kind: int, group_id: str, value: bytes | None) -> None:
        if value is None:
            if kind == GROUP and isinstance(self._groups.get(group_id), ConsumerGroup):
                del self._groups[group_id]
        elif kind == GROUP:
            of, group = restored(GroupValue, value), self._restored(group_id)
            group.epoch, group.subscriptions.seen = of.epoch, of.metadata_hash
        else:
            self._restored(group_id).assignment_epoch = restored(TargetEpochValue, value).assignment_epoch

    def _replay_item(self, kind: int, group_id: str, item: str, value: bytes | None) -> None:
        if value is None and not isinstance(self._groups.get(group_id), ConsumerGroup):
            return
        group = self._restored(group_id)
        if kind == REGEX:
            names = () if value is None else restored(RegexValue, value).topics
            group.subscriptions.resolved[item] = frozenset(names)
        elif kind == TARGET:
            if value is None:
                group.targets.pop(item, None)
            else:
                group.targets[item] = target_of(value)
        elif kind == MEMBER and value is None:
            if item in group.members:
                group.release(item)
        elif kind in (MEMBER, CURRENT):
            member = group.members.get(item) or Member(item)
            if value is None:
                group.put(replace(member, assigned={}, revoking={}))
            else:
                group.put((with_metadata if kind == MEMBER else with_assignment)(member, value))

    def _restored(self, group_id: str) -> ConsumerGroup:
        """The group that records are about; one that only holds offsets gives way."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            group = self._groups[group_id] = self._made(group_id)
        return group

    def _joined(self, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup, Group | None]:
        """The group of a heartbeat, new where it begins one, and the classic group that gives way to it."""
        group_id = request.group_id
        found = self._groups.get(group_id)
        if isinstance(found, ConsumerGroup):
            return found, None
        if request.member_epoch != 0:
            if found is None:
                raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        made = self._made(group_id, found)
        if isinstance(found, ClassicGroup) and not found.is_empty:
            check_upgrade(found, self._around.config)
            upgrade(found, into=made)
        return made, found

    def _made(self, group_id: str, replaced: Group | None = None) -> ConsumerGroup:
        tombstones = replaced.tombstones() if replaced else ()
        return ConsumerGroup(group_id, self._around, self._downgrade, tombstones)

    def _downgrade(self, group: ConsumerGroup, has_to_rebalance: bool) -> None:
        """Have a classic group where only classic members are left."""
        classic = downgraded(group, self._house)
        self._house.append(group.group_id, [*group.tombstones(), classic.record()])
        group.close()
        self._groups[group.group_id] = classic
        classic.loaded()
        if has_to_rebalance:
            rebalance.changed(classic)

    def _existing(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        return group


def refused(group_id: str, error: BrokerError) -> DescribedGroup:
    """What ConsumerGroupDescribe shows of a group that it cannot show."""
    return DescribedGroup(
        group_id=group_id,
        error_code=error.code,
        error_message=error.message,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _described(group: ConsumerGroup) -> DescribedGroup:
    names = group.subscriptions.topic_names()

    def shown(partitions: frozenset[TopicPartition]) -> ConsumerGroupDescribeResponseAssignment:
        """Topics that have been deleted have no name to show."""
        return ConsumerGroupDescribeResponseAssignment(
            topic_partitions=[
                ConsumerGroupDescribeResponseTopicPartitions(
                    topic_id=topic_id, topic_name=names[topic_id], partitions=numbers
                )
                for topic_id, numbers in by_topic(partitions).items()
                if topic_id in names
            ]
        )

    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            DescribedGroup.Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topic_names),
                subscribed_topic_regex=member.topic_regex,
                assignment=shown(frozenset(member.held)),
                target_assignment=shown(group.targets.get(member.member_id, NOTHING)),
                member_type=_MODERN_MEMBER if member.classic is None else _CLASSIC_MEMBER,
            )
            for member in group.members.values()
        ],
    )
