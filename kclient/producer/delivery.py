"""What became of records: the handle a caller keeps, and the parts of a chunk it looks into.

A `Chunk` is what callers have appended to one topic since the last drain, a flat list and nothing else. The
drain cuts it into `Part`s, one per partition; a part lives and dies with the batch that carries it. A
`Delivery` is a chunk and a place in it: no future, no event, nothing per record that has to be told, and
nothing keeps it: who needs it again makes an equal one. So a record leaves nothing to the garbage collector,
which would otherwise walk hundreds of thousands of handles again and again. An awaited one costs a future.

Chunks are filled by any thread and settled on the loop. A watcher may come while its record is being
settled. No lock decides between the two, as that would cost more than all the rest: the watcher is noted
first and then looks whether the record is settled; the loop marks the record as settled first and then looks
for watchers. Both may find the other, so a watcher is called by the one that takes it out of the dictionary.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from copy import copy
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.records.sizes import RECORD_OVERHEAD, headers_size
from kclient.runtime import wait_in_thread
from kclient.types import Header, RecordMetadata, TimestampType, TopicPartition

if TYPE_CHECKING:
    from threading import RLock

log = logging.getLogger(__name__)

Watcher: TypeAlias = "Callable[[Delivery], object]"

# Fields of one record in the flat list of a chunk: key, value, timestamp, headers, partition.
WIDTH = 5
_UNKNOWN_OFFSET = -1


class Columns(NamedTuple):
    """The records of a chunk by field. `times` is one number where all are alike, `headers` None for none."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times: int | Sequence[int]
    headers: Sequence[Sequence[Header]] | None
    given: Sequence[int | None]

    def sizes(self) -> list[int]:
        """What each record counts for in batches and in the buffer."""
        return record_sizes(self.keys, self.values, self.headers)


def record_sizes(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[Header]] | None,
) -> list[int]:
    """What records count for, each by itself."""
    try:
        lengths = map(add, map(len, keys), map(len, values))  # type: ignore[arg-type]
        sizes = [RECORD_OVERHEAD + length for length in lengths]
    except TypeError:  # some are null
        pairs = zip(keys, values, strict=True)
        sizes = [RECORD_OVERHEAD + len(key or b"") + len(value or b"") for key, value in pairs]
    if headers is None:
        return sizes
    return [size + headers_size(own) if own else size for size, own in zip(sizes, headers, strict=True)]


class Part:
    """The records of one chunk that go to one partition, in order, as columns.

    `places` are their places in the chunk's flat list. `times` may be one number for all, `headers` None.
    """

    __slots__ = (
        "append_time",
        "base_offset",
        "chunk",
        "error",
        "errors",
        "headers",
        "keys",
        "log_start_offset",
        "partition",
        "places",
        "settled",
        "size",
        "times",
        "topic",
        "values",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - one per column
        self,
        chunk: Chunk,
        partition: int,
        places: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: int | Sequence[int],
        headers: Sequence[Sequence[Header]] | None,
        size: int,
    ) -> None:
        # Taken away once it is settled: with it, chunk and parts are a circle, which only the collector ends.
        self.chunk = chunk
        self.topic = chunk.topic
        self.partition = partition
        self.places = places
        self.keys = keys
        self.values = values
        self.times = times
        self.headers = headers
        self.size = size
        self.settled = False
        self.base_offset = _UNKNOWN_OFFSET
        self.append_time = -1
        self.log_start_offset = -1
        self.error: KafkaError | None = None
        # Errors of single records by their rank, where the broker names them.
        self.errors: dict[int, KafkaError] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def split(self, at: int) -> tuple[Part, Part]:
        """The first `at` records and the rest, in place of this part."""
        headers = None if self.headers is None else self.headers[:at]
        share = sum(record_sizes(self.keys[:at], self.values[:at], headers))
        first = self._half(slice(None, at), share)
        second = self._half(slice(at, None), self.size - share)
        self.chunk.replace(self, [first, second])
        return first, second

    def _half(self, cut: slice, size: int) -> Part:
        times = self.times if isinstance(self.times, int) else self.times[cut]
        headers = None if self.headers is None else self.headers[cut]
        keys, values = self.keys[cut], self.values[cut]
        return Part(self.chunk, self.partition, self.places[cut], keys, values, times, headers, size)

    def metadata(self, rank: int) -> RecordMetadata:
        """What is known of a record that was written, by its rank in the part."""
        offset, time = self.base_offset, self.append_time
        stamped = TimestampType.CREATE_TIME if time < 0 else TimestampType.LOG_APPEND_TIME
        if time < 0:
            time = self.times if isinstance(self.times, int) else self.times[rank]
        topic = self.topic
        return RecordMetadata(
            topic,
            self.partition,
            TopicPartition(topic, self.partition),
            offset + rank if offset >= 0 else _UNKNOWN_OFFSET,
            time,
            stamped,
            self.log_start_offset,
        )

    def error_of(self, rank: int) -> KafkaError | None:
        if self.errors is not None and rank in self.errors:
            return self.errors[rank]
        return self.error


