"""What both producers are made of: accumulator, dispatcher and cluster, from open to closed. On the loop.

`AsyncProducer` and `Producer` add the ways to call it; the latter calls `accumulator.append` from any thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from time import time_ns

from kclient.clock import Deadline, fine_time
from kclient.cluster.client import Cluster
from kclient.cluster.metadata import Topic
from kclient.cluster.rights import lacking
from kclient.ending import Ending
from kclient.errors import (
    BufferFullError,
    ClientClosedError,
    KafkaError,
    KafkaTimeoutError,
    error_for,
)
from kclient.producer.accumulator import CHUNK_BYTES, Accumulator, Urgency
from kclient.producer.config import ProducerConfig
from kclient.producer.delivery import Chunk
from kclient.producer.dispatch import Dispatcher
from kclient.producer.many import Many, columns_from, packed_pieces, pieces_of
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.part import packed_sizes
from kclient.producer.records import check_topic
from kclient.producer.sought import no_such_partition
from kclient.producer.stamps import GivenStamps, SystemStamps
from kclient.records.packed import Packed
from kclient.runtime import brief_lock

# Chunks of Arrow are larger: spreading and encoding them costs little per record and more per chunk.
_PACKED_BYTES = 4 * CHUNK_BYTES


def _always() -> bool:
    return True


class Core:
    """A running producer. `threads` says that records are appended from other threads than the loop's."""

    def __init__(self, config: ProducerConfig, *, threads: bool, random: Random | None = None) -> None:
        self.config = config
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.cluster: Cluster = Cluster(config, auto_create_topics=True, random=random)
        wake = self._wake_from_thread if threads else self._wake
        clock = config.clock
        stamps = SystemStamps() if clock is None else GivenStamps(clock, fine_time(self.loop))
        self.accumulator: Accumulator = Accumulator(config, brief_lock(), wake, self.loop.time, stamps)
        self.dispatcher: Dispatcher = Dispatcher(config, self.cluster, self.accumulator)
        self.dispatcher.start()
        self.cluster.tasks.when_failed(self.accumulator.refuse)
        self.cluster.metadata.start()
        # Calls of `close` under way, each with a deadline of its own: whether somebody waits for it.
        self._closers: list[Callable[[], bool]] = []
        # Closing has delivered what was there before it: callbacks had their chance to send more.
        self._last_words_said = False
        # What was not delivered when it ended, in words; empty where all was.
        self.given_up: str = ""
        # Whether the end of the program was told that there were such, see `unclosed`.
        self.said_lost = False
        self._last_metrics: ProducerMetrics | None = None
        # Whether that is given up, and tasks and connections are told to end.
        self.ended: bool = False
        self.ending: Ending = Ending()

    def _wake(self, urgency: Urgency) -> None:
        self.dispatcher.wake(urgency)

    def _wake_from_thread(self, urgency: Urgency) -> None:
        # A signal handler may close the producer after `send` has appended its record and before this; a loop
        # that is closed has drained everything.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.dispatcher.wake_now, urgency)

    async def topic(self, name: str, deadline: Deadline) -> Topic:
        """What is known of a topic, waiting until something is."""
        check_topic(name)
        self.cluster.tasks.check()
        metadata = self.cluster.metadata
        fresh = False
        while True:
            metadata.look_up(name)
            topic = metadata.snapshot.topics.get(name)
            if topic is not None and topic.partitions:
                return topic
            error = error_for(metadata.snapshot.errors.get(name, 0), about=f"topic {name}")
            lacking(error, "Write", self.cluster.config)
            if error is not None and not error.retriable and fresh:
                raise error
            try:
                await metadata.refreshed(deadline, name)
                fresh = True
            except KafkaTimeoutError as late:
                reason = error or metadata.last_error
                raise KafkaTimeoutError(
                    f"topic {name} was not known within {deadline.seconds:g} s (max_block_ms): "
                    f"{reason or 'the cluster did not answer'}"
                ) from (reason or late)

    async def seek_partition(self, deadline: Deadline) -> None:
        """Ask once whether a partition was added, for a record that wants one which is not known."""
        await self.cluster.metadata.refreshed(deadline)

    def may_lack(self, topic: str, partition: int | None) -> bool:
        """Whether it is not certain that a topic has a partition that records want."""
        return partition is not None and partition >= self.accumulator.topics.get(topic, 0)

    async def find_partition(self, topic: str, partition: int | None, deadline: Deadline) -> None:
        """Wait until the topic is known; ask once whether the partition was added, and raise if not."""
        await self.topic(topic, deadline)
        if self.may_lack(topic, partition):
            await self.seek_partition(deadline)
            self.check_partition(topic, partition)

    def check_partition(self, topic: str, partition: int | None) -> None:
        """Refuse a partition that a topic, if it is known, does not have."""
        if self.accumulator.lacks(topic, partition):
            assert partition is not None
            raise no_such_partition(topic, partition, self.accumulator.topics[topic])

    async def room(self, deadline: Deadline) -> None:
        """Wait until memory is given back."""
        woken: asyncio.Future[None] = self.loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        self.accumulator.when_room(wake, self.accumulator.given_back)
        try:
            async with asyncio.timeout_at(deadline.at):
                await woken
        except TimeoutError:
            raise self.buffer_full(deadline.seconds) from None
        finally:
            self.accumulator.no_longer_waiting(wake)

    def buffer_full(self, seconds: float) -> BufferFullError:
        """The error for a caller that found no room within its time."""
        reason = self.cluster.metadata.last_error
        why = f"; the cluster does not answer: {reason}" if reason else ""
        return BufferFullError(
            f"buffer_memory={self.config.buffer_memory} bytes stayed full for {seconds:g} s (max_block_ms): "
            f"records are sent faster than they are delivered{why}"
        )

    def gather(self, many: Many) -> tuple[list[Chunk], int | None]:
        """Many records as chunks, checked, and the highest partition that any of them is meant for."""
        clock = self.config.clock
        now_ms = time_ns() // 1_000_000 if clock is None else int(clock.wall() * 1000)
        columns = columns_from(self.config, many, now_ms)
        most = self.config.buffer_memory
        if isinstance(columns.keys, Packed) and isinstance(columns.values, Packed):
            packed = packed_sizes(columns.keys, columns.values)
            largest = int(packed.argmax()) if len(packed) else -1
            size_of_largest = int(packed[largest]) if len(packed) else 0
            pieces = packed_pieces(columns, packed, min(_PACKED_BYTES, most))
        else:
            sizes = columns.sizes()
            size_of_largest = max(sizes, default=0)
            largest = sizes.index(size_of_largest) if sizes else -1
            pieces = pieces_of(columns, sizes, min(CHUNK_BYTES, most))
        self.accumulator.check_size(many.topic, size_of_largest, many.name(largest))
        chunks = []
        for piece, size in pieces:
            chunk = self.accumulator.new_chunk(many.topic)
            chunk.columns, chunk.size = piece, size
            chunks.append(chunk)
        highest = max((given for given in columns.given or () if given is not None), default=None)
        return chunks, highest

    async def flush(self, deadline: Deadline) -> None:
        """Wait until everything sent before is settled."""
        self.cluster.tasks.check()
        if not await self.dispatcher.flush(deadline):
            raise deadline.expired(f"flushing: {self._left()}, which")

    async def close(self, deadline: Deadline, waits: Callable[[], bool] = _always) -> None:
        """Deliver what is there, as far as time allows, and end; raises if records were left undelivered.

        Callers that come while it closes wait for the same records, each until its own deadline. With the
        last of them, also one that is cancelled, what is not delivered is given up.

        `waits` says whether the caller is still there: one on another thread may have been interrupted. Then
        closing goes on until this deadline, or that of another caller who is there.

        Callbacks of what is delivered meanwhile may still send, dead letters for example; callbacks of those
        may not, as it would never end.
        """
        closed = ClientClosedError("the producer is closed")
        self.accumulator.refuse(closed, unless=self.admits)
        delivered, left = False, ""
        self._closers.append(waits)
        try:
            delivered = await self._delivered(deadline)
            if delivered and not self.ended:
                self._last_words_said = True
                self.accumulator.refuse(closed)
                delivered = await self._delivered(deadline)
            left = "" if delivered else self._left()
        finally:
            self._closers.remove(waits)
            others = any(still_waits() for still_waits in self._closers)
            if delivered or not others:
                await self.abandon(
                    ClientClosedError("the producer was closed before the record was delivered")
                )
        if not delivered:
            fate = "; another call still waits for them, closing" if others else " and were given up; it"
            raise deadline.expired(f"closing the producer: {left}{fate}")

    def admits(self) -> bool:
        """Whether a producer that closes still takes a record: from callbacks, in the first half."""
        return self.dispatcher.ledger.telling and not self._last_words_said

    async def _delivered(self, deadline: Deadline) -> bool:
        """Whether all is delivered by then. Without any time left nothing more is sent for it."""
        if deadline.passed(self.loop):
            self.dispatcher.drain()
            if not self.dispatcher.ledger.empty:
                return False
        return await self.dispatcher.flush(deadline)

    async def abandon(self, error: KafkaError) -> None:
        """End at once; what is not delivered fails with `error`.

        It does so before anything is awaited, and the rest goes on if whoever awaits it is cancelled: by a
        second time limit, or as the loop of a blocking producer is stopped.
        """
        if not self.ended:
            self.ended = True
            self.cluster.tasks.expect_end()
            self._last_words_said = True
            self.accumulator.refuse(error)
            self.dispatcher.drain()
            self.given_up = "" if self.dispatcher.ledger.empty else self._left()
            tasks = self.dispatcher.close(error)
            self.ending.begin(partial(self._end, tasks), self.cluster.retire)
        await self.ending.wait()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:  # also where the loop ends meanwhile, which cancels this
            try:
                await self.cluster.close()
            finally:
                self._last_metrics = self.metrics()

    def undelivered(self) -> int:
        """How many records have no fate yet, also those that wait to be drained. On any thread."""
        return self.dispatcher.ledger.records + self.accumulator.records

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if it ended now; with acks=0 nobody knows."""
        return not self.undelivered() and self.config.required_acks != 0

    def _left(self) -> str:
        counts = self.dispatcher.ledger.undelivered()
        if not counts:
            return "with acks=0, records that the network had not taken"
        topics = ", ".join(f"{count} of topic {topic}" for topic, count in sorted(counts.items()))
        return f"{sum(counts.values())} records were not delivered ({topics})"

    def metrics(self) -> ProducerMetrics:
        """What it has done so far, or had when it ended."""
        return self._last_metrics or self.dispatcher.counters.snapshot(
            self.loop.time(),
            self.dispatcher.in_flight,
            self.accumulator.memory_used,
            self.config.buffer_memory,
        )
