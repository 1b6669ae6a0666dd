"""The blocking consumer: the same engine on a loop thread of its own.

Records never cross over: the caller's thread takes them from the buffer itself, and decodes them. Only
control calls cross.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from kclient.config import cover
from kclient.consumer.arguments import time_of, topic_partition
from kclient.consumer.bells import ThreadBell
from kclient.consumer.bridge import CarriedListener, Errands
from kclient.consumer.client import CLOSE_TIMEOUT_MS
from kclient.consumer.config import ConsumerConfig, ConsumerOptions
from kclient.consumer.controls import ConsumerHealth, Controls
from kclient.consumer.cursor import EARLIEST, LATEST
from kclient.consumer.engine import Engine
from kclient.errors import ClientClosedError, IllegalStateError, KafkaTimeoutError
from kclient.forks import forget_in_children
from kclient.runtime import Call, LoopThread, shared_lock
from kclient.threads import load
from kclient.types import AnyK, AnyV, K, OffsetAndMetadata, Record, TopicPartition, V

if TYPE_CHECKING:
    import pandas
    import pyarrow

P = ParamSpec("P")
T = TypeVar("T")

# Seconds beyond the time of `close`, for a loop that has much to do.
_GRACE = 5.0
# Who waits for records looks for them so often, in seconds, should a ring of the bell be lost to Ctrl-C.
_LOOK = 1.0
# What decoding imports when it is needed first.
_FOR_RECORDS = ("kclient.records.uniform", "kclient.records.columns", "kclient.records.cutting", "cramjam")
_FOR_ARROW = ("kclient.consumer.arrow", *_FOR_RECORDS)
_FOR_PANDAS = ("pandas", *_FOR_ARROW)


def _blocking(
    verb: Callable[Concatenate[Engine, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Consumer[Any, Any], P], T]:
    """The same question for callers that wait in their own thread."""

    @functools.wraps(verb)
    def call(self: Consumer[Any, Any], /, *args: P.args, **options: P.kwargs) -> T:
        return self._call(verb(self._engine, *args, **options))

    return call


class Consumer(Controls, Generic[K, V]):
    """Reads records from a Kafka cluster, from ordinary code.

        with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            for record in consumer:
                print(record.offset, record.value)

    The options are those of `ConsumerConfig`. Records come one by one (iteration), many at a time (`poll`) or
    as Arrow (`poll_arrow`). One thread at a time may ask for records; `wakeup` and the calls that do not wait
    may come from others. A rebalance listener is called on the thread that asks for records. The constructor
    does not connect: `start` (or `with`) does and says at once if that fails; without it the first call that
    needs the cluster does.
    """

    @overload
    def __init__(
        self: Consumer[bytes | None, bytes | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[AnyK | None, bytes | None],
        *topics: str,
        key_deserializer: Callable[[bytes], AnyK],
        value_deserializer: None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[bytes | None, AnyV | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: Callable[[bytes], AnyV],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[AnyK | None, AnyV | None],
        *topics: str,
        key_deserializer: Callable[[bytes], AnyK],
        value_deserializer: Callable[[bytes], AnyV],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    def __init__(self: Consumer[Any, Any], *topics: str, **options: Any) -> None:
        cover(options, ConsumerConfig)
        self._config = config = ConsumerConfig.from_options(options)
        self._bell = ThreadBell()
        self._errands = Errands(self._bell.ring)
        self._engine = Engine(config, self._bell, shared_lock())
        # The thread that asks for records, under None; it may come again, if Ctrl-C left this behind.
        # Set free by a new dictionary: a call in the end of one for records could be interrupted.
        self._polling: dict[None, int] = {}
        self._close_later: float | None = None
        # Its own, under None, once there is one.
        self._threads: dict[None, LoopThread] = {}
        # Calls that close it at this moment, and their threads.
        self._closers: dict[object, int] = {}
        forget_in_children(self)
        if topics:
            self.subscribe(topics)

    # Life

    def start(self, timeout_ms: float | None = None) -> None:
        """Find the cluster. A start that fails leaves nothing behind and may be tried again.

        Does nothing where the cluster was found already.
        """
        if self._engine.begun:
            return
        thread = self._begin_thread()
        try:
            thread.call(partial(self._engine.opening.start, timeout_ms))
        except BaseException:
            with contextlib.suppress(ClientClosedError):
                thread.call(self._engine.opening.take_back)
            if self._engine.cluster is None:
                self._end_thread()
            raise

    def _use(self, timeout_ms: float | None = None) -> LoopThread:
        """Start, for a call that needs it."""
        thread = self._thread
        if thread is None or not self._engine.begun:
            thread = self._begin_thread()
            thread.call(partial(self._engine.opening.use, timeout_ms))
        return thread

    def _start_if_new(self) -> None:
        if not (self._engine.begun or self.closed):
            self._use()

    def _begin_thread(self) -> LoopThread:
        self._engine.check_process()
        load(*_FOR_RECORDS)
        if self.closed:
            raise ClientClosedError("this consumer was closed")
        if self._thread is None:
            made = LoopThread(f"kclient consumer {self._config.client_id}")
            if self._threads.setdefault(None, made) is not made:  # another thread was first
                made.stop()
        return self._threads[None]

    @property
    def _thread(self) -> LoopThread | None:
        return self._threads.get(None)

    def stop(self) -> None:
        """`close`, under the name that aiokafka has for it."""
        self.close()

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit if that is automatic, leave the group, close all connections. Ends within `timeout_ms`, but
        not before a rebalance listener that is called on this thread meanwhile.

        Threads that close it at the same time wait for the same end. In a rebalance listener it does not
        wait: the consumer is closed when the call ends that runs the listener.
        """
        if self._engine.forked:  # there is nothing to close: thread and connections are the parent's
            return
        me = threading.get_ident()
        listening = self._errands.running and self._polling.get(None) == me
        if listening or self._engine.subscription.lock._is_owned():  # type: ignore[attr-defined]
            # By a signal handler, in the middle of a call of this thread that has to end before; or by a
            # listener, for which the group would wait.
            self._close_later = timeout_ms
            return
        self._close_later = None
        if not self.closed:
            self._engine.finish_batch()
        self._close(timeout_ms)

    def _forked(self) -> None:
        self._engine.forget()

    def _close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        thread, me, here = self._thread, object(), threading.get_ident()
        if here in self._closers.values() and self._errands.running:
            return  # a listener closes it that the end itself has called
        # In a forked child there is nothing to close: thread and connections are the parent's.
        if thread is None or not thread.running:
            self._engine.closed = True
            return
        try:
            self._closers[me] = here
            # Of threads that close at the same time, one finds the loop ended by another: closed is closed.
            with contextlib.suppress(ClientClosedError, CancelledError):
                # A call that Ctrl-C ends leaves nothing behind: closing goes on, and the thread ends with it.
                work = partial(self._engine.close, timeout_ms)
                closing = thread.launch_last(work, lambda: self._engine.ending.done, self._bell.ring)
                self._await_end(closing, timeout_ms)
        finally:
            self._closers.pop(me, None)
        if self._engine.ending.done or not self._closers:  # else another thread has more patience
            self._end_thread()

    def _await_end(self, closing: Call[None], timeout_ms: float) -> None:
        """Wait for the end, and run the listeners that leaving calls."""
        ends = time.monotonic() + timeout_ms / 1000 + _GRACE
        while not closing.over:
            self._bell.clear()
            self._errands.run()
            if not closing.over:
                self._bell.wait(0.1)
            if time.monotonic() > ends:
                raise KafkaTimeoutError(
                    f"closing the consumer did not end within {timeout_ms / 1000 + _GRACE:g} s: "
                    "a callback of the application blocks its thread"
                )
        closing.outcome()

    def _end_thread(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.stop()
            self._threads.pop(None, None)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        # After an error nobody knows how far the application came: what it got last is not committed.
        if error is None:
            self.close()
        else:
            self._close()

    def __del__(self) -> None:
        thread = self._threads.get(None) if hasattr(self, "_threads") else None
        if thread is not None and thread.running and not self.closed:
            warnings.warn(f"{self!r} was never closed: use `with` or close()", ResourceWarning, 2, self)
            thread.finish(self._engine.close(CLOSE_TIMEOUT_MS))

    def wakeup(self) -> None:
        """Have the call that waits for records, or the next one, raise `WakeupError`.

        May be called from another thread and from a signal handler. Nothing is lost, and calls that do not
        wait for records, such as `seek_to_end`, leave it alone.
        """
        self._engine.wakeup()
        self._bell.ring()

    def unsubscribe(self) -> None:
        """Read nothing. A group is left, after offsets were committed and the listener was told."""
        # The listener wants this thread. Unless it is what calls, or another thread polls, which runs it.
        alone = not self.closed and self._begin_polling()
        try:
            if alone:
                self._engine.finish_batch()
            super().unsubscribe()
            if alone:
                self._give_up()
        finally:
            if alone:
                self._polling = {}
                if self._close_later is not None:
                    self.close(self._close_later)

    def _give_up(self) -> None:
        engine, bell = self._engine, self._bell
        ends = time.monotonic() + self._config.default_api_timeout_ms / 1000
        while engine.subscription.leaving and time.monotonic() < ends:
            bell.clear()
            self._errands.run()
            if engine.subscription.leaving:
                bell.wait(0.1)

    # Records

    def poll(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record[K, V]]]:
        """What was fetched, of these partitions or of all; waits up to `timeout_ms` for the first record.

        At most `max_records` in all, or else `max_poll_records`; the rest comes with the next calls.
        """
        wanted, most = self._engine.wish(partitions, max_records, self._config.max_poll_records)
        poller = self._engine.poller
        return self._poll(lambda: poller.records(wanted, most), timeout_ms) or {}

    def poll_arrow(
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
        load(*_FOR_ARROW).wait()
        from kclient.records.arrow import concat_batches, schema_of  # noqa: PLC0415 - imports pyarrow

        schema = schema_of(columns, "offset")
        wanted, most = self._engine.wish(partitions, max_records)
        poller = self._engine.poller
        taken = self._poll(lambda: poller.arrow(wanted, most, schema), timeout_ms)
        batch = taken or concat_batches([], schema)
        return batch if columns is None else batch.select(list(columns))

    def poll_pandas(
        self,
        *partitions: TopicPartition,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pandas.DataFrame:
        """The same as a pandas frame, with the limits of Arrow."""
        load(*_FOR_PANDAS).wait()
        batch = self.poll_arrow(*partitions, timeout_ms=timeout_ms, max_records=max_records, columns=columns)
        return batch.to_pandas()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[K, V]:
        for record in self._engine.poller.in_hand:
            return record
        poller = self._engine.poller
        try:
            while self._poll(lambda: poller.deal(None), self._config.consumer_timeout_ms):
                for record in poller.in_hand:  # none, if the client's thread took them away in this moment
                    return record
        except ClientClosedError:
            self._engine.check_process()
        raise StopIteration

    def _poll(self, take: Callable[[], T], timeout_ms: float | None) -> T:
        """Call `take` until it has something, or the time is up."""
        if not self._begin_polling():
            raise IllegalStateError("another thread waits for records: a consumer serves one at a time")
        try:
            return self._poll_alone(take, timeout_ms)
        finally:  # nothing is called here: Ctrl-C would come in between, and what was taken be lost
            self._polling = {}
            if self._close_later is not None:
                self.close(self._close_later)

    def _begin_polling(self) -> bool:
        """Whether nobody else asks for records; from now on this thread does. Not from a listener, either."""
        me = threading.get_ident()
        return not self._errands.running and self._polling.setdefault(None, me) == me

    def _poll_alone(self, take: Callable[[], T], timeout_ms: float | None) -> T:
        engine, bell = self._engine, self._bell
        if not engine.begun:
            self._use()
        engine.opened()
        load(*_FOR_RECORDS).wait()
        assert engine.loop is not None
        now = engine.loop.time
        began = now()
        engine.subscription.nobody_waits()
        engine.begin_poll(began)
        while True:
            bell.clear()
            self._errands.run()
            taken = take()
            if taken or self._close_later is not None:
                return taken
            engine.check_complaints()
            left = None if timeout_ms is None else began + timeout_ms / 1000 - now()
            if left is not None and left <= 0:
                return taken
            with engine.subscription.waits():
                bell.wait(_LOOK if left is None else min(left, _LOOK))
            engine.check()  # before records: what a listener has raised comes first

    # Everything that asks the cluster

    position: Final = _blocking(Engine.position)
    offsets_for_times: Final = _blocking(Engine.offsets_for_times)
    beginning_offsets: Final = _blocking(Engine.beginning_offsets)
    end_offsets: Final = _blocking(Engine.end_offsets)
    topics: Final = _blocking(Engine.topics)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of these partitions, or of all that are assigned."""
        self._call(self._engine.seek_to(partitions, EARLIEST, waits=not self._errands.running))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of these partitions, or of all that are assigned."""
        self._call(self._engine.seek_to(partitions, LATEST, waits=not self._errands.running))

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record that is as late as a time; behind the last one where none is."""
        self._call(self._engine.seek_to(partitions, time_of(timestamp_ms), waits=not self._errands.running))

    def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go where the group committed; where it has not, nothing moves and the answer has None."""
        return self._call(self._engine.seek_to_committed(partitions, waits=not self._errands.running))

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | tuple[int, str] | int] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, or all that was handed out; tried again until it works or time is up."""
        self._call(self._engine.commit(offsets, timeout_ms))

    def committed(
        self, partition: TopicPartition, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """What the group has committed for a partition, None for nothing."""
        key = topic_partition(partition)
        return self._call(self._engine.committed([key], timeout_ms))[key]

    def health(self) -> ConsumerHealth:
        """How the consumer is; never waits for the network."""
        if self._thread is None or not self._thread.running:
            return super().health()
        return self._call(self._health())

    async def _health(self) -> ConsumerHealth:
        return super().health()

    def _carried(self, listener: object | None) -> object | None:
        return None if listener is None else CarriedListener(listener, self._errands.carry)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._polling.get(None, threading.get_ident()) == threading.get_ident():
            if self._engine.subscription.lock._is_owned():  # type: ignore[attr-defined]
                work.close()
                raise IllegalStateError(
                    "a signal handler that interrupts another call of the consumer cannot wait for the "
                    "cluster: call wakeup() or close() there"
                )
            if not self._errands.running:
                self._engine.poller.mend()
        try:
            thread = self._use()
        except BaseException:
            work.close()
            raise
        return thread.call(work)
