"""The asyncio consumer: its life, and the calls that wait.

What does not wait is in `controls`, what works behind it in `engine`.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from kclient.clock import fine_time
from kclient.config import cover
from kclient.consumer.arguments import time_of, topic_partition
from kclient.consumer.bells import LoopBell
from kclient.consumer.bridge import CarriedListener, to_loop
from kclient.consumer.config import ConsumerConfig, ConsumerOptions
from kclient.consumer.controls import Controls
from kclient.consumer.cursor import EARLIEST, LATEST
from kclient.consumer.engine import GRACE, Engine
from kclient.consumer.group.listeners import in_listener
from kclient.consumer.offsets import OffsetAndTimestamp
from kclient.consumer.poller import Wanted
from kclient.ending import Ending
from kclient.errors import ClientClosedError
from kclient.forks import forget_in_children
from kclient.runtime import LoopThread, shared_lock
from kclient.threads import WAITING
from kclient.turns import EVERY, Pace, Turns
from kclient.types import AnyK, AnyV, K, OffsetAndMetadata, Record, TopicPartition, V

if TYPE_CHECKING:
    import pandas
    import pyarrow

T = TypeVar("T")

CLOSE_TIMEOUT_MS = 5_000
# How long records may be handed out, in seconds, before the loop gets a turn to fetch others.
_TURN = 0.002
# How many records are handed out one by one, at most, between two looks at the clock.
_AT_ONCE = 128
# Keeps the closing of abandoned clients alive: the loop itself holds its tasks weakly.
_closing: set[asyncio.Task[None]] = set()


class AsyncConsumer(Controls, Generic[K, V]):
    """Reads records from a Kafka cluster, alone or as a member of a group.

        async with AsyncConsumer("orders", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    The options are those of `ConsumerConfig`. Records come one by one (`async for`, `getone`), many at a time
    (`getmany`) or as Arrow (`getarrow`). A call that is cancelled loses nothing. One call at a time is
    meant to wait for records; the others may be made meanwhile. A consumer belongs to the event loop on which
    it was first used; with `io_thread=True` its work is done on a thread of its own.

    `start` (or `async with`) connects and says at once if that fails; without it the first call that needs
    the cluster connects.
    """

    _thread: LoopThread | None = None
    _handed = 0  # records that could be taken since the last look at the clock

    @overload
    def __init__(
        self: AsyncConsumer[bytes | None, bytes | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncConsumer[AnyK | None, bytes | None],
        *topics: str,
        key_deserializer: Callable[[bytes], AnyK],
        value_deserializer: None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncConsumer[bytes | None, AnyV | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: Callable[[bytes], AnyV],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncConsumer[AnyK | None, AnyV | None],
        *topics: str,
        key_deserializer: Callable[[bytes], AnyK],
        value_deserializer: Callable[[bytes], AnyV],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    def __init__(self: AsyncConsumer[Any, Any], *topics: str, **options: Any) -> None:
        cover(options, ConsumerConfig)
        self._config = config = ConsumerConfig.from_options(options)
        self._bell = LoopBell()
        self._turns = Turns()
        self._pace = Pace(self._turns, _AT_ONCE)
        # Of engine and thread; without a thread the engine's own end is enough.
        self._ending = Ending()
        self._starts = 0  # with a thread: calls of `start` under way
        self._taking_back: asyncio.Task[None] | None = None
        lock = shared_lock() if config.io_thread else None
        self._engine = Engine(config, self._bell, lock)
        forget_in_children(self)
        if topics:
            self.subscribe(topics)

    # Life

    async def start(self, timeout_ms: float | None = None) -> None:
        """Find the cluster. A start that fails leaves nothing behind and may be tried again.

        Does nothing where the cluster was found already.
        """
        await self._bind()
        if self._thread is None:
            await self._engine.opening.start(timeout_ms)
            return
        if self._engine.begun:  # else, if this is cancelled, what works would be taken back
            self._engine.opened()
            return
        self._starts += 1
        try:
            await self._on_thread(self._engine.opening.start(timeout_ms))
        except BaseException:
            if self._starts == 1:
                await self._take_back()
            raise
        finally:
            self._starts -= 1

    async def _use(self, timeout_ms: float | None = None) -> None:
        """Start, for a call that needs it."""
        if self._engine.begun:
            return
        await self._bind()
        use = self._engine.opening.use(timeout_ms)
        await (use if self._thread is None else self._on_thread(use))

    async def _bind(self) -> None:
        """Belong to this event loop, and have a thread if one is wanted."""
        self._check_loop()
        if self._taking_back is not None:
            await asyncio.wait([self._taking_back])
        if self._engine.cluster is not None:
            return
        threads, loop = self._config.io_thread, asyncio.get_running_loop()
        self._bell.bind(loop, threads=threads)
        self._turns = Turns(fine_time(loop))
        self._pace = Pace(self._turns, _AT_ONCE)
        if threads and self._thread is None and not self.closed:
            self._thread = LoopThread(f"kclient consumer {self._config.client_id}")

    async def _take_back(self) -> None:
        """End what a start on the thread may have left, and the thread; goes on if this is cancelled."""
        if self._taking_back is None or self._taking_back.done():
            self._taking_back = asyncio.get_running_loop().create_task(self._taken_back())
        await asyncio.wait([self._taking_back])

    async def _taken_back(self) -> None:
        with suppress(ClientClosedError):
            await self._on_thread(self._engine.opening.take_back())
        if self._engine.cluster is None:
            await self._end_thread()

    async def stop(self) -> None:
        """`close`, under the name that aiokafka has for it."""
        await self.close()

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit if that is automatic, leave the group, close all connections. Ends within `timeout_ms`.

        Calls at the same time wait for the same end, and one that is cancelled does not stop it. In a
        rebalance listener it does not wait: the end begins, and comes after the listener has returned.
        """
        if self._engine.forked:  # there is nothing to close: loop and connections are the parent's
            return
        if not self.closed:
            self._check_loop()
            self._engine.finish_batch()
        await self._close(timeout_ms)

    async def _close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        if self._taking_back is not None:
            await asyncio.wait([self._taking_back], timeout=timeout_ms / 1000)
        if self._thread is None and not self._ending.begun:
            await self._engine.close(timeout_ms)
            return
        if not self._ending.begun:
            self._ending.begin(partial(self._close_with_thread, timeout_ms), self._end_with_thread)
        if in_listener():  # the end waits for it
            return
        await self._ending.wait(timeout_ms / 1000 + 3 * GRACE)

    async def _close_with_thread(self, timeout_ms: float) -> None:
        if self._thread is None:  # it has ended since this was cut short
            return
        try:
            with suppress(ClientClosedError):  # `_end_with_thread` has begun it
                await self._on_thread(self._engine.close(timeout_ms))
        finally:
            await self._end_thread()

    def _end_with_thread(self) -> None:
        """Have the thread close the consumer, and end, without waiting."""
        if self._thread is not None:
            with suppress(ClientClosedError):  # it ends already
                self._thread.launch_last(
                    partial(self._engine.close, CLOSE_TIMEOUT_MS), lambda: self._engine.ending.done
                )

    async def _end_thread(self) -> None:
        thread = self._thread
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(WAITING, thread.stop)
            self._thread = None

    def _forked(self) -> None:
        self._engine.forget()
        self._thread = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        # After an error nobody knows how far the application came: what it got last is not committed.
        await (self.close() if error is None else self._close())

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is None or engine.cluster is None or engine.loop is None or engine.closed:
            return
        warnings.warn(
            f"{self!r} was never closed: use `async with` or await close()", ResourceWarning, 2, self
        )
        if self._thread is not None:
            self._thread.finish(engine.close(CLOSE_TIMEOUT_MS))
        elif not engine.loop.is_closed():
            engine.loop.call_soon_threadsafe(_close_soon, engine)

    def wakeup(self) -> None:
        """Have the call that waits for records, or the next one, raise `WakeupError`.

        May be called from another thread and from a signal handler. Nothing is lost, and calls that do not
        wait for records, such as `seek_to_end`, leave it alone.
        """
        self._engine.wakeup()
        self._bell.ring_from_outside()

    def unsubscribe(self) -> None:
        """Read nothing. A group is left, after offsets were committed and the listener was told."""
        if not self.closed:
            self._engine.finish_batch()
        super().unsubscribe()

    # Records

    async def getone(self, *partitions: TopicPartition) -> Record[K, V]:
        """The next record, of these partitions or of all; waits for it."""
        poller = self._engine.poller
        if not partitions or poller.deals_from(frozenset(partitions)):
            for record in poller.in_hand:
                return record
        wanted, _ = self._engine.wish(partitions, None)
        found = await self._next(wanted, None)
        assert found is not None  # there is no time limit
        return found

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record[K, V]]]:
        """What was fetched, of these partitions or of all; waits up to `timeout_ms` for the first record.

        At most `max_records` in all, or else `max_poll_records`; the rest comes with the next calls.
        """
        wanted, most = self._engine.wish(partitions, max_records, self._config.max_poll_records)
        poller = self._engine.poller
        return await self._poll(lambda: poller.records(wanted, most), timeout_ms) or {}

    async def getarrow(
        self,
        *partitions: TopicPartition,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pyarrow.RecordBatch:
        """The same as one Arrow batch with the columns of `kclient.records.arrow.SCHEMA`.

        At most `max_records` and 256 MiB of decompressed records; without it 100,000 rows and 32 MiB.
        `columns` names those that are wanted; the others are not made, which saves their time and memory.
        Keys and values are bytes: deserializers are not called. No rows if nothing came in time.
        """
        from kclient.records.arrow import concat_batches, schema_of  # noqa: PLC0415 - imports pyarrow

        schema = schema_of(columns, "offset")
        wanted, most = self._engine.wish(partitions, max_records)
        poller = self._engine.poller
        taken = await self._poll(lambda: poller.arrow(wanted, most, schema), timeout_ms)
        batch = taken or concat_batches([], schema)
        return batch if columns is None else batch.select(list(columns))

    async def getpandas(
        self,
        *partitions: TopicPartition,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pandas.DataFrame:
        """The same as a pandas frame, with the limits of Arrow."""
        batch = await self.getarrow(
            *partitions, timeout_ms=timeout_ms, max_records=max_records, columns=columns
        )
        return batch.to_pandas()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K, V]:
        for record in self._engine.poller.in_hand:
            return record
        try:
            found = await self._next(None, self._config.consumer_timeout_ms)
        except ClientClosedError:
            self._engine.check_process()
            found = None
        if found is None:
            raise StopAsyncIteration
        return found

    async def _next(self, wanted: Wanted, timeout_ms: float | None) -> Record[K, V] | None:
        """The next record when `in_hand` has no more of those that could be handed out without a look.

        None when the time is up. The loop's turn comes first: a call cancelled in it has taken nothing.
        """
        engine, poller, pace = self._engine, self._engine.poller, self._pace
        while True:
            most = pace.grant(self._handed)
            if not most:
                await self._turn()
                most = pace.after_turn()
            self._handed = 0 if engine.woken else poller.go_on(wanted, most)
            if engine.woken:  # in this moment
                poller.hold_back()
            elif self._handed:
                for record in poller.in_hand:  # none, if the client's thread took them away in this moment
                    return record
            if not await self._poll(lambda: poller.deal(wanted), timeout_ms):
                return None

    async def _turn(self) -> None:
        """Let the loop run what is due, and read and write."""
        await asyncio.sleep(0)
        self._turns.given()

    async def _poll(self, take: Callable[[], T], timeout_ms: float | None) -> T:
        """Call `take` until it has something, or the time is up; while anything is taken, nothing waits."""
        engine, bell = self._engine, self._bell
        if not engine.begun:
            await self._use()
        now = asyncio.get_running_loop().time
        began = now()
        if self._turns.now() > self._turns.last + EVERY:
            await self._turn()  # also for an application that catches errors, and calls again at once
        engine.begin_poll(began)
        if self._turns.now() > self._turns.last + _TURN:
            # Else an application that always finds something would keep the next answer from being read.
            await self._turn()
        while True:
            bell.clear()
            taken = take()
            if taken:
                return taken
            engine.check_complaints()
            left = None if timeout_ms is None else began + timeout_ms / 1000 - now()
            if left is not None and left <= 0:
                await self._turn()  # else a caller that never waits would keep the client from working
                return take()
            with engine.subscription.waits():
                await bell.wait(left)
            self._turns.paused()

    def _carried(self, listener: object | None) -> object | None:
        if listener is None or not self._config.io_thread:
            return listener
        return CarriedListener(listener, to_loop(self._bell.loop))

    # Positions

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record; waits until it is known."""
        return await self._run(self._engine.position(partition, timeout_ms), timeout_ms)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of these partitions, or of all that are assigned."""
        await self._run(self._engine.seek_to(partitions, EARLIEST, waits=not in_listener()))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of these partitions, or of all that are assigned."""
        await self._run(self._engine.seek_to(partitions, LATEST, waits=not in_listener()))

    async def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record that is as late as a time; behind the last one where none is."""
        await self._run(self._engine.seek_to(partitions, time_of(timestamp_ms), waits=not in_listener()))

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go where the group committed; where it has not, nothing moves and the answer has None."""
        return await self._run(self._engine.seek_to_committed(partitions, waits=not in_listener()))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is as late as its timestamp (ms), None without one."""
        return await self._run(self._engine.offsets_for_times(timestamps, timeout_ms), timeout_ms)

    async def beginning_offsets(
        self, partitions: list[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._run(self._engine.beginning_offsets(partitions, timeout_ms), timeout_ms)

    async def end_offsets(
        self, partitions: list[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Where the next record of each partition goes; with read_committed, the end of what is decided."""
        return await self._run(self._engine.end_offsets(partitions, timeout_ms), timeout_ms)

    async def topics(self) -> set[str]:
        """The topics of the cluster."""
        return await self._run(self._engine.topics())

    # The group's offsets

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | tuple[int, str] | int] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, or all that was handed out; tried again until it works or time is up."""
        await self._run(self._engine.commit(offsets, timeout_ms), timeout_ms)

    async def committed(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """What the group has committed for a partition, None for nothing."""
        key = topic_partition(partition)
        return (await self._run(self._engine.committed([key], timeout_ms), timeout_ms))[key]

    def _check_loop(self) -> None:
        if self._engine.cluster is not None and self._bell.loop is not asyncio.get_running_loop():
            raise RuntimeError(
                f"{self!r} belongs to another event loop: every loop needs a client of its own"
            )

    async def _run(self, work: Coroutine[Any, Any, T], timeout_ms: float | None = None) -> T:
        """Do it where the engine is, which is started first if need be."""
        try:
            await self._use(timeout_ms)
        except BaseException:
            work.close()
            raise
        return await (work if self._thread is None else self._on_thread(work))

    async def _on_thread(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._thread is not None
        return await asyncio.wrap_future(self._thread.submit(work))


def _close_soon(engine: Engine) -> None:
    task = asyncio.get_running_loop().create_task(engine.close(CLOSE_TIMEOUT_MS))
    _closing.add(task)
    task.add_done_callback(_closing.discard)
