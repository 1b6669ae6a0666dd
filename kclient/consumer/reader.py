"""Everything that works for a consumer in the background: who is asked for what, spread over the brokers.

Runs on the client's event loop. `changed` is called whenever a cursor, the subscription or the metadata has
changed; in the loop's next turn the cursors are looked at once, and the workers that they need are woken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from math import ceil

from kclient.clock import Clock
from kclient.cluster.client import Cluster
from kclient.cluster.metadata import Metadata
from kclient.cluster.retry import LEADERS_AT_ONCE
from kclient.cluster.rights import lacking, user_of
from kclient.consumer.answers import Policy
from kclient.consumer.buffer import FetchBuffer
from kclient.consumer.complaints import Complaints
from kclient.consumer.config import ConsumerConfig
from kclient.consumer.cursor import EARLIEST, LATEST, Cursor, Event, State
from kclient.consumer.ends import Ends
from kclient.consumer.fetcher import Fetcher
from kclient.consumer.metrics import Counters
from kclient.consumer.positioner import Lookup, Positioner
from kclient.consumer.seam import OffsetStore
from kclient.consumer.subscription import Subscription
from kclient.consumer.unreadable import Found, about_partitions, about_pattern, about_topics, answered, failed
from kclient.consumer.worker import Worker
from kclient.errors import AuthorizationError, InvalidTopicError, KafkaConnectionError, KafkaError
from kclient.types import TopicPartition

log: logging.Logger = logging.getLogger(__name__)


class Reader:
    """The workers of one consumer, and what they share."""

    def __init__(  # noqa: PLR0913, PLR0917 - what they share
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        buffer: FetchBuffer,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.subscription = subscription
        self.buffer = buffer
        self.clock = clock
        self.metrics = counters
        self.store: OffsetStore | None = None
        self.policy: Policy = Policy(
            check_crcs=config.check_crcs,
            committed_only=config.isolation_level == "read_committed",
            may_reset=config.auto_offset_reset != "none",
            limits=config.limits,
        )
        self.last_error: KafkaError | None = None
        self.complaints: Complaints = Complaints(self._end_waiting, self.look_soon)
        # Says so, if this consumer belongs to a group and was given nothing.
        self.standby: Callable[[], str | None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._backoff = cluster.brief_backoff()
        self._fetchers: dict[int, Fetcher] = {}
        self._positioners: dict[int, Positioner] = {}
        self._lookup: Lookup | None = None
        self._ends: Ends | None = None
        self._followed: frozenset[str] = frozenset()
        self._scheduled: asyncio.Handle | None = None
        self._looking: asyncio.Handle | None = None
        self._leaderless: list[TopicPartition] = []
        self._troubled: dict[Cursor, None] = {}
        self._asking: asyncio.TimerHandle | None = None
        self._pulse: asyncio.Future[None] = self._loop.create_future()
        self._closed = False

    def start(self) -> None:
        self._lookup = Lookup(self)
        self.cluster.metadata.listen(lambda _: self.changed())
        self.changed()

    async def close(self) -> None:
        """End all workers."""
        self.retire()
        await asyncio.gather(*(worker.stop() for worker in self._workers()))

    def retire(self) -> None:
        """Tell all workers to end; does not wait."""
        self._closed = True
        for handle in (self._scheduled, self._looking, self._asking):
            if handle is not None:
                handle.cancel()
        self.complaints.close()
        for worker in self._workers():
            worker.retire()

    def changed(self) -> None:
        """Look at everything again, once, in the loop's next turn."""
        if self._scheduled is None and not self._closed:
            self._scheduled = self._loop.call_soon(self._spread)

    async def progress(self) -> None:
        """Wait until something may have changed for the better."""
        await asyncio.shield(self._pulse)

    def wake_fetchers(self) -> None:
        """There is room for answers again."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    def watch_ends(self) -> None:
        """Something may not be fetched for a while."""
        if self._ends is None and not self._closed:
            self._ends = Ends(self)
        if self._ends is not None:
            self._ends.wake()

    # For the workers

    def source(self, cursor: Cursor, snapshot: Metadata, now: float) -> int | None:
        """The broker to fetch from: the leader, or for a while the replica that it named (KIP-392)."""
        replica = cursor.replica
        if replica is not None and now < cursor.replica_until and replica in snapshot.brokers:
            return replica
        return snapshot.leader(cursor.partition)

    def target(self, cursor: Cursor) -> int:
        """What a cursor without a position is to be reset to."""
        if cursor.target is not None:
            return cursor.target
        age = self.config.reset_age()
        if age is not None:
            return max(0, int(self.clock.wall() * 1000 - age))
        return EARLIEST if self.config.auto_offset_reset == "earliest" else LATEST

    def failed(self, cursor: Cursor, error: KafkaError) -> None:
        """A broker would not answer about a cursor: find out who does."""
        if error.refresh_metadata or error.retriable:
            self.cluster.metadata.ask()
        self.put_off(cursor, error)

    def put_off(self, cursor: Cursor, error: KafkaError | None) -> None:
        """Leave a cursor alone for a while. With a reason, that is said if it lasts, or cannot pass."""
        if cursor.backoff is None:
            cursor.backoff = self.cluster.backoff()
        cursor.not_before = self._loop.time() + cursor.backoff.next()
        if error is None:
            return
        if isinstance(error, AuthorizationError):
            lacking(error, "Read", self.cluster.config)
            # At whole seconds: else each partition of a topic would soon have a request of its own.
            cursor.not_before = ceil(cursor.not_before)
        cursor.trouble = error
        self._troubled[cursor] = None
        self.report(error, f"{cursor.partition.topic}-{cursor.partition.partition}")

    def turned(self, cursor: Cursor) -> None:
        """Another broker is to be asked about a cursor: at once, unless that has helped nothing for long."""
        if cursor.backoff is None:
            cursor.backoff = self.cluster.backoff()
        pause = cursor.backoff.next()
        if cursor.backoff.attempts > LEADERS_AT_ONCE:
            cursor.not_before = self._loop.time() + pause

    def recovered(self, cursor: Cursor) -> None:
        """A broker has answered about a cursor that was left alone for a while."""
        cursor.backoff = cursor.trouble = None
        if cursor in self._troubled:
            del self._troubled[cursor]
            self.look_soon()

    def report(self, error: KafkaError, about: str) -> None:
        """Note what went wrong; who is told of it is found out in a moment."""
        log.debug("%s: %s", about, error)
        self.last_error = error
        self.look_soon()

    # What is the matter

    def look_soon(self) -> None:
        """Find out what is the matter, once, in the loop's next turn.

        Not the business of `changed`, which would end the pauses of the workers whose troubles these are.
        """
        if self._looking is None and not self._closed:
            self._looking = self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Find out what keeps this consumer from reading."""
        self._looking = None
        subscription, snapshot = self.subscription, self.cluster.metadata.snapshot
        present: Found = {}
        for worker in self._workers():
            if worker.trouble is not None and _is_ours_to_tell(worker.trouble):
                present |= failed(worker.trouble, worker.name)
        # Nobody asks about what is paused: nobody would hear that its trouble has passed.
        self._troubled = {each: None for each in self._troubled if not (each.dropped or each.paused)}
        for cursor in self._troubled:
            if cursor.trouble is not None and _is_ours_to_tell(cursor.trouble):
                present |= answered(cursor.trouble, cursor.partition.topic)
        present |= about_partitions(self._leaderless, snapshot)
        present |= about_topics(
            self._followed, self.complaints.present, snapshot, user_of(self.cluster.config)
        )
        pattern = subscription.pattern
        if pattern is not None and not subscription.topics and subscription.subscribed() is not None:
            present |= about_pattern(pattern.pattern)
        idle = not subscription.cursors and not present
        self.complaints.found(present, self.standby() if idle else None)

    def _end_waiting(self) -> None:
        """Have the application's calls, those for records and those for positions, look at the complaints."""
        self.subscription.wake()
        self._beat()

    def _beat(self) -> None:
        pulse, self._pulse = self._pulse, self._loop.create_future()
        pulse.set_result(None)

    def _workers(self) -> list[Worker]:
        others: list[Worker] = [each for each in (self._lookup, self._ends) if each is not None]
        return [*self._fetchers.values(), *self._positioners.values(), *others]

    # Spreading

    def _spread(self) -> None:
        self._scheduled = None
        self._beat()
        snapshot = self.cluster.metadata.snapshot
        self._follow()
        leaderless: list[TopicPartition] = []
        nodes: set[int] = set()
        leaders: set[int] = set()
        looking = paused = False
        now = self._loop.time()
        with self.subscription.lock:
            for cursor in self.subscription.cursors.values():
                leader = snapshot.leader(cursor.partition)
                if leader is None:
                    leaderless.append(cursor.partition)
                _see_leader(cursor, snapshot)
                paused = paused or cursor.paused
                if cursor.state is State.FETCHING:
                    source = self.source(cursor, snapshot, now)
                    if source is not None:
                        nodes.add(source)
                elif cursor.state is State.LOOKING_UP:
                    looking = True
                elif leader is not None and cursor.state in (State.RESETTING, State.VALIDATING):
                    leaders.add(leader)
        self._wake(nodes, leaders, looking)
        if paused:
            self.watch_ends()
        self._retire(snapshot)
        self._leaderless = leaderless
        self._ask_again(bool(leaderless or self._undescribed(snapshot)))
        self._look()

    def _wake(self, nodes: Iterable[int], leaders: Iterable[int], looking: bool) -> None:
        for node in nodes:
            if node not in self._fetchers:
                self._fetchers[node] = Fetcher(self, node)
            self._fetchers[node].wake()
        for node in leaders:
            if node not in self._positioners:
                self._positioners[node] = Positioner(self, node)
            self._positioners[node].wake()
        if looking and self._lookup is not None:
            self._lookup.wake()

    def _retire(self, snapshot: Metadata) -> None:
        """Let go of brokers that have left the cluster."""
        known: tuple[dict[int, Fetcher], dict[int, Positioner]] = (self._fetchers, self._positioners)
        for workers in known:
            for node in [node for node in workers if node not in snapshot.brokers]:
                workers.pop(node).retire()

    def _follow(self) -> None:
        subscription, metadata = self.subscription, self.cluster.metadata
        wanted = subscription.topics | {partition.topic for partition in subscription.assigned()}
        if wanted != self._followed:
            metadata.follow(wanted - self._followed)
            metadata.forget(self._followed - wanted)
            self._followed = wanted

    def _undescribed(self, snapshot: Metadata) -> list[str]:
        """The topics that are not there, or not for this client, but may be later."""
        final = InvalidTopicError.code
        return [each for each in snapshot.errors.keys() & self._followed if snapshot.errors[each] != final]

    def _ask_again(self, lacking: bool) -> None:
        """While a topic, or a partition's leader, is not known, ask again and again, more and more slowly."""
        if not lacking:
            self._backoff.reset()
            if self._asking is not None:
                self._asking.cancel()
                self._asking = None
        elif self._asking is None and self._followed:
            self._asking = self._loop.call_later(self._backoff.next(), self._ask)

    def _ask(self) -> None:
        self._asking = None
        metadata = self.cluster.metadata
        for topic in self._undescribed(metadata.snapshot):
            metadata.ask(topic)
        if any(partition.topic not in metadata.snapshot.errors for partition in self._leaderless):
            metadata.ask()


def _is_ours_to_tell(error: KafkaError) -> bool:
    """Not what is between this client and its brokers, or coordinators: `Cluster` says that for all."""
    return not isinstance(error, (KafkaConnectionError, TimeoutError))


def _see_leader(cursor: Cursor, snapshot: Metadata) -> None:
    """A new leader may lack records that were read; unless it wrote the last of them itself (KIP-320)."""
    topic = snapshot.topics.get(cursor.partition.topic)
    known = topic.partitions.get(cursor.partition.partition) if topic else None
    if known is None or known.leader_epoch == cursor.leader_epoch:
        return
    cursor.leader_epoch = known.leader_epoch
    cursor.replica = None
    if cursor.state is State.FETCHING and 0 <= cursor.fetch_epoch < known.leader_epoch:
        cursor.happens(Event.NEW_LEADER)
