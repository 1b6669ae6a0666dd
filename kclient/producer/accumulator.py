"""Where callers put records: one open chunk per topic, and the memory that all records together may take.

Hot. `append` runs on the caller's thread, for asyncio clients on the loop, and does the least there is: look
up the chunk, add the size, extend a flat list, make a handle. It hands out nothing where something has to be
decided (a new topic, a full chunk, no memory left); `append_slowly` decides and says what to wait for. The
clients have it once more in their `send`, for records of key and value only: see `plain_chunks`.

On the loop, `drain` takes all chunks away at once; cutting them into partitions is `spread`'s work.

**Signals.** A signal handler runs on the main thread between two byte codes of whatever runs there, and may
raise (Ctrl-C) or call us again (a handler that closes the producer, and waits for the loop). So a body under
the lock calls nothing, goes through no loop and makes no container: CPython looks for signals, changes
threads and collects garbage only there, so such a body is done or not begun. `with` takes and gives back the
lock in the same way. Between two bodies everything is whole. What such a moment may leave behind is a record
of which the loop was not told; then its chunk has no room, and the next who comes tells the loop.

Where `with` itself would be interrupted, from Python 3.14 on, there is no lock: see `runtime.Indivisible`.

So nobody ever waits for the lock, as long as nothing traces line by line and one lock guards the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum, IntEnum
from threading import get_ident
from typing import TYPE_CHECKING, Any

from kclient.errors import KafkaError, RecordTooLargeError
from kclient.producer.delivery import NEVER, Chunk, Delivery
from kclient.producer.part import WIDTH, Odd
from kclient.producer.records import check_topic
from kclient.records.sizes import BATCH_OVERHEAD, RECORD_OVERHEAD, headers_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from kclient.producer.config import ProducerConfig
    from kclient.producer.stamps import Stamps
    from kclient.types import Header

# A chunk is closed at this size, which is when a caller lets the loop run: large enough for work per chunk to
# be small per record, small enough for answers to be read in time, and for all of it to fit into one request,
# headers of batches included.
CHUNK_BYTES = 1_015_808
# Memory is claimed for an open chunk in steps, so that a record needs one comparison for all limits: in such
# steps, and larger ones as the chunk grows.
STEP = 32_768


def _nobody() -> bool:
    return False


class Urgency(IntEnum):
    """How soon the loop should drain."""

    NONE = 0
    LINGER = 1
    NOW = 2


class Wait(Enum):
    """What a record waits for before it can be appended."""

    TOPIC = "the topic's metadata"
    ROOM = "room in the buffer"


class Accumulator:
    """The open chunks of one producer.

    `wake` is called when the loop has to drain, and how soon; from any thread, and once for many records.
    """

    def __init__(
        self,
        config: ProducerConfig,
        lock: AbstractContextManager[object],
        wake: Callable[[Urgency], None],
        now: Callable[[], float],
        stamps: Stamps,
    ) -> None:
        self.lock = lock
        self._wake = wake
        self._now = now
        self.moment: Callable[[], float] = stamps.moment
        self._tick = stamps.tick
        self._open: dict[str, Chunk] = {}
        # The open chunks for callers that append by themselves, in the way of `append`, what needs neither a
        # partition nor headers nor a timestamp of its own, while the chunk's tick holds; always empty where
        # there can be no such record.
        plain = not (config.key_serializer or config.value_serializer or config.hooks)
        self.plain_chunks: Mapping[str, Chunk] = self._open if plain else {}
        self._closed: dict[Chunk, None] = {}
        # What the loop was told since it drained last, and how often it has drained.
        self._woken = Urgency.NONE
        self._drains = 0
        # Topics that are known, with the number of their partitions.
        self.topics: Mapping[str, int] = {}
        self._memory = config.buffer_memory
        self._claimed = 0
        self._waiting: dict[Callable[[], None], None] = {}
        self._batch_size = config.largest_batch
        self._largest = config.max_request_size
        self._largest_compressed = config.decompressed_batch_max_bytes if config.codec else None
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._refusal: KafkaError | None = None
        # Where callbacks run.
        self._thread = get_ident()
        # Whether records are taken from whoever appends now, although there is a refusal.
        self._admits: Callable[[], bool] = _nobody
        # Whether those who come next may append quickly. Not while callers on the loop wait for their turn.
        self.ahead = True
        # How often memory was given back, or a reason to wait for it went away.
        self.given_back: int = 0
        # A chunk was full since this was last looked at: a caller on the loop should give it a turn.
        self.crowded: bool = False

    def __repr__(self) -> str:
        claimed = f"{self._claimed} of {self._memory} bytes claimed"
        return f"<Accumulator {claimed}, {len(self._open)} chunks open, {len(self._waiting)} waiting>"

    @property
    def memory_used(self) -> int:
        """Bytes claimed by records that are not settled, and by open chunks."""
        return self._claimed

    @property
    def records(self) -> int:
        """How many records wait to be drained."""
        return sum(chunk.flat_records() for chunk in [*self._closed, *self._open.values()])

    @property
    def pressed(self) -> bool:
        """Whether callers wait for room, so that nothing should linger."""
        return bool(self._waiting)

    def append(  # noqa: C901, PLR0912, PLR0913, PLR0917 - called per record: no calls, no object around its fields
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
        grow: bool = False,
        note: list[Any] | None = None,
    ) -> Delivery | None:
        """Take a record in; None where `append_slowly` has to decide. The hottest path there is.

        With `grow` memory is claimed for it where the chunk has no room; None then, where there is no memory
        or no chunk. `note` is the place that it will have, and its watcher.
        """
        added = RECORD_OVERHEAD
        if value is not None:
            added += len(value)
        if key is not None:
            added += len(key)
        if headers:
            added += headers_size(headers)
        odd = headers or partition is not None or timestamp_ms is not None
        item = (key, Odd(value, timestamp_ms, headers, partition) if odd else value)
        now = self.moment()
        tick: list[int] | None = None
        until = now
        if grow:
            ms, until = self._tick()
            tick = [0, ms]
        delivery = Delivery()
        with self.lock:  # no calls in here: see above
            if topic in self._open:
                chunk = self._open[topic]
                size = chunk.size + added
                if tick is None:
                    if size > chunk.limit or now >= chunk.until:
                        return None
                elif size > chunk.limit:
                    needed = size - chunk.limit
                    if self._claimed + needed > self._memory:
                        return None
                    self._claimed += needed
                    chunk.limit = size
                flat = chunk.flat
                flat += item
                place = chunk.end
                chunk.end = place + WIDTH
                chunk.size = size
                if odd:
                    chunk.odd = True
                if tick is not None and until > chunk.until:  # else another thread has looked since
                    chunk.until = until
                    if chunk.ticked != tick[1]:
                        chunk.ticked = tick[1]
                        tick[0] = place
                        ticks = chunk.ticks
                        ticks += tick
                if note is not None:
                    note[0] = place
                    noted = chunk.noted  # a list, until the chunk is drained, which closes it before
                    noted += note  # type: ignore[operator]
                delivery._chunk = chunk
                delivery._place = place
                return delivery
        return None

    def append_slowly(  # noqa: PLR0913, PLR0917
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header],
        note: list[Any] | None = None,
        *,
        known: bool = True,
    ) -> Delivery | Wait:
        """Take a record in after making room for it, or say what it has to wait for.

        `known` False takes records for topics of which nothing is known yet.
        """
        size = RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        if headers:
            size += headers_size(headers)
        self.check_size(topic, size)
        while True:
            if topic not in self.topics:
                check_topic(topic)
                if known:
                    self._check_refusal()
                    return Wait.TOPIC
            chunk = self._chunk_for(topic, size)
            before = chunk.size
            delivery = self.append(topic, value, key, partition, timestamp_ms, headers, True, note)
            if delivery is not None:
                break
            if chunk.open:
                return Wait.ROOM
            # The loop took it away in this moment.
        # In this order: a chunk of which the loop does not know has no room for others.
        self._call_loop(Urgency.NOW if before + size >= self._batch_size else Urgency.LINGER)
        self._claim_ahead(chunk, before)
        return delivery

    @property
    def drained(self) -> bool:
        """Whether nothing was appended since the loop drained."""
        return not self._open

    def overfills(self, topic: str, size: int) -> bool:
        """Whether a record would close the chunk of its topic: on the loop, it is rather drained before."""
        chunk = self._open.get(topic)
        return chunk is not None and _overfills(chunk, size)

    def put(self, chunk: Chunk) -> bool:
        """Take in a chunk that was filled elsewhere; False when there is no room for it."""
        # Its time begins now: it may have waited long for room, which is not its delivery.
        opened = self._now()
        taken = False
        known = self._refusal
        self._check_refusal()
        with self.lock:
            refusal = self._refusal
            if refusal is known and self._claimed + chunk.size <= self._memory:
                taken = True
                self._claimed += chunk.size
                chunk.opened = opened
                chunk.deadline = opened + self._delivery_timeout
                # Behind what was appended to the topic before it.
                if chunk.topic in self._open:
                    before = self._open[chunk.topic]
                    del self._open[chunk.topic]
                    before.open = False
                    self._claimed -= before.limit - before.size
                    before.limit = before.size
                    self._closed[before] = None
                self._closed[chunk] = None
        if refusal is not None and refusal is not known:
            raise copy(refusal)
        if taken:
            self._call_loop(Urgency.NOW)
        return taken

    def lacks(self, topic: str, partition: int | None) -> bool:
        """Whether a topic is known and a partition of it is not; it may have been added since."""
        return partition is not None and partition >= self.topics.get(topic, partition + 1)

    def new_chunk(self, topic: str) -> Chunk:
        """An empty chunk whose time begins now."""
        now = self._now()
        return Chunk(topic, self.lock, now, now + self._delivery_timeout, self._thread)

    def drain(self) -> list[Chunk]:
        """Take all chunks away, those appended to first in front."""
        nothing: dict[Chunk, None] = {}
        with self.lock:
            self._drains += 1
            self._woken = Urgency.NONE  # what comes from now on may be missed below, and wakes the loop again
        given_back = self._close_all()
        with self.lock:
            closed, self._closed = self._closed, nothing
        if given_back:
            self._tell_waiting()
        return [chunk for chunk in closed if chunk.size]

    def release(self, size: int) -> None:
        """Give memory back; called when records are settled."""
        with self.lock:
            self._claimed -= size
        self._tell_waiting()

    def when_room(self, callback: Callable[[], None], given_back: int) -> None:
        """Have `callback` called when memory is given back next; from then on nothing lingers.

        `given_back` is as it was before the caller found no room: if memory was given back between that and
        this, perhaps the last there was to give back, `callback` is called at once.
        """
        with self.lock:
            missed = self.given_back != given_back
            if not missed:
                self._waiting[callback] = None
        if missed:
            callback()
        else:
            self._call_loop(Urgency.NOW)

    def no_longer_waiting(self, callback: Callable[[], None]) -> None:
        """For those who gave up."""
        with self.lock:
            if callback in self._waiting:
                del self._waiting[callback]

    def refuse(self, error: KafkaError | None, unless: Callable[[], bool] = _nobody) -> None:
        """From now on take no more records, `unless` that says so, or, with None, take them again."""
        with self.lock:
            self._refusal = error
            self._admits = unless
        self._close_all()
        self._call_loop(Urgency.NOW)
        self._tell_waiting()

    def check_size(self, topic: str, size: int, which: str = "a record") -> None:
        """Refuse a record that could never be sent."""
        if size + BATCH_OVERHEAD > self._largest:
            raise RecordTooLargeError(
                f"{which} for topic {topic} takes {size} bytes, more than max_request_size={self._largest} "
                "allows: raise it, and the topic's max.message.bytes with it"
            )
        if self._largest_compressed is not None and size > self._largest_compressed:
            raise RecordTooLargeError(
                f"a record for topic {topic} takes {size} bytes, and consumers refuse a compressed batch "
                f"that becomes more than {self._largest_compressed}: raise decompressed_batch_max_bytes, "
                "there too, or send it without compression_type"
            )
        if size > self._memory:
            raise RecordTooLargeError(
                f"{which} for topic {topic} takes {size} bytes, more than buffer_memory={self._memory} has"
            )

    def _close_all(self) -> int:
        """Close the open chunks; how much memory that gives back."""
        given_back = 0
        for topic in list(self._open):
            with self.lock:
                if topic in self._open:
                    chunk = self._open[topic]
                    del self._open[topic]
                    chunk.open = False
                    given_back += chunk.limit - chunk.size
                    self._claimed -= chunk.limit - chunk.size
                    chunk.limit = chunk.size
                    self._closed[chunk] = None
        return given_back

    def _tell_waiting(self) -> None:
        """Memory was given back, or there is another reason to look again."""
        nobody: dict[Callable[[], None], None] = {}
        with self.lock:
            self.given_back += 1
            waiting, self._waiting = self._waiting, nobody
        for callback in waiting:
            callback()

    def _check_refusal(self) -> None:
        refusal = self._refusal
        if refusal is not None and not self._admits():
            raise copy(refusal)

    def _chunk_for(self, topic: str, size: int) -> Chunk:
        """The open chunk of a topic; a new one where there is none, or a record of this size is too much."""
        while True:
            refusal = self._refusal
            self._check_refusal()
            chunk = self._open.get(topic)
            if chunk is not None and not _overfills(chunk, size):
                return chunk
            fresh = self.new_chunk(topic)
            with self.lock:
                current = self._open[topic] if topic in self._open else None  # noqa: SIM401 - no calls in here
                # After a refusal the chunks are closed, and no others may come but of those it admits.
                if current is chunk and self._refusal is refusal:
                    if chunk is not None:
                        chunk.open = False
                        self._claimed -= chunk.limit - chunk.size
                        chunk.limit = chunk.size
                        self._closed[chunk] = None
                        self.crowded = True
                    self._open[topic] = fresh

    def _claim_ahead(self, chunk: Chunk, before: int) -> None:
        """Claim memory for those who come next, if they may be quick; once the loop knows of the chunk.

        `before` is the size of the chunk before the record that came last.
        """
        with self.lock:
            # Up to just below a full batch: the record that fills it comes slowly, and wakes the loop.
            bound = self._batch_size - 1
            if before >= bound:
                bound = CHUNK_BYTES
            ahead = STEP
            if ahead < before >> 1:  # noqa: PLR1730 - no calls in here
                ahead = before >> 1
            if bound > before + ahead:  # noqa: PLR1730
                bound = before + ahead
            step = bound - chunk.limit
            if step > self._memory - self._claimed:  # noqa: PLR1730
                step = self._memory - self._claimed
            if not self.ahead:
                chunk.until = NEVER
            elif step > 0 and chunk.open:
                self._claimed += step
                chunk.limit += step

    def _call_loop(self, urgency: Urgency) -> None:
        """Have the loop drain what was appended before, unless it will anyway."""
        if urgency <= self._woken:
            return
        drains = self._drains
        self._wake(urgency)
        with self.lock:
            # Said only after it was done; and a drain that came meanwhile may be the one that was asked for.
            if self._drains == drains and self._woken < urgency:
                self._woken = urgency


def _overfills(chunk: Chunk, size: int) -> bool:
    return chunk.size > 0 and chunk.size + size > CHUNK_BYTES
