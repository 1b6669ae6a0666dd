"""A consumer group that the broker assigns (KIP-848): its members, its epochs, and what a heartbeat does.

    group epoch        goes up when a member comes, goes or subscribes anew, and when subscribed topics change
    assignment epoch   the group epoch that the target assignment was computed for
    member epoch       the assignment epoch that a member has reached (`modern_member` has the table)

A heartbeat updates the member, then the target if the group epoch is ahead and the last target is old enough,
then moves the member one step. Between heartbeats there are only timeouts and resolved regular expressions.
All checks come before the first change. `modern_service` finds groups; `coordinator` asks `check_…`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from kclient.broker.groups.base import GroupConfig, GroupRecord, GroupStore, GroupType
from kclient.broker.groups.modern_assignors import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    NOTHING,
    Partitions,
    Subscriber,
    TopicPartition,
)
from kclient.broker.groups.modern_checks import GroupChecks, check_epoch, fenced, unreleased
from kclient.broker.groups.modern_member import (
    LEFT_FOR_GOOD,
    LEFT_FOR_NOW,
    Member,
    MemberState,
    Step,
    reconcile,
    successor,
)
from kclient.broker.groups.modern_messages import Client, answer, owned_in, updated
from kclient.broker.groups.modern_records import (
    group_records,
    member_records,
    member_tombstones,
    regex_record,
)
from kclient.broker.groups.modern_regex import compile_regex
from kclient.broker.groups.modern_subscriptions import Subscriptions, TopicView
from kclient.broker.groups.modern_timers import GroupTimers
from kclient.clock import Clock
from kclient.errors import GroupMaxSizeReachedError
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

# A new group begins where Kafka's does: the first subscription makes it 2.
FIRST_EPOCH = 1


@dataclass(slots=True)
class Surroundings:
    """What all groups share. `assignment_interval_ms` is Kafka's group.consumer.assignment.interval.ms."""

    store: GroupStore
    topics: TopicView
    config: GroupConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    assignment_interval_ms: int = 1_000


