"""Many records at once: columns checked and cut into chunks, and the fate of all of them.

Columns stay columns from here to the encoded batch: nothing is done per record that is not done in C.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.producer.accumulator import CHUNK_BYTES
from kclient.producer.delivery import Chunk
from kclient.producer.part import WIDTH, Columns
from kclient.producer.records import as_bytes, as_headers, as_partition, as_timestamp
from kclient.records.packed import Packed
from kclient.runtime import wait_in_thread
from kclient.types import RecordMetadata, TopicPartition
from kclient.usercode import failure, report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.producer.config import ProducerConfig

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

_BYTES = {bytes, type(None)}
_COLUMNS = ("keys", "partition", "timestamp_ms", "headers")


class Many(NamedTuple):
    """What `send_many` was given, or a piece of a table; one value stands for all where that is allowed."""

    topic: str
    values: Sequence[Any]
    keys: Sequence[Any] | None = None
    partition: int | Sequence[int | None] | None = None
    timestamp_ms: int | Sequence[int | None] | None = None
    headers: Sequence[Any] | None = None
    # The number of the first record in its table, where it is a row of one.
    row: int | None = None

    def name(self, number: int) -> str:
        """What errors call a record."""
        return f"record {number}" if self.row is None else f"row {self.row + number}"


class Source(NamedTuple):
    """What one call sends, in pieces that are made while those before them are sent.

    `at_once` makes all of them first, so that nothing is sent where one of them cannot be made. `partition`
    is the highest that any record is meant for, where that is known before.
    """

    pieces: Iterable[Many]
    at_once: bool = False
    partition: int | None = None


def columns_from(config: ProducerConfig, many: Many, now_ms: int) -> Columns:
    """Columns of bytes, checked: what is wrong with any record is raised before one of them is sent."""
    total = len(many.values)
    keys, values = _both(config, many)
    times = _times(many.timestamp_ms, now_ms, packed=isinstance(keys, Packed))
    headers = None if many.headers is None else list(many.headers)
    given = _partitions(many.partition, total)
    for name, column in zip(_COLUMNS, (keys, given, times, headers), strict=True):
        if column is not None and not isinstance(column, int) and len(column) != total:
            raise ValueError(f"{total} values but {len(column)} {name}: give one for each, or none")
    carried = _each(as_headers, headers, many, "headers") if headers and any(headers) else None
    return Columns(keys, values, times, carried, given)


def _both(config: ProducerConfig, many: Many) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
    """Keys and values: columns of Arrow stay such, if both are, and nobody looks into them."""
    untouched = not (config.value_serializer or config.key_serializer or many.headers)
    if isinstance(many.values, Packed) and untouched:
        if many.keys is None:
            return many.values.block.columns()
        if isinstance(many.keys, Packed):
            return many.keys, many.values
    values = _as_bytes(many, many.values, "value", config.value_serializer)
    if many.keys is None and config.key_serializer is None:
        return [None] * len(values), values
    keys = [None] * len(values) if many.keys is None else many.keys
    return _as_bytes(many, keys, "key", config.key_serializer), values


def _as_bytes(
    many: Many, column: Sequence[Any], what: str, serializer: Callable[[Any], bytes | None] | None
) -> list[bytes | None]:
    if serializer is not None:
        try:
            column = _each(serializer, column, many, what)
        except asyncio.CancelledError as error:  # would look as if the caller had been cancelled
            raise failure(f"the {what}_serializer", serializer, error) from error
    elif not isinstance(column, list):
        column = list(column)
    if set(map(type, column)) <= _BYTES:
        return column
    return _each(partial(as_bytes, what=what, serializer=None), column, many, what)


def _each(make: Callable[[Any], T], column: Iterable[Any], many: Many, what: str) -> list[T]:
    """`make` of each; what it raises says for which record."""
    made: list[T] = []
    try:
        made.extend(map(make, column))  # keeps those before the one that fails
    except BaseException as error:
        error.add_note(f"{what} of {many.name(len(made))}, to topic {many.topic}")
        raise
    return made


def _times(timestamp_ms: Any, now_ms: int, *, packed: bool) -> int | Sequence[int]:
    if timestamp_ms is None:
        return now_ms
    if packed and isinstance(timestamp_ms, np.ndarray):  # of a table, which has checked them; -1 is missing
        return cast("Sequence[int]", np.where(timestamp_ms < 0, now_ms, timestamp_ms))
    if not isinstance(timestamp_ms, Iterable):
        return as_timestamp(timestamp_ms)
    return cast("list[int]", _numbers(timestamp_ms, as_timestamp, missing=now_ms))


def _partitions(given: Any, total: int) -> list[int | None] | None:
    if given is None:
        return None
    if not isinstance(given, Iterable):
        return [as_partition(given)] * total
    return _numbers(given, as_partition, missing=None)


def _numbers(column: Iterable[Any], checked: Callable[[Any], int], missing: int | None) -> list[int | None]:
    """Numbers of all records, each different one checked once; None stands for `missing`."""
    numbers = list(column)
    known = {number: missing if number is None else checked(number) for number in set(numbers)}
    return numbers if set(map(type, numbers)) <= {int} else [known[number] for number in numbers]


def packed_pieces(columns: Columns, sizes: NDArray[np.int64], most: int) -> Iterator[tuple[Columns, int]]:
    """The same as `pieces_of`, where keys and values are columns of Arrow."""
    assert isinstance(columns.values, Packed)
    block, times = columns.values.block, columns.times
    sums = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sums):
        end = max(start + 1, int(np.searchsorted(sums, before + most, "right")))
        size = int(sums[end - 1]) - before
        keys, values = block.slice(start, end).columns()
        own = times if isinstance(times, int) else times[start:end]
        given = None if columns.given is None else columns.given[start:end]
        yield Columns(keys, values, own, None, given), size
        start, before = end, before + size


def pieces_of(columns: Columns, sizes: list[int], most: int = CHUNK_BYTES) -> Iterator[tuple[Columns, int]]:
    """Columns with these sizes of records cut into pieces of up to `most` bytes, or of one record."""
    sums = list(accumulate(sizes))
    start, before = 0, 0
    while start < len(sums):
        end = max(start + 1, bisect_right(sums, before + most, start))
        cut = slice(start, end)
        times = columns.times if isinstance(columns.times, int) else columns.times[cut]
        headers = None if columns.headers is None else columns.headers[cut]
        given = None if columns.given is None else columns.given[cut]
        piece = Columns(columns.keys[cut], columns.values[cut], times, headers, given)
        yield piece, sums[end - 1] - before
        start, before = end, sums[end - 1]


class Deliveries(Sequence[RecordMetadata]):
    """The fate of many records: awaitable, then a sequence of their `RecordMetadata` in the order sent.

        deliveries = await producer.send_many("orders", values)
        print((await deliveries)[0].offset)

    Awaiting raises the first error there is; `errors` has all of them.
    """

    def __init__(self, chunks: list[Chunk], counts: list[int]) -> None:
        self._chunks = chunks
        self._ends = list(accumulate(counts))

    def __repr__(self) -> str:
        return f"<Deliveries of {len(self)} records, {'done' if self.done() else 'pending'}>"

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        part, rank = self._find(range(len(self))[number])
        error = part.error_of(rank)
        if error is not None:
            raise copy(error)
        return part.metadata(rank)

    def done(self) -> bool:
        """Whether the fate of every record is known."""
        return all(chunk.parts and not chunk.left for chunk in self._chunks)

    def errors(self) -> dict[int, KafkaError]:
        """The reasons of those that failed, by their number; complete once `done`."""
        return {
            (self._ends[number - 1] if number else 0) + place // WIDTH: error
            for number, chunk in enumerate(self._chunks)
            for part in chunk.parts
            if part.error is not None
            for rank, place in enumerate(part.places)
            if (error := part.error_of(rank)) is not None
        }

    def ranges(self) -> list[tuple[TopicPartition, int, int]]:
        """Where the records were written, by partition: first offset (-1 if nobody knows) and count; once
        `done`. Unlike `[…]`, this does not cost anything per record.
        """
        return [
            (TopicPartition(part.topic, part.partition), part.base_offset, len(part))
            for chunk in self._chunks
            for part in chunk.parts
            if part.error is None
        ]

    def result(self, timeout: float | None = None) -> Deliveries:
        """Wait in this thread until every record is settled; raises the first error."""
        if asyncio._get_running_loop() is not None and not self.done():
            raise RuntimeError("result() would block the event loop: await the deliveries instead")
        if timeout is None:
            timeout = max((chunk.longest_wait() for chunk in self._chunks), default=0.0)
        if not wait_in_thread(self.add_done_callback, timeout):
            raise KafkaTimeoutError(f"{len(self)} records had not all been delivered after {timeout:g} s")
        return self._checked()

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Have `callback()` called once the fate of every record is known: at once, or on the event loop.

        It must not block, and what it raises is logged.
        """
        left = dict.fromkeys(self._chunks)
        once = [callback]

        def finished(chunk: Chunk) -> None:
            # Chunks may finish on the loop while another thread registers: both can see the last one go,
            # but only one of them takes the callback.
            left.pop(chunk, None)
            if not left:
                try:
                    last = once.pop()
                except IndexError:
                    return
                _call(last, chunk.topic)

        for chunk in self._chunks:
            if not chunk.when_finished(partial(finished, chunk)):
                finished(chunk)
        if not self._chunks:
            _call(callback, "no topic")

    def __await__(self) -> Generator[Any, None, Deliveries]:
        if not self.done():
            yield from self._settled().__await__()
        return self._checked()

    async def _settled(self) -> None:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def finished() -> None:
            with suppress(RuntimeError):  # that loop is closed, and whoever waited on it gone
                loop.call_soon_threadsafe(wake)

        self.add_done_callback(finished)
        await woken

    def _checked(self) -> Deliveries:
        errors = self.errors()
        if errors:
            number = min(errors)
            failure = copy(errors[number])
            failure.add_note(f"record {number} of {len(self)}; {len(errors)} of them were not delivered")
            raise failure
        return self

    def _find(self, number: int) -> Any:
        at = bisect_right(self._ends, number)
        first = self._ends[at - 1] if at else 0
        found = self._chunks[at].find((number - first) * WIDTH)
        if found is None or not found[0].settled:
            raise LookupError(f"the fate of record {number} is not known yet: await the deliveries first")
        return found


def _call(callback: Callable[[], object], topic: str) -> None:
    try:
        callback()
    except BaseException as error:  # noqa: BLE001 - it ends no callback but itself
        report(log, f"the callback of deliveries to {topic},", callback, error)