class Chunk:
    """Records appended to one topic: first as one flat list, or as columns where they came as such, then as
    parts.
    """

    __slots__ = (
        "_found",
        "_lock",
        "columns",
        "deadline",
        "finished",
        "flat",
        "left",
        "limit",
        "now_ms",
        "opened",
        "parts",
        "size",
        "topic",
        "watched",
    )

    def __init__(self, topic: str, lock: RLock, opened: float, deadline: float) -> None:
        self.topic = topic
        self.flat: list[Any] = []
        self.columns: Columns | None = None
        self.size = 0
        self.limit = 0
        # The timestamp of records that come without one; None where each needs its own.
        self.now_ms: int | None = None
        self.opened = opened
        self.deadline = deadline
        self.parts: list[Part] = []
        # Records that are not settled; counted from the drain on.
        self.left = 0
        # Whom to call, by the places of records.
        self.watched: dict[int, Watcher] = {}
        self.finished: list[Callable[[], object]] = []
        self._lock = lock
        self._found: dict[int, tuple[Part, int]] | None = None

    def __repr__(self) -> str:
        return (
            f"<Chunk of {self.topic}, {self.size} bytes, {len(self.parts)} parts, {self.left} records open>"
        )

    def flat_records(self) -> int:
        """How many records there are before they are cut into parts."""
        return len(self.flat) // WIDTH if self.columns is None else len(self.columns.values)

    def cut(self, parts: list[Part], records: int) -> None:
        """From now on the records are in `parts`."""
        self.parts = parts
        self.left = records
        self.flat = []
        self.columns = None

    def replace(self, part: Part, by: list[Part]) -> None:
        with self._lock:
            at = self.parts.index(part)
            self.parts[at : at + 1] = by
            self._found = None

    def chain(self, place: int, watcher: Watcher) -> None:
        """Have another watcher called after the one there is, if nobody has taken that out by now.

        While it is taken out to be joined, a third one may come and find its place free.
        """
        with self._lock:
            while True:
                earlier = self.watched.pop(place, None)
                if isinstance(earlier, _Several):
                    earlier.append(watcher)
                    watcher = earlier
                elif earlier is not None:
                    watcher = _Several((earlier, watcher))
                if self.watched.setdefault(place, watcher) is watcher:
                    return

    def when_finished(self, callback: Callable[[], object]) -> bool:
        """Have `callback` called once all records are settled; False when they already are."""
        with self._lock:
            if self.parts and not self.left:
                return False
            self.finished.append(callback)
        return True

    def find(self, place: int) -> tuple[Part, int] | None:
        """The part that has the record, and its rank there; None before the drain."""
        with self._lock:
            return self._locate(place) if self.parts else None

    def _locate(self, place: int) -> tuple[Part, int]:
        if len(self.parts) == 1:
            return self.parts[0], place // WIDTH
        if self._found is None:
            self._found = {at: (part, rank) for part in self.parts for rank, at in enumerate(part.places)}
        return self._found[place]

    def settle(self, part: Part) -> None:
        """Mark a part as settled; its watchers are yet to be called."""
        part.settled = True
        self.left -= len(part)

    def call_finished(self) -> None:
        """Call whoever waits for all records, which are settled. What they raise is logged."""
        with self._lock:  # one who comes later finds no record left
            finished, self.finished = self.finished, []
        for callback in finished:
            try:
                callback()
            except Exception:
                log.exception("the callback of deliveries to %s failed", self.topic)

    def call_watchers(self, part: Part) -> None:
        """Call whoever watches a record of a part that is settled, in order. What they raise is logged."""
        take = self.watched.pop
        for rank, place in enumerate(part.places):
            watcher = take(place, None)
            if watcher is not None:
                delivery = Delivery()
                delivery._chunk = self
                delivery._place = place
                delivery._part = part
                delivery._rank = rank
                try:  # as `_call`, without the call
                    watcher(delivery)
                except Exception:
                    log.exception("the callback of a delivery to %s failed", self.topic)