class ConsumerGroup(GroupChecks):
    """One group. `replaces` are records that delete the group in whose place it comes.

    Some of its members may speak the classic protocol (`mixed`). When only those are left, `only_classic` is
    called, with whether they have to rebalance; from then on there is a classic group in its place.
    """

    type_name: ClassVar[GroupType] = "consumer"

    def __init__(
        self,
        group_id: str,
        around: Surroundings,
        only_classic: Callable[[ConsumerGroup, bool], None],
        replaces: Sequence[GroupRecord] = (),
    ) -> None:
        super().__init__(group_id, Subscriptions(around.topics))
        self.epoch: int = FIRST_EPOCH
        self.assignment_epoch: int = FIRST_EPOCH
        self.targets: dict[str, Partitions] = {}
        self._around = around
        self._only_classic = only_classic
        self._owners: dict[TopicPartition, str] = {}
        self._unsaved = list(replaces)
        self._changed: set[str] = set()
        self._saved: tuple[int, int] | None = None
        self._assigned_at = float("-inf")
        self._assigned_at_ms = 0
        self._topics_stale = False
        self._resolving: asyncio.Handle | None = None
        self.timers: GroupTimers = GroupTimers(around.loop, self._expire)

    @property
    def config(self) -> GroupConfig:
        return self._around.config

    @property
    def is_ready_for_classic(self) -> bool:
        """Could a classic group take its place, because only classic members are in it?"""
        return (
            bool(self.members)
            and all(member.classic is not None for member in self.members.values())
            and self.config.downgrades
            and len(self.members) <= self.config.group_max_size
        )

    @property
    def assignor(self) -> str:
        """The one that most members ask for."""
        asked = Counter(member.assignor for member in self.members.values() if member.assignor)
        return max(asked, key=asked.__getitem__, default=None) or DEFAULT_ASSIGNOR

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        """Join, or say that a member is alive and what it owns; the request has been checked by itself."""
        before, replaced = self._find(request)
        after = updated(before, request, client)
        if after.topic_regex != before.topic_regex:
            compile_regex(after.topic_regex)
        after = self.advance(before, after, owned_in(request), replaced)
        self.timers.joins.stop(after.member_id)
        self.timers.syncs.stop(after.member_id)
        self.save()
        return answer(request, before, after, self.config.group_consumer_heartbeat_interval_ms)

    def advance(
        self, before: Member, after: Member, owned: Partitions | None, replaced: str | None
    ) -> Member:
        """A member was heard of and is as `after` says: move the group on, and it. The caller saves."""
        if replaced is not None:
            self._hand_over(replaced, after.member_id)
        self.put(after)
        anew = self._resubscribed(before, after)
        self._assign_when_due()
        after = self._move_on(after, anew, owned)
        self.keep_alive(after)
        return after

    def keep_alive(self, member: Member) -> None:
        """The member was heard of: its session begins anew."""
        own = None if member.classic is None else member.classic.session_timeout_ms
        timeout = self.config.group_consumer_session_timeout_ms if own is None else own
        self.timers.sessions.start(member.member_id, timeout)

    def awaits_others(self, member: Member) -> bool:
        """Does somebody else still hold what the member is to have?"""
        missing = self.targets.get(member.member_id, NOTHING) - member.assigned.keys()
        return any(partition in self._owners for partition in missing)

    def leave(self, member_id: str, instance_id: str | None, epoch: int = LEFT_FOR_GOOD) -> None:
        """A member goes for good, or (static, `LEFT_FOR_NOW`) keeps its place until its session runs out."""
        member = self.member(member_id) if instance_id is None else self.static_member(instance_id)
        if instance_id is not None and member_id and member.member_id != member_id:
            raise fenced(member, member_id, instance_id)
        if epoch == LEFT_FOR_NOW:
            self.timers.revocations.stop(member.member_id)
            self.put(replace(member, epoch=LEFT_FOR_NOW, revoking={}))
            self.save()
        else:
            self.part_with([member.member_id])

    def part_with(self, member_ids: Iterable[str]) -> None:
        """Members are gone. What they had is for the others, in a classic group if only such are left."""
        for member_id in member_ids:
            self.release(member_id)
        if self.is_ready_for_classic:
            self.become_classic(rebalance=True)
        else:
            self._bump_if(True)
            self.save()

    def begin_with(self, members: Sequence[Member], epoch: int) -> None:
        """Be a group with members from the start, all of which have what they should at this epoch."""
        self.epoch = self.assignment_epoch = epoch
        for member in members:
            self.put(member)
            self.targets[member.member_id] = frozenset(member.assigned)
            self.keep_alive(member)
        self.subscriptions.look_again(members)

    def become_classic(self, *, rebalance: bool) -> None:
        self._only_classic(self, rebalance)

    def topics_changed(self) -> None:
        """Topics came, went or grew: match regular expressions again; the rest waits for a heartbeat."""
        self._topics_stale = True
        if any(member.topic_regex for member in self.members.values()):
            self._resolve()

    def tombstones(self) -> list[GroupRecord]:
        ids = sorted(self.members.keys() | self._changed)
        gone = [record for member_id in ids for record in member_tombstones(self.group_id, member_id)]
        gone += [regex_record(self.group_id, regex, None, 0) for regex in self.subscriptions.resolved]
        return gone + [(key, None) for key, _ in group_records(self.group_id, 0, 0, 0, 0)]

    def loaded(self) -> None:
        for member in self.members.values():
            self.keep_alive(member)
            if member.state is MemberState.UNREVOKED:
                self._time_revocation(member)
        self._saved = self.epoch, self.assignment_epoch
        self._changed.clear()
        self.topics_changed()

    def close(self) -> None:
        self.timers.stop()
        if self._resolving is not None:
            self._resolving.cancel()

    def _find(self, request: ConsumerGroupHeartbeatRequest) -> tuple[Member, str | None]:
        """The member that a heartbeat is from, and the id of the static member that it takes the place of."""
        joins, member_id, instance_id = request.member_epoch == 0, request.member_id, request.instance_id
        self.check_room(member_id)
        if instance_id is not None and (not joins or instance_id in self.static):
            member = self.static_member(instance_id)
            if joins:
                if member.epoch != LEFT_FOR_NOW and member.classic is None:
                    raise unreleased(member, member_id, instance_id)
                return successor(member, member_id), member.member_id
            if member.member_id != member_id:
                raise fenced(member, member_id, instance_id)
        elif joins:
            return self.members.get(member_id) or Member(member_id), None
        else:
            member = self.member(member_id)
        check_epoch(member, request.member_epoch, owned_in(request))
        return member, None

    def check_room(self, member_id: str) -> None:
        """May one more come, if it is one more?"""
        limit = self.config.group_consumer_max_size
        if len(self.members) >= limit and member_id not in self.members:
            raise GroupMaxSizeReachedError(
                f"The consumer group has reached its maximum capacity of {limit} members."
            )

    def _hand_over(self, old: str, new: str) -> None:
        target = self.targets.get(old, NOTHING)
        self.release(old)
        self.targets[new] = target

    def _resubscribed(self, before: Member, after: Member) -> bool:
        """Did the member subscribe anew? Moves the group epoch where the target has to follow."""
        renamed = before.topic_names != after.topic_names
        rematched = before.topic_regex != after.topic_regex
        resolved = self.subscriptions.is_resolved(after.topic_regex)
        if not resolved and self._resolving is None:
            self._resolving = self._around.loop.call_soon(self._resolve)
        self._bump_if(renamed or (rematched and resolved))
        return renamed or rematched

    def _bump_if(self, needed: bool) -> None:
        if needed or self._topics_stale:
            self._topics_stale = False
            self.epoch += self.subscriptions.look_again(self.members.values()) or needed

    def _resolve(self) -> None:
        self._resolving = None
        known = dict(self.subscriptions.resolved)
        changed = self.subscriptions.resolve(self.members.values())
        now = int(self._around.clock.wall() * 1000)
        records = [regex_record(self.group_id, regex, changed[regex], now) for regex in sorted(changed)]
        self._around.store.append(self.group_id, records)
        used = {regex: names for regex, names in changed.items() if names is not None}
        self._bump_if(any(names != known.get(regex, set()) for regex, names in used.items()))
        self.save()

    def _assign_when_due(self) -> None:
        """Compute the target for the group epoch; members that come together wait for one computation."""
        now, interval = self._around.loop.time(), self._around.assignment_interval_ms / 1000
        if self.epoch == self.assignment_epoch or now - self._assigned_at < interval:
            return
        subscribers = {
            member_id: Subscriber(
                self.subscriptions.ids(member), self.targets.get(member_id, NOTHING), member.instance_id
            )
            for member_id, member in self.members.items()
        }
        targets = ASSIGNORS[self.assignor](subscribers, self.subscriptions.counts())
        for member_id in self.members:
            if targets[member_id] != self.targets.get(member_id, NOTHING):
                self._changed.add(member_id)
        self.targets = targets
        self.assignment_epoch = self.epoch
        self._assigned_at, self._assigned_at_ms = now, int(self._around.clock.wall() * 1000)

    def _move_on(self, member: Member, resubscribed: bool, owned: Partitions | None) -> Member:
        if member.is_at(self.assignment_epoch) and not resubscribed:
            return member
        step = Step(
            target=self.targets.get(member.member_id, NOTHING),
            target_epoch=self.assignment_epoch,
            topics=self.subscriptions.ids(member),
            resubscribed=resubscribed,
            owned=owned,
            is_held=self._owners.__contains__,
        )
        after = reconcile(member, step)
        if after != member:
            self.put(after)
            self._time_revocation(after)
        return after

    def _time_revocation(self, member: Member) -> None:
        """A classic member has to join again, which is timed by itself."""
        if member.state is MemberState.UNREVOKED and member.classic is None:
            self.timers.revocations.start(member.member_id, member.rebalance_timeout_ms)
        else:
            self.timers.revocations.stop(member.member_id)

    def put(self, member: Member) -> None:
        """Have a member as it is now, after a heartbeat or a record of before a restart."""
        old = self.members.get(member.member_id)
        if old == member:
            return
        if old is not None:
            self._disown(old)
        self.members[member.member_id] = member
        self._owners.update(dict.fromkeys(member.held, member.member_id))
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self._changed.add(member.member_id)

    def release(self, member_id: str) -> None:
        """Have a member and all that it held no more."""
        member = self.members.pop(member_id)
        self._disown(member)
        self.targets.pop(member_id, None)
        self.timers.forget(member_id)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        self._changed.add(member_id)

    def _disown(self, member: Member) -> None:
        for partition in member.held:
            if self._owners.get(partition) == member.member_id:
                del self._owners[partition]

    def _expire(self, member_id: str) -> None:
        self.part_with([member_id])

    def save(self) -> None:
        """Store what has changed."""
        records, self._unsaved = self._unsaved, []
        for member_id in sorted(self._changed):
            member = self.members.get(member_id)
            if member is None:
                records += member_tombstones(self.group_id, member_id)
            else:
                records += member_records(self.group_id, member, self.targets.get(member_id, NOTHING))
        if self._saved != (self.epoch, self.assignment_epoch):
            self._saved = self.epoch, self.assignment_epoch
            seen, at = self.subscriptions.seen, self._assigned_at_ms
            records += group_records(self.group_id, *self._saved, seen, at)
        self._changed.clear()
        if records:
            self._around.store.append(self.group_id, records)
