"""One kind of group in the place of the other while members are in it (KIP-848, "online migration").

Up, when the first member of the new protocol comes to a classic group of consumers: members keep what the
last assignment gave them, and their generation is the group's first epoch. Down, when the last member of the
new protocol goes: members keep what they were meant to have, and the group's epoch is their generation.

Here is what the other group is made of. `modern_service` puts it in its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from kclient.broker.groups.base import GroupConfig, GroupHost
from kclient.broker.groups.classic import CONSUMER, ClassicGroup
from kclient.broker.groups.embedded import read_assignment, read_subscription, write_assignment
from kclient.broker.groups.members import Member as ClassicMember
from kclient.broker.groups.modern import ConsumerGroup
from kclient.broker.groups.modern_assignors import NOTHING, Partitions
from kclient.broker.groups.modern_member import ClassicSide, Member
from kclient.broker.groups.modern_subscriptions import Subscriptions
from kclient.errors import GroupIdNotFoundError, ProtocolError


def check_upgrade(group: ClassicGroup, config: GroupConfig) -> None:
    """May the group become a consumer group? Raises why not, in Kafka's words."""
    if not config.upgrades:
        raise _no_upgrade(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise _no_upgrade(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > config.group_consumer_max_size:
        raise _no_upgrade(group, "the group size exceeds the consumer group maximum size.")


def upgrade(group: ClassicGroup, into: ConsumerGroup) -> None:
    """Have a new consumer group begin with the members of a classic one."""
    try:
        members = list(_modern_members(group, into.subscriptions))
    except ProtocolError as error:
        raise _no_upgrade(group, "the embedded consumer protocol is malformed.") from error
    into.begin_with(members, group.generation)


def downgraded(group: ConsumerGroup, host: GroupHost) -> ClassicGroup:
    """A stable classic group of the members of a consumer group, all of which speak that protocol."""
    classic = ClassicGroup(group.group_id, host)
    classic.begin_with([_classic_member(member) for member in group.members.values()], group.epoch)
    for member in classic.members:
        target = group.subscriptions.by_name(group.targets.get(member.member_id, NOTHING))
        member.assignment = write_assignment(target, member.protocols[classic.protocol_name or ""])
    return classic


def _no_upgrade(group: ClassicGroup, why: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    )


def _modern_members(group: ClassicGroup, subscriptions: Subscriptions) -> Iterator[Member]:
    """A partition that two members were given, as some assignors do, is the first one's."""
    # There is no name before the first generation, but all members speak something.
    name = group.protocol_name or group.members.select_protocol()
    taken: set[object] = set()
    for member in group.members:
        subscription = read_subscription(member.protocols[name])
        assigned = _assigned(group, member, subscriptions) - taken
        taken |= assigned
        yield Member(
            member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=dict.fromkeys(assigned, group.generation),
            classic=ClassicSide(member.session_timeout_ms, tuple(member.protocols.items())),
        )


def _assigned(group: ClassicGroup, member: ClassicMember, subscriptions: Subscriptions) -> Partitions:
    """Who has not synced in this generation was given nothing."""
    if not member.assignment:
        return NOTHING
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _no_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation "
            "or switch to a default assignor before re-attempting the upgrade.",
        )
    return subscriptions.by_id({topic.topic: topic.partitions for topic in assignment.assigned_partitions})


def _classic_member(member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=dict(member.classic.protocols),
    )
