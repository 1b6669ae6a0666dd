"""A classic group: its state, generation and members, and what may be done with it as things are.

It changes through `joining`, `syncing` and `rebalance`, which are functions on it; its record is what is left
of it after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kclient.broker.groups import rebalance
from kclient.broker.groups.answers import join_refused, sync_refused
from kclient.broker.groups.base import GroupHost, GroupRecord, GroupType
from kclient.broker.groups.members import Member, Members
from kclient.broker.groups.records import GroupMetadataKey, GroupMetadataValue, write
from kclient.broker.groups.states import TRANSITIONS, Event, State
from kclient.broker.groups.timers import Timers
from kclient.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    NonEmptyGroupError,
    NotCoordinatorError,
    ProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kclient.wire.messages.group_admin import DescribeGroupsResponse
from kclient.wire.messages.group_protocol import ConsumerProtocolSubscription

CONSUMER = "consumer"
_VALUE_VERSION = 3
_NEVER = -1


class ClassicGroup:
    """One group whose members assign partitions among themselves."""

    type_name: ClassVar[GroupType] = "classic"

    def __init__(self, group_id: str, host: GroupHost) -> None:
        self.group_id = group_id
        self.host = host
        self.state: State = State.EMPTY
        self.previous: State = State.DEAD
        self.since_ms: int = self._now()
        self.generation: int = 0
        self.protocol_type: str = ""
        self.protocol_name: str | None = None
        self.members: Members = Members()
        # What the members of this generation consume; None where that cannot be known.
        self.subscribed: frozenset[str] | None = None
        # Somebody came during the initial delay, which is then waited for once more.
        self.newcomers = False
        self.timers: Timers = Timers()

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id} {self.state.value} generation={self.generation} "
            f"members={len(self.members)}>"
        )

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    def move(self, event: Event) -> None:
        """Go where the table says; an event that the state does not know is a bug here."""
        self.previous, self.state = self.state, TRANSITIONS[self.state, event]
        self.since_ms = self._now()

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Could somebody with these protocols work with the members there are?"""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and self.members.speaks(protocols)

    def add(self, member: Member, protocol_type: str) -> None:
        if not len(self.members):
            self.protocol_type = protocol_type
        self.members.add(member)

    def begin_with(self, members: Sequence[Member], generation: int) -> None:
        """Be a stable group of consumers from the start."""
        self.state = State.STABLE
        self.generation = generation
        for member in members:
            self.add(member, CONSUMER)
        self.protocol_name = self.members.select_protocol()
        self.subscribed = self._subscriptions()

    def give_way(self) -> None:
        """Another kind of group takes its place: its members go on there, those who wait with a join."""
        for member in self.members:
            member.answer_join(join_refused(RebalanceInProgressError, member.member_id))
            member.answer_sync(sync_refused(RebalanceInProgressError))
        self.close()

    def next_generation(self) -> None:
        self.generation += 1
        self.members.unsynced.clear()
        self.protocol_name = self.members.select_protocol() if len(self.members) else None
        self.subscribed = self._subscriptions()
        self.move(Event.GATHERED if len(self.members) else Event.DESERTED)

    def check_generation(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Is it a member, and does it know of the present generation?"""
        if self.state is State.DEAD:
            raise CoordinatorNotAvailableError(about=f"group {self.group_id}")
        self.members.check(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGenerationError(about=f"generation {generation} of group {self.group_id}")

    def check_commit(self, member_id: str, epoch: int, instance_id: str | None, version: int) -> None:  # noqa: ARG002
        if self.state is State.DEAD:
            raise CoordinatorNotAvailableError(about=f"group {self.group_id}")
        if epoch < 0 and self.state is State.EMPTY:
            return
        if epoch < 0 and not member_id and instance_id is None:
            raise UnknownMemberIdError(about=f"a commit without a member id to group {self.group_id}")
        self.check_generation(member_id, instance_id, epoch)
        if self.state is State.COMPLETING:
            # The member knows the generation but has no assignment yet, so it commits what it had before.
            raise RebalanceInProgressError(about=f"group {self.group_id}")
        rebalance.keep_alive(self, self.members[member_id])

    def check_fetch(self, member_id: str | None, epoch: int) -> None:  # noqa: ARG002 - anybody may
        self._check_alive()

    def check_delete(self) -> None:
        self._check_alive()
        if self.state is not State.EMPTY:
            raise NonEmptyGroupError(about=f"group {self.group_id}")

    def check_offset_delete(self) -> None:
        self._check_alive()
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER:
            raise NonEmptyGroupError(about=f"group {self.group_id}")

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed

    def offsets_expire_from(self, committed_at_ms: int) -> int | None:
        if not self.protocol_type:
            return committed_at_ms
        if self.state is State.EMPTY:
            return committed_at_ms if self.since_ms == _NEVER else self.since_ms
        if self.state is State.STABLE and self.protocol_type == CONSUMER and self.subscribed is not None:
            return committed_at_ms
        return None

    def describe(self) -> DescribeGroupsResponse.DescribedGroup:
        shown = self.protocol_name if self.state is State.STABLE else None
        return DescribeGroupsResponse.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=shown or "",
            members=[
                DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.protocols[shown] if shown is not None else b"",
                    member_assignment=member.assignment,
                )
                for member in self.members
            ],
        )

    def record(self, assignments: dict[str, bytes] | None = None) -> GroupRecord:
        """The group as it is, with the assignments that it will have once this is stored."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.members.leader,
            current_state_timestamp=self.since_ms,
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.protocols[self.protocol_name or ""],
                    assignment=member.assignment if assignments is None else assignments[member.member_id],
                )
                for member in self.members
            ],
        )
        return self._key(), write(value, _VALUE_VERSION)

    def tombstones(self) -> list[GroupRecord]:
        return [(self._key(), None)]

    def replay(self, value: GroupMetadataValue) -> None:
        """Be as a record says. Members know the chosen protocol only; they tell the rest when they join."""
        self.state = State.STABLE if value.members else State.EMPTY
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol_name = value.protocol
        self.since_ms = value.current_state_timestamp
        self.members = Members()
        self.members.leader = value.leader
        for saved in value.members:
            timeout = saved.session_timeout if saved.rebalance_timeout == -1 else saved.rebalance_timeout
            self.members.add(
                Member(
                    member_id=saved.member_id,
                    instance_id=saved.group_instance_id,
                    client_id=saved.client_id,
                    client_host=saved.client_host,
                    rebalance_timeout_ms=timeout,
                    session_timeout_ms=saved.session_timeout,
                    protocols={value.protocol or "": bytes(saved.subscription)},
                    assignment=bytes(saved.assignment),
                )
            )
        self.subscribed = self._subscriptions()

    def loaded(self) -> None:
        for member in self.members:
            rebalance.keep_alive(self, member)
        if len(self.members) > self.host.config.group_max_size:
            rebalance.begin(self)

    def close(self) -> None:
        self.move(Event.REMOVED)
        self.timers.cancel_all()
        for member in self.members:
            member.answer_join(join_refused(NotCoordinatorError, member.member_id))
            member.answer_sync(sync_refused(NotCoordinatorError))

    def _check_alive(self) -> None:
        if self.state is State.DEAD:
            raise GroupIdNotFoundError(f"Group {self.group_id} is in dead state.")

    def _key(self) -> bytes:
        return write(GroupMetadataKey(group=self.group_id), 2)

    def _now(self) -> int:
        return int(self.host.clock.wall() * 1000)

    def _subscriptions(self) -> frozenset[str] | None:
        """All topics that consumers sent; version 0 of their message is the beginning of every other."""
        if self.protocol_type != CONSUMER or (len(self.members) and self.protocol_name is None):
            return None
        topics: set[str] = set()
        try:
            for member in self.members:
                metadata = member.protocols[self.protocol_name or ""]
                topics.update(ConsumerProtocolSubscription.decode_from(metadata, 2, 0)[0].topics)
        except ProtocolError:
            return None
        return frozenset(topics)
