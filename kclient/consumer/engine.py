"""A consumer without its face: everything that `AsyncConsumer` and `Consumer` have in common.

What can be told before there is a connection (a subscription, an assignment) is kept from the beginning; the
rest is made by `opening`, on the event loop that the engine then works on. Coroutines run on that loop. Other
methods may be called from the application's thread: they change the subscription under its lock, no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from typing import Any

from kclient.clock import Clock, Deadline, SystemClock
from kclient.cluster.client import Cluster
from kclient.cluster.metadata import Metadata
from kclient.cluster.operations import run
from kclient.consumer.arguments import places, time_of, topic_partition
from kclient.consumer.assigned import chosen, standby
from kclient.consumer.bells import Bell
from kclient.consumer.buffer import FetchBuffer
from kclient.consumer.config import ConsumerConfig
from kclient.consumer.cursor import EARLIEST, LATEST, State
from kclient.consumer.decode import Decoder
from kclient.consumer.group.listeners import in_listener
from kclient.consumer.group.membership import Membership, chosen_assignors
from kclient.consumer.hooks import Hooks
from kclient.consumer.metrics import Counters
from kclient.consumer.offsets import ListOffsets, OffsetAndTimestamp
from kclient.consumer.opening import Opening, let_go
from kclient.consumer.poller import Poller, Wanted
from kclient.consumer.reader import Reader
from kclient.consumer.seam import Group, OffsetStore
from kclient.consumer.subscription import Subscription
from kclient.ending import Ending
from kclient.errors import (
    ClientClosedError,
    ConfigurationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    WakeupError,
)
from kclient.runtime import shared_lock
from kclient.types import OffsetAndMetadata, TopicPartition

# From another thread, the group is told of the application's calls at most so often, in seconds.
_TELL_EVERY = 0.05
# How much of the time for closing the group may take, so that some is left for tasks and sockets.
_GROUPS_SHARE = 0.9
# What ending tasks, and closing sockets, may take in any case, in seconds.
GRACE = 0.1


class Engine:
    """Reads, on one event loop."""

    def __init__(
        self,
        config: ConsumerConfig,
        bell: Bell,
        lock: AbstractContextManager[Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.bell = bell
        self.clock: Clock = clock or SystemClock()
        self.counters: Counters = Counters()
        self.subscription: Subscription = Subscription(
            exclude_internal_topics=config.exclude_internal_topics,
            lock=lock,
            on_change=self.changed,
            on_wake=bell.ring,
        )
        self.buffer: FetchBuffer = FetchBuffer(
            config.prefetch_max_bytes, self.subscription.lock, bell.ring, self._room_appeared
        )
        self.decoder: Decoder = Decoder(config.key_deserializer, config.value_deserializer, config.on_poison)
        hooks = Hooks(config.hooks) if config.hooks else None
        self.poller: Poller = Poller(self.subscription, self.buffer, self.decoder, self.counters, hooks)
        self.subscription.takes_one_by_one = self.poller.has_moved
        self.cluster: Cluster | None = None
        self.reader: Reader | None = None
        self.group: Group | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closed: bool = False
        self.ending: Ending = Ending()
        self.opening: Opening = Opening(self)
        self.forked: bool = False
        self._cut_short = False
        self.woken: bool = False
        self.last_poll: float | None = None
        self._threads = lock is not None
        self._sees_all_topics = False  # or has asked for them
        self._polled = 0.0  # when the group was told last
        self.membership: Membership | None = None
        self._settings = config.group_settings()
        if self._settings is not None:
            chosen_assignors(
                self._settings.partition_assignment_strategy
            )  # complain now, not in the background
        self._listener: object | None = None

    # Life

    @property
    def begun(self) -> bool:
        return self.reader is not None and self.cluster is not None

    def begin(self) -> None:
        """The cluster was found: begin to work, unless that was begun before."""
        cluster = self.cluster
        if cluster is None or self.reader is not None:
            return
        self._sees_all_topics = self.opening.sees_all_topics
        self.reader = Reader(cluster, self.config, self.subscription, self.buffer, self.clock, self.counters)
        self.reader.standby = partial(standby, self)
        if self._settings is not None:
            self.membership = Membership(cluster, self._settings, self.subscription)
            self.group, self.reader.store = self.membership, self.membership.commits
        cluster.metadata.listen(self._metadata_changed)
        cluster.tasks.when_failed(lambda _: self.subscription.wake())
        self._subscription_changed()
        self.reader.start()
        if self.group is not None:
            self.group.start()

    async def close(self, timeout_ms: float) -> None:
        """Leave the group and close all connections, by the deadline.

        Each step has its share of the time, and the connections are closed whatever became of the others.
        Who comes later waits for the end of what the first call began.
        """
        if not self.closed:
            self.closed = True
            self.bell.ring()
            cluster, loop = self.cluster, self.loop
            if cluster is not None and loop is not None:
                cluster.tasks.expect_end()
                deadline = Deadline.after(loop, timeout_ms / 1000)
                self.ending.begin(partial(self._close, cluster, loop, deadline), partial(self._cut, cluster))
        await self.opening.end()
        if in_listener():  # the end waits for it
            return
        await self.ending.wait(timeout_ms / 1000 + 2 * GRACE)

    async def _close(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, deadline: Deadline) -> None:
        try:
            if self.group is not None and not self._cut_short:
                share = deadline.remaining(loop) * _GROUPS_SHARE
                await self.group.close(deadline.earlier(loop, share))  # a listener may still commit
        finally:
            self.cluster = None
            await let_go(self.buffer, cluster, self.reader, max(GRACE, deadline.remaining(loop) / 2))

    def _cut(self, cluster: Cluster) -> None:
        """Closing was cut short: have everything end by itself, and what is not committed be read again."""
        self._cut_short = True
        self.cluster = None
        if self.group is not None:
            self.group.retire()
        if self.reader is not None:
            self.reader.retire()
        cluster.retire()

    def opened(self) -> Cluster:
        """The cluster, once there is one, and while it works."""
        if self.cluster is not None and self.reader is not None:
            self.cluster.tasks.check()
            return self.cluster
        self.check_process()
        if self.closed:
            raise ClientClosedError("this consumer was closed")
        raise IllegalStateError("this consumer was not started: use a with block, or call start()")

    def forget(self) -> None:
        """In a forked child: loop, connections and records are the parent's."""
        self.forked, self.closed, self.cluster, self.reader = True, True, None, None
        self.poller.in_hand, self.woken = iter(()), True  # so that none of them is looked for
        self.subscription.lock = shared_lock()  # another thread may have held it

    def check_process(self) -> None:
        """Raise that this is not the process in which it was made, if that is so."""
        if self.forked:
            raise ClientClosedError("a consumer does not survive fork: make one in the child")

    # For the application's calls that wait for records

    def wish(
        self, partitions: Iterable[TopicPartition], max_records: int | None, default: int | None = None
    ) -> tuple[Wanted, int | None]:
        """What a call for records asks for: which partitions, None for all, and at most how many records."""
        wanted = frozenset(map(topic_partition, partitions)) or None
        if max_records is None:
            return wanted, default
        if max_records < 1:
            raise ConfigurationError(f"max_records={max_records} must be at least 1")
        return wanted, max_records

    def begin_poll(self, now: float) -> None:
        """The application asks for records."""
        self.opened()
        self.last_poll = now
        if self.group is not None and (not self._threads or now - self._polled > _TELL_EVERY):
            self._polled = now
            self.post(self.group.polled)
        self.check()
        self.finish_batch()
        self.raise_complaint()  # also where other topics have records, of which there may always be some

    def finish_batch(self) -> None:
        """The application is done with all it got: it asks for more, closes or unsubscribes."""
        self.poller.begin()
        self._tell_of_return()

    def _tell_of_return(self) -> None:
        # The flag is read after the change that the group waits for, and set before the group looks for it.
        if self.subscription.awaited and self.group is not None:
            self.post(self.group.came_back)

    def check(self) -> None:
        """Raise what a call for records has to know at once."""
        self.check_failures()
        # Only calls for records take it: one that seeks has done what it was asked for, and the loop that the
        # wake-up was to end would go on.
        if self.woken:
            self.woken = False
            raise WakeupError("wakeup() was called")

    def check_failures(self) -> None:
        """Raise why nothing can be waited for any more."""
        if self.closed:
            raise ClientClosedError("this consumer was closed")
        self.opened()
        error = None if self.group is None else self.group.take_error()
        if error is not None:
            raise error

    def check_complaints(self) -> None:
        """Raise what keeps records from coming, where there are none."""
        self.check()
        self.raise_complaint()
        self.buffer.starve()

    def raise_complaint(self) -> None:
        """Raise what keeps this consumer from reading, each cause once and again with growing pauses."""
        error = None if self.reader is None else self.reader.complaints.take(self.subscription.wants)
        if error is not None:
            raise error

    def wakeup(self) -> None:
        """End the application's waiting; the bell is rung by the caller, who knows from where he calls."""
        self.woken = True
        self.poller.hold_back()

    # Changes

    def post(self, callback: Callable[[], None]) -> None:
        """Have something done on the loop."""
        self.check_process()
        if self.loop is None or self.loop.is_closed():
            return
        if self._threads:
            self.loop.call_soon_threadsafe(callback)
        else:
            callback()

    def changed(self) -> None:
        """Cursors have changed: the workers have to look at them."""
        self.check_process()
        if self.reader is not None:
            self.post(self.reader.changed)
        self._tell_of_return()

    def subscription_changed(self, listener: object | None) -> None:
        """Topics, or a pattern, are subscribed to, or no more."""
        self._listener = listener
        if self.reader is not None:
            self.post(self._subscription_changed)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these."""
        self.subscription.assign_by_hand(partitions)
        if self.group is not None:
            self.post(self.group.assigned_by_hand)

    def unsubscribe(self) -> None:
        """Nothing is to be read. The listener stays: it is told of what is given up now."""
        self.subscription.unsubscribe(in_group=self.group is not None)
        if self.reader is not None:
            self.post(self._unsubscribed)

    def _unsubscribed(self) -> None:
        if self.group is not None:
            self.group.unsubscribed()
        self._subscription_changed()

    def _subscription_changed(self) -> None:
        assert self.cluster is not None
        subscription = self.subscription
        by_pattern = subscription.pattern is not None
        if by_pattern and self._sees_all_topics:
            subscription.match(self.cluster.metadata.snapshot)
        elif by_pattern or self._sees_all_topics:
            self.cluster.metadata.follow_all(by_pattern)
        self._sees_all_topics = by_pattern
        if self.group is not None:
            self.group.listen(self._listener)
            self.group.subscription_changed()
        else:
            self._assign_all(self.cluster.metadata.snapshot)
        if self.reader is not None:
            self.reader.changed()

    def _metadata_changed(self, snapshot: Metadata) -> None:
        changed = self.subscription.match(snapshot)
        if self.group is None:
            self._assign_all(snapshot)
        elif changed:
            self.group.subscription_changed()

    def _assign_all(self, snapshot: Metadata) -> None:
        """Without a group, a subscription is to all partitions of its topics, also to those to come."""
        subscription = self.subscription
        if not subscription.subscribing:
            return
        wanted = {
            TopicPartition(name, number)
            for name in subscription.topics
            if name in snapshot.topics
            for number in snapshot.topics[name].partitions
        }
        assigned = subscription.assigned()
        gone = {partition for partition in assigned - wanted if partition.topic not in subscription.topics}
        if gone:
            subscription.revoke(gone)
        if wanted - assigned:
            subscription.assign(sorted(wanted - assigned))

    def _room_appeared(self) -> None:
        if self.reader is not None:
            self.post(self.reader.wake_fetchers)

    # Questions

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The next offset that the application gets; waits until it is known."""
        asked = topic_partition(partition)
        return (await self.positions([asked], timeout_ms))[asked]

    async def positions(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The same of many."""
        cluster, reader = self.opened(), self.reader
        assert reader is not None
        deadline = cluster.deadline(timeout_ms)
        lacking: set[str] = set()
        try:
            async with asyncio.timeout_at(deadline.at):
                while True:
                    found = {each: self.subscription.cursor(each).position for each in partitions}
                    known = {each: position for each, position in found.items() if position is not None}
                    if len(known) == len(found):
                        return known
                    lacking = {each.topic for each in found.keys() - known.keys()}
                    self.check_failures()
                    reader.complaints.check(lacking)
                    self.buffer.starve()
                    self._check_stuck(found)
                    await reader.progress()
        except TimeoutError:
            late = deadline.expired("finding positions")
            reasons = [*reader.complaints.texts(lacking), *cluster.complaints()]
            if reasons:
                late = KafkaTimeoutError(f"{late}: {'; '.join(reasons)}")
            raise late from reader.last_error

    def _check_stuck(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Raise why there will be no position, where only a seek helps."""
        for chunk in self.buffer.snapshot():
            lacks = positions.get(chunk.cursor.partition, 0) is None
            if lacks and chunk.failure is not None and chunk.cursor.state is State.STUCK:
                raise copy(chunk.failure)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is as late as its timestamp; None where there is none."""
        targets = {partition: time_of(timestamp) for partition, timestamp in timestamps.items()}
        found = await self._list_offsets(targets, timeout_ms)
        return {partition: offset if offset.offset >= 0 else None for partition, offset in found.items()}

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition that can be read."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST), timeout_ms)
        return {partition: offset.offset for partition, offset in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will have; of those visible to this consumer."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST), timeout_ms)
        return {partition: offset.offset for partition, offset in found.items()}

    async def _list_offsets(
        self, targets: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        cluster = self.opened()
        committed_only = self.config.isolation_level == "read_committed"
        targets = {topic_partition(each): target for each, target in targets.items()}
        operation = ListOffsets(targets, committed_only, {})
        outcomes = await run(cluster, operation, list(targets), cluster.deadline(timeout_ms))
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        for partition, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                raise outcome
            found[partition] = outcome
        return found

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """The topics of the cluster that this client may see."""
        cluster = self.opened()
        wanted_all = self.subscription.pattern is not None
        cluster.metadata.follow_all()
        try:
            snapshot = await cluster.metadata.refreshed(cluster.deadline(timeout_ms))
        finally:
            if not wanted_all:
                cluster.metadata.follow_all(False)
        return {
            topic.name
            for topic in snapshot.topics.values()
            if not (topic.internal and self.config.exclude_internal_topics)
        }

    async def seek_to(
        self, partitions: Collection[TopicPartition], target: int, *, waits: bool = True
    ) -> dict[TopicPartition, int]:
        """Go to the beginning, the end or a timestamp; waits until the position is known."""
        self.opened()
        found = await chosen(self, partitions, waits=waits)
        self.subscription.reset(found, target)
        return await self.positions(found)

    async def seek_to_committed(
        self, partitions: Collection[TopicPartition], *, waits: bool = True
    ) -> dict[TopicPartition, int | None]:
        """Go where the group committed; where it has not, nothing moves and the answer is None."""
        self.opened()
        committed = await self.committed(await chosen(self, partitions, waits=waits))
        for partition, offset in committed.items():
            if offset is not None:
                epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
                self.subscription.seek(partition, offset.offset, epoch)
        return {
            partition: None if offset is None else offset.offset for partition, offset in committed.items()
        }

    # The group's offsets

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | tuple[int, str] | int] | None,
        timeout_ms: float | None = None,
    ) -> None:
        cluster = self.opened()
        given = None if offsets is None else places(offsets)
        await self.offset_store().commit(cluster.deadline(timeout_ms), given)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        cluster = self.opened()
        return await self.offset_store().committed(partitions, cluster.deadline(timeout_ms))

    def offset_store(self) -> OffsetStore:
        self.opened()
        if self.membership is None:
            raise IllegalStateError("offsets are committed for a group: give the consumer a group_id")
        return self.membership.commits
