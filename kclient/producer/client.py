"""The asyncio producer: its life from start to close, and the ways to send."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Never, Self, Unpack, overload

from kclient.clock import Deadline, fine_time
from kclient.cluster.client import ClusterHealth
from kclient.config import shown_half_made
from kclient.errors import BufferFullError, ClientClosedError, KafkaError
from kclient.forks import forget_in_children
from kclient.producer.accumulator import Wait
from kclient.producer.config import ProducerOptions, config_of
from kclient.producer.core import Core
from kclient.producer.delivery import Chunk, Delivery
from kclient.producer.intake import Intake
from kclient.producer.many import Deliveries, Many, Source
from kclient.producer.metrics import Counters, ProducerMetrics
from kclient.producer.part import WIDTH
from kclient.producer.records import Fields, ProducerRecord, Told, prepare
from kclient.producer.stamps import LOOK
from kclient.producer.tables import records_from
from kclient.producer.unclosed import say_lost, see_to
from kclient.records.sizes import RECORD_OVERHEAD
from kclient.turns import Turns
from kclient.types import AnyK, AnyV, BytesLike, Header, K_contra, RecordMetadata, V_contra

CLOSE_TIMEOUT_MS = 30_000
_NEVER_CONNECTED = ClusterHealth(
    connected=False, brokers=(), cluster_id=None, metadata_age=None, last_error=None
)
# Keeps the closing of abandoned clients alive: the loop itself holds its tasks weakly.
_closing: set[asyncio.Task[None]] = set()


def _not_open(*_: object) -> None:
    """In place of the accumulator until there is one."""


class AsyncProducer(Generic[K_contra, V_contra]):
    """Writes records to a Kafka cluster.

        async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
            delivery = await producer.send("orders", b"three apples", key=b"customer-17")
            metadata = await delivery
            print(metadata.partition, metadata.offset)

    The options are those of `ProducerConfig`. `send` waits only when the buffer is full, and returns the
    fate of the record as a `Delivery`, to be awaited, watched or left alone. Every record is delivered once
    and in the order of its key (idempotence is on), or fails with the reason within `delivery_timeout_ms`.

    `start` (or `async with`) connects and says at once if that fails; without it the first record does. A
    client belongs to the event loop on which it was first used; for threads there is `Producer`.
    """

    _core: Core | None = None
    _abandoned: Core | None = None
    _turns: Turns  # as soon as there is a core
    _moment: Callable[[], float]  # the same
    # Calls of `send` that give the loop its turn, and append their record after that.
    _in_turn = 0
    _closed = False
    # Calls of `start` under way; whether one has succeeded, or anything else needs the core.
    _starts = 0
    _used = False
    # Whether this process is a forked child, and the core its parent's.
    _inherited = False

    @overload
    def __init__(
        self: AsyncProducer[BytesLike, BytesLike],
        *,
        key_serializer: None = None,
        value_serializer: None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncProducer[AnyK, BytesLike],
        *,
        key_serializer: Callable[[AnyK], bytes | None],
        value_serializer: None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncProducer[BytesLike, AnyV],
        *,
        key_serializer: None = None,
        value_serializer: Callable[[AnyV], bytes | None],
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncProducer[AnyK, AnyV],
        *,
        key_serializer: Callable[[AnyK], bytes | None],
        value_serializer: Callable[[AnyV], bytes | None],
        **options: Unpack[ProducerOptions],
    ) -> None: ...

    def __init__(self: AsyncProducer[Any, Any], *names: Never, **options: Any) -> None:
        self._config = config = config_of(names, options)
        self._last_metrics = Counters(0.0).snapshot(0.0, 0, 0, config.buffer_memory)
        self._plain = not (config.key_serializer or config.value_serializer or config.hooks)
        self._leave()
        forget_in_children(self)
        see_to(self)

    @shown_half_made
    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._core is None else "open"
        return f"<{type(self).__name__} {self._config.client_id} {state}>"

    async def start(self, timeout_ms: float | None = None) -> None:
        """Find the cluster. A start that fails leaves nothing behind and may be tried again."""
        core = self._open_core()
        self._starts += 1
        try:
            await core.cluster.metadata.refreshed(core.cluster.deadline(timeout_ms))
            self._used = True
        except BaseException:
            # A client stays open for those who use it, or wait for it with more time than this one.
            if self._core is core and not self._used and self._starts == 1:
                self._core, self._abandoned = None, core
                self._leave()
                await core.abandon(ClientClosedError("the producer could not be started"))
            raise
        finally:
            self._starts -= 1

    async def send(  # noqa: PLR0913, PLR0917 - aiokafka's signature
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, bytes | None] | Iterable[Header] | None = None,
    ) -> Delivery:
        """Append a record, waiting up to `max_block_ms` while its topic is unknown or the buffer is full.

        A call that is cancelled has not sent it.
        """
        if (
            type(value) is bytes
            and (type(key) is bytes or key is None)
            and partition is None
            and timestamp_ms is None
            and not headers
        ):
            chunk = self._chunks.get(topic)
            if chunk is not None:
                # `Accumulator.append` once more: a call and what these records need not ask were felt.
                added = (
                    len(value) + RECORD_OVERHEAD if key is None else len(value) + len(key) + RECORD_OVERHEAD
                )
                delivery = Delivery()
                delivery._chunk = chunk
                moment = self._moment
                now = moment()
                # No calls from here on: a signal handler that sends finds a record there, or not.
                size = chunk.size + added
                if size <= chunk.limit and now < chunk.until:
                    flat = chunk.flat
                    flat += (key, value)
                    chunk.size = size
                    delivery._place = place = chunk.end
                    chunk.end = place + WIDTH
                    return delivery
            if self._plain:
                return await self._send_slowly(Fields(topic, value, key, None, None, ()))
        pairs: Any = headers  # as soon as they are checked
        return await self._send_any(ProducerRecord(topic, value, key, partition, timestamp_ms, pairs))

    def send_nowait(  # noqa: PLR0913, PLR0917
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, bytes | None] | Iterable[Header] | None = None,
    ) -> Delivery:
        """Append a record at once, or raise `BufferFullError`.

        Of a topic or a partition that is not known yet the delivery tells later whether there is such a one.
        """
        pairs: Any = headers  # as soon as they are checked
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, pairs)
        with Told(self._config, record) as told:
            fields, note = prepare(self._config, told), told.note
            delivery: Delivery | Wait | None = self._append(*fields, False, note)
            if delivery is None:
                accumulator = self._open_for_callbacks().accumulator
                accumulator.ahead = not self._in_turn
                delivery = accumulator.append_slowly(*fields, note, known=False)
                if isinstance(delivery, Wait):
                    raise BufferFullError(
                        f"buffer_memory={self._config.buffer_memory} bytes are full: await send() instead"
                    )
        assert isinstance(delivery, Delivery)
        return delivery

    async def send_and_wait(
        self, topic: str, value: V_contra | None = None, key: K_contra | None = None, **fields: Any
    ) -> RecordMetadata:
        """Send a record and wait until it is written; raises why it was not. Takes what `send` takes.

        A call that is cancelled may have sent it; a hook is told what becomes of it.
        """
        delivery = await self.send(topic, value, key, **fields)
        settled = delivery.settled()  # before it is drained, when that costs least
        if self._core is not None:
            self._core.dispatcher.drain_if_idle()
        return (await settled).result()

    async def send_many(  # noqa: PLR0913
        self,
        topic: str,
        values: Sequence[V_contra | None],
        keys: Sequence[K_contra | None] | None = None,
        *,
        partition: int | Sequence[int | None] | None = None,
        timestamp_ms: int | Sequence[int | None] | None = None,
        headers: Sequence[Any] | None = None,
    ) -> Deliveries:
        """Append many records at once, waiting up to `max_block_ms` for room for each part of them.

        All are checked before one is sent, their partitions too; the hooks do not see them. Where there is
        room for the first of them only, the deliveries of the rest fail with `BufferFullError`. A call that
        is cancelled may have sent a beginning of them, and a note of its `CancelledError` says how many. The
        fastest way to send.
        """
        many = Many(topic, values, keys, partition, timestamp_ms, headers)
        return await self._send_all(self._open(), Source([many]))

    async def send_arrow(self, topic: str, table: Any) -> Deliveries:
        """Append the rows of an Arrow table, record batch or reader, or of what speaks Arrow as these do:
        Polars' frames, DuckDB's relations. Columns: `value`, `key`, `partition`, `timestamp`, `headers`.

        A table is checked before its first row is sent, and sent in pieces, each waiting up to `max_block_ms`
        for room. A stream is checked as it is read: a note of its error says how many records are sent.
        """
        core = self._open()
        return await self._send_all(
            core, records_from(topic, table, self._config, core.accumulator.check_size)
        )

    async def send_pandas(self, topic: str, frame: Any) -> Deliveries:
        """Append the rows of a pandas frame, by the same columns as `send_arrow`."""
        return await self.send_arrow(topic, frame)

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic, waiting up to `max_block_ms` while it is unknown."""
        return set((await self._open().topic(topic, self._max_block())).partitions)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send what is there without linger, and wait until all of it is delivered or has failed.

        What failed is said by its `Delivery`, not here. Without `timeout_ms` it takes as long as deliveries
        may, `delivery_timeout_ms`.
        """
        if self._core is None and self._closed:
            raise ClientClosedError(f"{self!r} was flushed after it had been closed")
        if self._core is not None:
            self._check_loop(self._core)
            milliseconds = self._config.delivery_timeout_ms + 1_000 if timeout_ms is None else timeout_ms
            await self._core.flush(Deadline.after(self._core.loop, milliseconds / 1000))

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Deliver what is there, then close all connections.

        Records that are not delivered within `timeout_ms` fail, and a `KafkaTimeoutError` says how many.
        Calls at the same time wait for the same end, each for its own time; records fail with the last one.
        """
        core = None if self._inherited else self._core
        if core is not None:
            self._check_loop(core)
        self._closed = True
        self._leave()
        if core is not None:
            try:
                await core.close(Deadline.after(core.loop, timeout_ms / 1000))
            finally:
                if core.ending.done:
                    self._core, self._last_metrics = None, core.metrics()
        if self._abandoned is not None:  # by a start that was cancelled, and did not wait for that
            await self._abandoned.ending.wait()

    async def stop(self) -> None:
        """`close`, under the name that aiokafka has for it."""
        await self.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def health(self) -> ClusterHealth:
        """Whether the client is in touch with its cluster; never waits."""
        return _NEVER_CONNECTED if self._core is None else self._core.cluster.health()

    def metrics(self) -> ProducerMetrics:
        """What the producer has done so far, or had when it was closed."""
        return self._last_metrics if self._core is None else self._core.metrics()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        core = self._core
        if core is None or self._inherited or self._closed:
            return
        self._let_go()
        if not core.loop.is_closed():
            core.loop.call_soon_threadsafe(_close_soon, core)
        warnings.warn(
            f"{self!r} was never closed: use `async with` or await close()", ResourceWarning, 2, self
        )

    def _let_go(self, seconds: float = 0.0) -> bool:  # noqa: ARG002 - there is no event loop to wait for
        """Say what is lost, at exit or when it is dropped."""
        core = self._core
        if core is not None and not self._inherited and not self._closed:
            say_lost(core, f"<{type(self).__name__} {self._config.client_id}>")
        return False

    def _forked(self) -> None:
        """In a forked child, which has neither the loop nor the connections: what uses them says so."""
        self._inherited = True
        self._leave()

    def _leave(self) -> None:
        """Append nothing without `_open`."""
        self._append: Any = _not_open
        self._chunks: Mapping[str, Chunk] = {}

    async def _send_any(self, record: ProducerRecord) -> Delivery:
        """A record with anything that `send` does not see to by itself."""
        with Told(self._config, record) as told:
            fields, note = prepare(self._config, told), told.note
            if self._core is not None and self._core.accumulator.lacks(fields.topic, fields.partition):
                await self._core.seek_partition(self._max_block())
            delivery: Delivery = self._append(*fields, False, note) or await self._send_slowly(fields, note)
        return delivery

    async def _send_slowly(self, fields: Fields, note: list[Any] | None = None) -> Delivery:
        """Append what needs memory claimed, or a wait.

        The loop's turn, where one is due, comes first: a call cancelled in it has appended nothing. A caller
        that never waits would keep the loop from sending anything.
        """
        core = self._open()
        accumulator, turns = core.accumulator, self._turns
        size = RECORD_OVERHEAD + len(fields.value or b"") + len(fields.key or b"")
        if accumulator.drained:  # so the loop has had a turn since the last record
            turns.paused()
            accumulator.crowded = False
        # Who comes while others wait for their turn waits behind them.
        due = turns.due(LOOK) or accumulator.crowded or accumulator.overfills(fields.topic, size)
        if due or self._in_turn:
            accumulator.crowded = False
            self._in_turn += 1
            try:
                await asyncio.sleep(0)
            finally:
                self._in_turn -= 1
            turns.given()
        accumulator.ahead = not self._in_turn
        deadline: Deadline | None = None
        while True:
            outcome = accumulator.append_slowly(*fields, note)
            if isinstance(outcome, Delivery):
                return outcome
            deadline = deadline or self._max_block()
            if outcome is Wait.TOPIC:
                await core.topic(fields.topic, deadline)
            else:
                await core.room(deadline)
            self._turns.given()
            # A caller that has waited would take all the room that there is, and be the first again to wait
            # for more: it takes what the record needs, and gives a turn before the next.
            accumulator.ahead, accumulator.crowded = False, True

    async def _send_all(self, core: Core, source: Source) -> Deliveries:
        with Intake(core.gather, source) as intake:
            for chunk, partition in intake:
                if core.may_lack(chunk.topic, partition):
                    await core.find_partition(chunk.topic, partition, self._max_block())
                await asyncio.sleep(0)  # the loop's turn comes before a chunk is taken: see `_send_slowly`
                try:
                    await self._put(core, chunk)
                except KafkaError as error:
                    intake.refuse(error)
        return intake.deliveries()

    async def _put(self, core: Core, chunk: Chunk) -> None:
        deadline = self._max_block()
        if chunk.topic not in core.accumulator.topics:
            await core.topic(chunk.topic, deadline)
        while not core.accumulator.put(chunk):
            await core.room(deadline)

    def _max_block(self) -> Deadline:
        return Deadline.after(asyncio.get_running_loop(), self._config.max_block_ms / 1000)

    def _open(self) -> Core:
        core = self._open_core()
        self._used = True
        return core

    def _open_for_callbacks(self) -> Core:
        """The same for callbacks, which may still send while the producer closes."""
        core = self._core
        return core if self._closed and core is not None and core.admits() else self._open()

    def _open_core(self) -> Core:
        if self._closed:
            raise ClientClosedError(f"{self!r} was used after it had been closed")
        if self._core is None:
            self._core = Core(self._config, threads=False)
            self._used = False
            accumulator = self._core.accumulator
            self._append, self._chunks = accumulator.append, accumulator.plain_chunks
            self._moment = accumulator.moment
            self._turns = Turns(fine_time(self._core.loop))
        else:
            self._check_loop(self._core)
        return self._core

    def _check_loop(self, core: Core) -> None:
        if core.loop is not asyncio.get_running_loop():
            raise RuntimeError(
                f"{self!r} belongs to another event loop: every loop needs a client of its own"
            )


def _close_soon(core: Core) -> None:
    closing = core.abandon(ClientClosedError("the producer was never closed"))
    task = asyncio.get_running_loop().create_task(closing)
    _closing.add(task)
    task.add_done_callback(_closing.discard)
