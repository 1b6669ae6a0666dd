"""Who may do what in a consumer group (KIP-848): the half of `ConsumerGroup` that only reads.

Everything here answers or raises the `BrokerError` that answers a request, in Kafka's words; nothing changes.
"""

from __future__ import annotations

from uuid import UUID

from kclient.broker.groups.modern_assignors import Partitions
from kclient.broker.groups.modern_member import Member
from kclient.broker.groups.modern_subscriptions import Subscriptions
from kclient.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    IllegalGenerationError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedVersionError,
)

# OffsetCommit has had room for member epochs since then.
_COMMIT_WITH_EPOCH = 9


class GroupChecks:
    """Members, and what they may do."""

    epoch: int
    assignment_epoch: int

    def __init__(self, group_id: str, subscriptions: Subscriptions) -> None:
        self.group_id = group_id
        self.subscriptions = subscriptions
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}

    def __repr__(self) -> str:
        size = len(self.members)
        return f"<ConsumerGroup {self.group_id!r} {self.state_name} at {self.epoch}, {size} members>"

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_at(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str | None) -> Member:
        found = self.members.get(member_id or "")
        if found is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def static_member(self, instance_id: str) -> Member:
        if instance_id not in self.static:
            raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
        return self.members[self.static[instance_id]]

    def check_commit(self, member_id: str, epoch: int, instance_id: str | None, version: int) -> None:  # noqa: ARG002
        """An older epoch will do for some partitions: `check_commit_of` knows for which."""
        if epoch < 0 and not self.members:
            return
        member = self.member(member_id)
        if version < _COMMIT_WITH_EPOCH and member.classic is None:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if epoch > member.epoch:
            raise _stale(member, epoch)

    def check_commit_of(self, member_id: str, epoch: int, topic_id: UUID, partition: int) -> None:
        """May the member commit for a partition, perhaps with an older epoch at which it had it already?"""
        member = self.members.get(member_id)
        if member is None or epoch == member.epoch:
            return  # what is left to refuse was refused by `check_commit`
        since = member.held.get((topic_id, partition))
        if since is None or epoch < since:
            raise _stale(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id)
        if epoch != member.epoch:
            raise _stale(member, epoch)

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroupError

    def check_offset_delete(self) -> None:
        """Allowed in every state; topics that somebody consumes are looked at one by one."""

    def holder(self, member_id: str, instance_id: str | None) -> Member:
        """The member of these ids; a static member is the one that holds its instance id now."""
        member = self.member(member_id) if instance_id is None else self.static_member(instance_id)
        if instance_id is not None and member.member_id != member_id:
            raise fenced(member, member_id, instance_id)
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.subscriptions.names(member) for member in self.members.values())

    def offsets_expire_from(self, committed_at_ms: int) -> int | None:
        return committed_at_ms

    def describe(self) -> None:
        """DescribeGroups is for classic groups."""


def check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """The epoch of a heartbeat. The previous one will do: the answer with the new one may have been lost."""
    if epoch == member.epoch:
        return
    lost = epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys()
    if epoch > member.epoch or not lost:
        relation = "greater" if epoch > member.epoch else "smaller"
        raise FencedMemberEpochError(
            f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the "
            f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )


def fenced(member: Member, member_id: str, instance_id: str) -> FencedInstanceIdError:
    return FencedInstanceIdError(
        f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
    )


def unreleased(member: Member, member_id: str, instance_id: str) -> UnreleasedInstanceIdError:
    return UnreleasedInstanceIdError(
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
        f"instance id is owned by {member.member_id} member."
    )


def _stale(member: Member, epoch: int) -> BrokerError:
    if member.classic is not None:
        return IllegalGenerationError(
            f"The received generation id {epoch} does not match the expected member epoch {member.epoch}."
        )
    return StaleMemberEpochError(
        f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
    )
