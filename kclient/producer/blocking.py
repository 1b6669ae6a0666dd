"""The producer for threads: the same core on a loop thread, with `append` called on the caller's own.

Only control calls cross over to the loop. A record does not: it is appended under a lock, and the loop is
woken once for many.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Never, Self, TypeVar, Unpack, overload

from kclient.clock import Deadline
from kclient.cluster.client import ClusterHealth
from kclient.config import shown_half_made
from kclient.errors import BufferFullError, ClientClosedError, KafkaError, KafkaTimeoutError
from kclient.forks import forget_in_children
from kclient.producer.accumulator import Wait
from kclient.producer.client import CLOSE_TIMEOUT_MS
from kclient.producer.config import ProducerConfig, ProducerOptions, config_of
from kclient.producer.core import Core
from kclient.producer.delivery import Chunk, Delivery
from kclient.producer.intake import Intake
from kclient.producer.many import Deliveries, Many, Source
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.part import WIDTH
from kclient.producer.records import Fields, ProducerRecord, Told, prepare
from kclient.producer.tables import records_from
from kclient.producer.unclosed import leave, see_to
from kclient.records.sizes import RECORD_OVERHEAD
from kclient.runtime import LoopThread, wait_in_thread
from kclient.types import AnyK, AnyV, BytesLike, Header, K_contra, RecordMetadata, V_contra

T = TypeVar("T")

# Seconds beyond the time of `close`, for a loop that has much to do.
_GRACE = 5.0


class Producer(Generic[K_contra, V_contra]):
    """Writes records to a Kafka cluster, from ordinary code and from any number of threads.

        with Producer(bootstrap_servers="localhost:9092") as producer:
            delivery = producer.send("orders", b"three apples", key=b"customer-17")
            print(delivery.result(timeout=10).offset)

    The options and promises are those of `AsyncProducer`. Threads may share a producer, and should: their
    records then share batches. Processes may not. Callbacks of deliveries run on the producer's own thread.
    The constructor does not connect: `start` (or `with`) does and says at once if that fails.
    """

    _thread: LoopThread
    _core: Core

    @overload
    def __init__(
        self: Producer[BytesLike, BytesLike],
        *,
        key_serializer: None = None,
        value_serializer: None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[AnyK, BytesLike],
        *,
        key_serializer: Callable[[AnyK], bytes | None],
        value_serializer: None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[BytesLike, AnyV],
        *,
        key_serializer: None = None,
        value_serializer: Callable[[AnyV], bytes | None],
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[AnyK, AnyV],
        *,
        key_serializer: Callable[[AnyK], bytes | None],
        value_serializer: Callable[[AnyV], bytes | None],
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    def __init__(self: Producer[Any, Any], *names: Never, **options: Any) -> None:
        self._config = config = config_of(names, options)
        self._plain = not (config.key_serializer or config.value_serializer or config.hooks)
        self._closed = False
        self._thread = LoopThread(f"kclient producer {config.client_id}")
        made: list[Core] = []
        try:
            self._core = self._thread.call(partial(_make, config, made))
        except Exception:
            self._closed = True
            self._thread.stop()
            raise
        except BaseException:  # Ctrl-C
            self._closed = True
            self._thread.finish(_abandon(made))
            raise
        accumulator = self._core.accumulator
        self._append: Any = accumulator.append
        self._chunks = accumulator.plain_chunks
        self._moment = accumulator.moment
        self._lock: Any = accumulator.lock
        forget_in_children(self)
        see_to(self)

    @shown_half_made
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._config.client_id} {'closed' if self._closed else 'open'}>"

    def start(self, timeout_ms: float | None = None) -> None:
        """Find the cluster; says at once if that fails."""

        async def start() -> None:
            cluster = self._core.cluster
            await cluster.metadata.refreshed(cluster.deadline(timeout_ms))

        self._call(start)

    def send(  # noqa: PLR0913, PLR0917 - aiokafka's signature
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, bytes | None] | Iterable[Header] | None = None,
    ) -> Delivery:
        """Append a record, waiting up to `max_block_ms` while its topic is unknown or the buffer is full."""
        if (
            type(value) is bytes
            and (type(key) is bytes or key is None)
            and partition is None
            and timestamp_ms is None
            and not headers
        ):
            # Inlined `Accumulator.append`: its call, and what these records need not ask, were measurable.
            chunk = self._chunks.get(topic)
            if chunk is not None:
                added = len(value) + RECORD_OVERHEAD
                if key is not None:
                    added += len(key)
                delivery = Delivery()
                delivery._chunk = chunk
                item = (key, value)
                moment = self._moment
                now = moment()
                with self._lock:  # no calls in here: see `accumulator`
                    size = chunk.size + added
                    if size <= chunk.limit and now < chunk.until:  # a chunk that was closed has no room
                        flat = chunk.flat
                        flat += item
                        chunk.size = size
                        delivery._place = place = chunk.end
                        chunk.end = place + WIDTH
                        return delivery
            if self._plain:
                return self._send_slowly(Fields(topic, value, key, None, None, ()))
        pairs: Any = headers  # as soon as they are checked
        return self._send_any(ProducerRecord(topic, value, key, partition, timestamp_ms, pairs))

    def send_nowait(
        self, topic: str, value: V_contra | None = None, key: K_contra | None = None, **more: Any
    ) -> Delivery:
        """Append a record at once, or raise `BufferFullError`. Takes what `send` takes."""
        with Told(self._config, ProducerRecord(topic, value, key, **more)) as told:
            fields, note = prepare(self._config, told), told.note
            delivery: Delivery | Wait | None = self._append(*fields, False, note)
            if delivery is None:
                delivery = self._core.accumulator.append_slowly(*fields, note, known=False)
            if isinstance(delivery, Wait):
                raise BufferFullError(f"buffer_memory={self._config.buffer_memory} bytes are full")
        return delivery

    def send_and_wait(
        self, topic: str, value: V_contra | None = None, key: K_contra | None = None, **more: Any
    ) -> RecordMetadata:
        """Send a record and wait until it is written; raises why it was not. Takes what `send` takes."""
        delivery = self.send(topic, value, key, **more)
        if asyncio._get_running_loop() is None:
            return delivery.result()
        # In a notebook, whose cells run on a loop of their own.
        return self._call(partial(_outcome, delivery))

    def send_many(  # noqa: PLR0913
        self,
        topic: str,
        values: Sequence[V_contra | None],
        keys: Sequence[K_contra | None] | None = None,
        *,
        partition: int | Sequence[int | None] | None = None,
        timestamp_ms: int | Sequence[int | None] | None = None,
        headers: Sequence[Any] | None = None,
    ) -> Deliveries:
        """Append many records at once; see `AsyncProducer.send_many`."""
        return self._send_all(Source([Many(topic, values, keys, partition, timestamp_ms, headers)]))

    def send_arrow(self, topic: str, table: Any) -> Deliveries:
        """Append the rows of whatever speaks Arrow; see `AsyncProducer.send_arrow`."""
        self._check_running()
        return self._send_all(records_from(topic, table, self._config, self._core.accumulator.check_size))

    def send_pandas(self, topic: str, frame: Any) -> Deliveries:
        """Append the rows of a pandas frame, by the same columns as `send_arrow`."""
        return self.send_arrow(topic, frame)

    def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic, waiting up to `max_block_ms` while it is unknown."""
        return self._call(partial(self._partitions, topic))

    def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until all that was sent before is delivered or has failed; see `AsyncProducer.flush`."""
        milliseconds = self._config.delivery_timeout_ms + 1_000 if timeout_ms is None else timeout_ms

        async def flush() -> None:
            await self._core.flush(Deadline.after(self._core.loop, milliseconds / 1000))

        self._call(flush)

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Deliver what is there, then close; a `KafkaTimeoutError` says how many records were given up.

        Threads that call it, or `flush`, at the same time wait for the same end; see `AsyncProducer.close`.
        A call that Ctrl-C ends can be made again; meanwhile closing goes on, for as long as it had time.
        """
        if asyncio._get_running_loop() is self._core.loop:
            raise RuntimeError(
                f"a callback of {self!r} cannot close it: nothing would be delivered while it waits"
            )
        self._closed = True
        # In a forked child there is nothing to close: thread and connections are the parent's.
        if not self._thread.running:
            return

        thread, core, caller = self._thread, self._core, _Caller()
        ends = time.monotonic() + timeout_ms / 1000

        async def close() -> None:
            left = max(0.0, ends - time.monotonic())
            await core.close(Deadline(core.loop.time() + left, timeout_ms / 1000), lambda: caller.waits)

        try:
            call = thread.launch_last(close, lambda: core.ended)
            thread.await_last(call, timeout_ms / 1000 + _GRACE)
        except ClientClosedError as closed:
            # Of threads that close at the same time, one finds the loop ended by another: closed is closed.
            if core.given_up:
                raise KafkaTimeoutError(
                    f"closing the producer: {core.given_up} when another call gave them up"
                ) from closed
        finally:
            caller.waits = False

    @property
    def closed(self) -> bool:
        return self._closed

    def health(self) -> ClusterHealth:
        """Whether the client is in touch with its cluster; never waits for the network."""

        async def health() -> ClusterHealth:
            return self._core.cluster.health()

        here = self._thread.ended or self._in_callback()
        return self._core.cluster.health() if here else self._call(health)

    def metrics(self) -> ProducerMetrics:
        """What the producer has done so far."""

        async def metrics() -> ProducerMetrics:
            return self._core.metrics()

        here = self._thread.ended or self._in_callback()
        return self._core.metrics() if here else self._call(metrics)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close(0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        closed = getattr(self, "_closed", True)  # then Ctrl-C came before `close` had begun
        if self._let_go(CLOSE_TIMEOUT_MS / 1000, idle_too=True) and not closed:
            warnings.warn(f"{self!r} was never closed: use `with` or close()", ResourceWarning, 2, self)

    def _let_go(self, seconds: float, *, idle_too: bool = False) -> bool:
        """End without being waited for, where that has not begun; what is there is delivered first."""
        thread, core = getattr(self, "_thread", None), getattr(self, "_core", None)
        if thread is None or core is None or not thread.running or thread.ending:
            return False
        if core.idle and not idle_too:
            return False
        leave(thread, core, f"<{type(self).__name__} {self._config.client_id}>", seconds)
        return True

    def _in_callback(self) -> bool:
        """Whether the caller is on the producer's own thread, and cannot wait for what happens there."""
        return asyncio._get_running_loop() is self._core.loop

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.call(work)

    def _send_any(self, record: ProducerRecord) -> Delivery:
        """A record with anything that `send` does not see to by itself."""
        with Told(self._config, record) as told:
            fields, note = prepare(self._config, told), told.note
            if self._core.accumulator.lacks(fields.topic, fields.partition) and not self._in_callback():
                self._call(self._seek_partition)
            delivery: Delivery = self._append(*fields, False, note) or self._send_slowly(fields, note)
        return delivery

    def _send_slowly(self, fields: Fields, note: list[Any] | None = None) -> Delivery:
        accumulator = self._core.accumulator
        until = time.monotonic() + self._config.max_block_ms / 1000
        while True:
            given_back = accumulator.given_back
            outcome = accumulator.append_slowly(*fields, note)
            if outcome is Wait.TOPIC and self._in_callback():
                # A callback cannot wait until something is known of the topic; its record can.
                outcome = accumulator.append_slowly(*fields, note, known=False)
            if isinstance(outcome, Delivery):
                break
            left = max(0.0, until - time.monotonic())
            if outcome is Wait.TOPIC:
                self._call(partial(self._partitions, fields.topic, left))
            else:
                self._wait_for_room(left, given_back)
        if accumulator.crowded:
            # A caller that never waits would keep the interpreter for itself until the loop insists, and that
            # at each of its system calls; then records pile up that have long left the processor's caches.
            accumulator.crowded = False
            time.sleep(0)
        return outcome

    def _send_all(self, source: Source) -> Deliveries:
        self._check_running()
        core = self._core
        with Intake(core.gather, source) as intake:
            for chunk, partition in intake:
                if core.may_lack(chunk.topic, partition):
                    self._check_partition(chunk.topic, partition)
                try:
                    self._put(chunk)
                except KafkaError as error:
                    intake.refuse(error)
        return intake.deliveries()

    def _check_partition(self, topic: str, partition: int | None) -> None:
        if self._in_callback():  # where the topic is known; else the deliveries tell
            self._core.check_partition(topic, partition)
        else:
            self._call(partial(self._find_partition, topic, partition))

    def _put(self, chunk: Chunk) -> None:
        accumulator = self._core.accumulator
        until = time.monotonic() + self._config.max_block_ms / 1000
        if chunk.topic not in accumulator.topics and not self._in_callback():
            self._call(partial(self._partitions, chunk.topic))
        while True:
            given_back = accumulator.given_back
            if accumulator.put(chunk):
                return
            self._wait_for_room(max(0.0, until - time.monotonic()), given_back)

    async def _seek_partition(self) -> None:
        await self._core.seek_partition(Deadline.after(self._core.loop, self._config.max_block_ms / 1000))

    async def _find_partition(self, topic: str, partition: int | None) -> None:
        deadline = Deadline.after(self._core.loop, self._config.max_block_ms / 1000)
        await self._core.find_partition(topic, partition, deadline)

    async def _partitions(self, topic: str, seconds: float | None = None) -> set[int]:
        seconds = self._config.max_block_ms / 1000 if seconds is None else seconds
        return set((await self._core.topic(topic, Deadline.after(self._core.loop, seconds))).partitions)

    def _wait_for_room(self, seconds: float, given_back: int) -> None:
        accumulator = self._core.accumulator
        self._check_running()
        if self._in_callback():
            raise BufferFullError(
                f"buffer_memory={self._config.buffer_memory} bytes are full, and a callback on the "
                "producer's own thread cannot wait for room: nothing would be delivered meanwhile"
            )
        registered: list[Callable[[], None]] = []

        def register(wake: Callable[[], None]) -> None:
            registered.append(wake)
            accumulator.when_room(wake, given_back)

        try:
            if not wait_in_thread(register, seconds):
                raise self._core.buffer_full(self._config.max_block_ms / 1000)
        finally:
            for wake in registered:
                accumulator.no_longer_waiting(wake)

    def _check_running(self) -> None:
        if not self._thread.running:
            raise ClientClosedError(f"{self!r} was used after it had been closed, or in a forked process")

    def _forked(self) -> None:
        """In a forked child there is no loop thread, and the lock may be held by a thread that is not there.

        Records would be appended, and lost; so nothing is appended any more.
        """
        self._append = self._refuse
        self._chunks, self._plain = {}, False

    def _refuse(self, *_: object) -> None:
        raise ClientClosedError(
            f"{self!r} was made in another process: a client does not survive fork, make one in the child"
        )


class _Caller:
    """One who closes the producer, and waits for the end, or was interrupted."""

    waits = True


async def _make(config: ProducerConfig, made: list[Core]) -> Core:
    core = Core(config, threads=True)
    made.append(core)
    return core


async def _abandon(made: list[Core]) -> None:
    for core in made:
        await core.abandon(ClientClosedError("the producer could not be made"))


async def _outcome(delivery: Delivery) -> RecordMetadata:
    return await delivery