def _call(watcher: Watcher, delivery: Delivery) -> None:
    try:
        watcher(delivery)
    except Exception:
        log.exception("the callback of a delivery to %s failed", delivery._chunk.topic)


class _Several(list["Watcher"]):
    """Watchers of one record, in the order in which they came."""

    def __call__(self, delivery: Delivery) -> None:
        for watcher in self:
            _call(watcher, delivery)


class Delivery:
    """The fate of one record: awaitable, and a `RecordMetadata` once the record is written.

        delivery = await producer.send("orders", b"value")
        metadata = await delivery

    `result` is for threads, `add_done_callback` for neither waiting nor asking. A record that could not be
    delivered raises the reason.
    """

    __slots__ = ("_chunk", "_part", "_place", "_rank")

    # Set by whoever makes one, without a constructor: a call more per record would be felt. The last two are
    # there once the record is known to be settled.
    _chunk: Chunk
    _place: int
    _part: Part
    _rank: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delivery):
            return NotImplemented
        return self._chunk is other._chunk and self._place == other._place

    def __hash__(self) -> int:
        return hash((id(self._chunk), self._place))

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "failed" if self.exception() else "delivered"
        return f"<Delivery to {self._chunk.topic}, {state}>"

    def done(self) -> bool:
        """Whether the fate of the record is known."""
        return self._settled_part() is not None

    def exception(self) -> KafkaError | None:
        """Why the record was not delivered; None where it was, or where that is not known yet."""
        try:
            part = self._part
        except AttributeError:
            found = self._settled_part()
            if found is None:
                return None
            part = found
        return None if part.error is None else part.error_of(self._rank)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was written, waiting up to `timeout` seconds; raises why it was not.

        Not for coroutines, which `await` the delivery: this blocks the thread. `timeout` None waits for as
        long as the producer's `delivery_timeout_ms` can take.
        """
        if not self.done() and not self._wait(timeout):
            raise KafkaTimeoutError(
                f"a record for topic {self._chunk.topic} had not been delivered after {timeout:g} s"
            )
        return self._outcome()

    def add_done_callback(self, callback: Watcher) -> None:
        """Have `callback(delivery)` called once the fate is known: at once, or later on the event loop.

        It must not block, and what it raises is logged.
        """
        chunk, place = self._chunk, self._place
        watched = chunk.watched
        if place in watched or watched.setdefault(place, callback) is not callback:
            chunk.chain(place, callback)
        if chunk.parts and self.done():
            watcher = watched.pop(place, None)
            if watcher is not None:
                _call(watcher, self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from self._settled().__await__()
        return self._outcome()

    async def _settled(self) -> None:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not woken.done():
                woken.set_result(None)

        def called(_: Delivery) -> None:
            # The producer may live on another loop than the one that waits.
            if asyncio._get_running_loop() is loop:
                settle()
            else:
                with suppress(RuntimeError):  # that loop is closed, and whoever waited on it gone
                    loop.call_soon_threadsafe(settle)

        self.add_done_callback(called)
        await woken

    def _wait(self, timeout: float | None) -> bool:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("result() would block the event loop: await the delivery instead")
        return wait_in_thread(lambda wake: self.add_done_callback(lambda _: wake()), timeout)

    def _settled_part(self) -> Part | None:
        """The part with the record once it is settled; before that it may still be split."""
        try:
            return self._part
        except AttributeError:
            found = self._chunk.find(self._place)
            if found is None or not found[0].settled:
                return None
            # In this order: another thread that finds the part needs the rank too.
            part, self._rank = found
            self._part = part
            return part

    def _outcome(self) -> RecordMetadata:
        part = self._settled_part()
        assert part is not None
        error = part.error_of(self._rank)
        if error is not None:
            raise copy(error)  # a traceback belongs to one caller
        return part.metadata(self._rank)
