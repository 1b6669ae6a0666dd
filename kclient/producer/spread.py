"""From a chunk of one topic to a part for each of its partitions. Decides; knows no queue and no broker.

Hot, per chunk: which partition each record goes to is asked for all keys at once where the partitioner can
tell, and columns are cut by index in C. Small chunks take the plain way, which is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, cast

import numpy as np

from kclient.errors import ConfigurationError, KafkaError
from kclient.producer.delivery import Chunk
from kclient.producer.part import WIDTH, Columns, Odd, Part, packed_sizes
from kclient.producer.partitioner import (
    KeyedPartitioner,
    KeyHash,
    Partitioner,
    PartitionView,
    Sticky,
    StickyChoice,
)
from kclient.producer.sought import no_such_partition
from kclient.records.packed import Packed
from kclient.records.sizes import RECORD_OVERHEAD, headers_size
from kclient.records.steps import Steps
from kclient.types import Header
from kclient.usercode import let_out

_INT16 = 1 << 15
_LARGEST_PARTITION = (1 << 31) - 1
# Fewer records than this are spread faster one by one.
_FEW = 48


class Spread:
    """Spreads the records of one topic."""

    def __init__(self, partitioner: Partitioner, sticky: StickyChoice) -> None:
        self._partitioner = partitioner
        self._sticky = sticky
        self.sent: Callable[[int], None] = sticky.sent
        self._keyed = partitioner if isinstance(partitioner, KeyedPartitioner) else None
        # Whether it is known without asking that records without a key go to the sticky partition.
        self._leaves_keyless = type(partitioner) in (KeyHash, Sticky)

    def cut(self, chunk: Chunk, view: PartitionView) -> list[tuple[Part, KafkaError | None]]:
        """The parts of a chunk, each with the reason if it has no place to go.

        A partition that a record was given is not questioned: metadata may not name it yet.
        """
        if len(chunk.flat) == WIDTH:
            return [self._alone(chunk, view)]
        columns = columns_of(chunk)
        total = len(columns.keys)
        numbers, errors = self._numbers(chunk.topic, columns, view)
        if isinstance(numbers, int):
            parts = [whole(chunk, numbers, columns)]
        else:
            parts = (_by_hand if total < _FEW else _by_index)(chunk, numbers, columns)
        chunk.cut(parts, total)
        return [(part, errors.get(part.partition)) for part in parts]

    def _alone(self, chunk: Chunk, view: PartitionView) -> tuple[Part, KafkaError | None]:
        """The same for a chunk of one record, whose sender most likely waits for it."""
        columns = columns_of(chunk)
        keys, values, times, headers, given, watchers = columns
        wanted = None if given is None else given[0]
        failure: KafkaError | None = None
        try:
            number = self._one(chunk.topic, (keys[0], values[0]), wanted, chunk.size, view)
        except BaseException as error:  # noqa: BLE001 - a user's code, as in `_one_by_one`
            number, failure = -1, self._explained(error, chunk.topic)
        part = Part(chunk, number, (0,), keys, values, times, headers, chunk.size, watchers)
        chunk.cut([part], 1)
        return part, failure

    def _numbers(
        self, topic: str, columns: Columns, view: PartitionView
    ) -> tuple[int | Sequence[int], dict[int, KafkaError]]:
        """The partition of every record, one number where they share it.

        A record that has none gets a number below 0, which stands for what is wrong with it.
        """
        keys, given = columns.keys, columns.given
        if isinstance(keys, Packed) and isinstance(columns.values, Packed):
            numbers = self._packed(columns, keys, columns.values, view)
            if numbers is not None:
                return numbers, {}
            # Whoever looks at single records looks at Python's.
            columns = columns._replace(keys=keys.tolist(), values=columns.values.tolist())
            keys = columns.keys
        if given is None or given.count(None) == len(keys):
            if self._leaves_keyless and keys[0] is None and keys.count(None) == len(keys):
                return self._all_sticky(columns, view), {}
            # `all` is what costs least, and is right where no key is empty.
            if self._keyed is not None and (all(keys) or None not in keys):
                return self._all_keyed(topic, columns, view)
        return self._one_by_one(topic, columns, view)

    def _packed(
        self, columns: Columns, keys: Packed, values: Packed, view: PartitionView
    ) -> int | Sequence[int] | None:
        """The same for columns of Arrow; None where somebody has to look at single records."""
        given = columns.given
        asked = len(keys) if given is None else given.count(None)
        if not asked:
            chosen = np.asarray(given)
            return cast("Sequence[int]", chosen)
        if asked < len(keys) or not self._leaves_keyless:
            return None
        nulls = np.flatnonzero(keys.lengths < 0) if type(self._partitioner) is KeyHash else None
        if nulls is None or len(nulls) == len(keys):
            return _alike(self._sticky.partition_many(packed_sizes(keys, values).tolist(), view))
        hashing = cast("KeyHash", self._partitioner).hashing
        if not len(nulls):
            return cast("Sequence[int]", hashing.partitions(_hashed(keys), view.count))
        numbers = np.empty(len(keys), np.int32)
        keyed = np.flatnonzero(keys.lengths >= 0)
        numbers[keyed] = hashing.partitions(_hashed(keys.take(keyed)), view.count)
        sizes = packed_sizes(keys, values)[nulls].tolist()
        numbers[nulls] = self._sticky.partition_many(sizes, view)
        return cast("Sequence[int]", numbers)

    def _all_sticky(self, columns: Columns, view: PartitionView) -> int | Sequence[int]:
        return _alike(self._sticky.partition_many(columns.sizes(), view))

    def _all_keyed(
        self, topic: str, columns: Columns, view: PartitionView
    ) -> tuple[int | Sequence[int], dict[int, KafkaError]]:
        assert self._keyed is not None
        keys = cast("list[bytes]", columns.keys)
        if len(keys) >= _FEW:
            try:
                if type(self._keyed) is KeyHash:  # without a list in between
                    return cast("Sequence[int]", self._keyed.hashing.partitions(keys, view.count)), {}
                return self._keyed.partition_many(keys, view.count), {}
            except BaseException as error:  # noqa: BLE001 - asked one by one it tells which record is at fault
                let_out(error)
                return self._one_by_one(topic, columns, view)
        return self._one_by_one(topic, columns, view)

    def _one_by_one(
        self, topic: str, columns: Columns, view: PartitionView
    ) -> tuple[Sequence[int], dict[int, KafkaError]]:
        numbers: list[int] = []
        errors: dict[int, KafkaError] = {}
        all_given = columns.given or [None] * len(columns.keys)
        for key, value, given, size in zip(
            columns.keys, columns.values, all_given, columns.sizes(), strict=True
        ):
            try:
                number = self._one(topic, (key, value), given, size, view)
            except BaseException as error:  # noqa: BLE001 - a user's: it is its record's, and no other's
                number = -1 - len(errors)
                errors[number] = self._explained(error, topic)
            numbers.append(number)
        return numbers, errors

    def _one(
        self,
        topic: str,
        record: tuple[bytes | None, bytes | None],
        given: int | None,
        size: int,
        view: PartitionView,
    ) -> int:
        if given is not None:
            if given > _LARGEST_PARTITION:
                raise no_such_partition(topic, given, view.count)
            return given
        number = self._partitioner.partition(topic, *record, view)
        return self._sticky.partition(size, view) if number is None else number

    def _explained(self, error: BaseException, topic: str) -> KafkaError:
        let_out(error)
        if isinstance(error, KafkaError):
            return error
        explained = ConfigurationError(
            f"the partitioner {self._partitioner!r} failed for a record of topic {topic}: {error!r}"
        )
        explained.__cause__ = error
        return explained


def _alike(numbers: list[int]) -> int | Sequence[int]:
    """One number where all are the same."""
    return numbers[0] if numbers[0] == numbers[-1] and len(set(numbers)) == 1 else numbers


def _hashed(keys: Packed) -> Sequence[bytes]:
    """Keys none of which is null."""
    return cast("Sequence[bytes]", keys)


def columns_of(chunk: Chunk) -> Columns:
    """The fields of all records of a chunk."""
    if chunk.columns is not None:
        return chunk.columns
    flat = chunk.flat
    keys, values = flat[0::WIDTH], flat[1::WIDTH]
    total = len(keys)
    columns = Columns(keys, values, _times(chunk.ticks, total), None, None, chunk.take_watchers(total))
    return _with_odd(columns) if chunk.odd else columns


def _times(ticks: list[int], total: int) -> int | Steps:
    """The timestamp of every record, by the places from which on they hold."""
    if len(ticks) == 2:
        return ticks[1]
    return Steps([place // WIDTH for place in ticks[0::2]], ticks[1::2], total)


def _with_odd(columns: Columns) -> Columns:
    """Columns some of whose values are `Odd`."""
    total = len(columns.keys)
    values: list[Any] = list(columns.values)
    times = [columns.times] * total if isinstance(columns.times, int) else list(columns.times)
    headers: list[Sequence[Header]] = [()] * total
    given: list[int | None] = [None] * total
    for number, value in enumerate(values):
        if value.__class__ is Odd:
            values[number], time, headers[number], given[number] = value
            if time is not None:
                times[number] = time
    still = times[0] == times[-1] and times.count(times[0]) == total
    return columns._replace(
        values=values,
        times=times[0] if still else times,
        headers=headers if any(headers) else None,
        given=None if given.count(None) == total else given,
    )


def whole(chunk: Chunk, partition: int, columns: Columns | None = None) -> Part:
    """All records of a chunk as one part."""
    columns = columns or columns_of(chunk)
    places = range(0, len(columns.keys) * WIDTH, WIDTH)
    keys, values, times, headers, _, watchers = columns
    return Part(chunk, partition, places, keys, values, times, headers, chunk.size, watchers)


def _by_hand(chunk: Chunk, numbers: Sequence[int], columns: Columns) -> list[Part]:
    """Record by record: the reference."""
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places.setdefault(number, []).append(place)
    sizes = columns.sizes()
    times, headers, watchers = columns.times, columns.headers, columns.watchers
    times = list(times) if isinstance(times, Steps) else times
    return [
        Part(
            chunk,
            number,
            [place * WIDTH for place in mine],
            [columns.keys[place] for place in mine],
            [columns.values[place] for place in mine],
            times if isinstance(times, int) else [times[place] for place in mine],
            None if headers is None else [headers[place] for place in mine],
            sum(sizes[place] for place in mine),
            None if watchers is None else [watchers[place] for place in mine],
        )
        for number, mine in places.items()
    ]


def _by_index(chunk: Chunk, numbers: Sequence[int], columns: Columns) -> list[Part]:
    """All records of a partition beside each other, by one stable sort of small numbers."""
    by_record = np.asarray(numbers)
    if by_record.min() > -_INT16 and by_record.max() < _INT16:
        by_record = by_record.astype(np.int16)  # small numbers have a sort of their own
    order = by_record.argsort(kind="stable")
    ends = np.flatnonzero(np.diff(by_record[order])) + 1
    bounds = [0, *ends.tolist(), len(numbers)]
    places = order * WIDTH
    keys, values, times, headers, _, watchers = columns
    if isinstance(keys, Packed) and isinstance(values, Packed):
        keys, values = keys.take(order), values.take(order)
        times = times if isinstance(times, int) else cast("Sequence[int]", np.asarray(times)[order])
        sizes = np.add.reduceat(packed_sizes(keys, values), bounds[:-1]).tolist()
    else:
        pick = itemgetter(*order.tolist())
        keys, values = pick(keys), pick(values)
        if isinstance(times, Steps) and len(numbers) < _FEW * len(bounds):
            times = list(times)  # many small parts: finding out where it changes costs more for each
        times = times if isinstance(times, int | Steps) else pick(times)
        headers = None if headers is None else pick(headers)
        watchers = None if watchers is None else pick(watchers)
        sizes = _sums(keys, values, headers, bounds)
    return [
        Part(
            chunk,
            int(by_record[order[start]]),
            places[start:end],
            keys[start:end],
            values[start:end],
            times
            if isinstance(times, int)
            else times.at(order[start:end])
            if isinstance(times, Steps)
            else times[start:end],
            None if headers is None else headers[start:end],
            size,
            None if watchers is None else watchers[start:end],
        )
        for start, end, size in zip(bounds, bounds[1:], sizes, strict=False)
    ]


def _sums(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[Header]] | None,
    bounds: list[int],
) -> list[int]:
    """The size of each run between two bounds, as `Columns.sizes` counts."""
    sums = []
    for start, end in pairwise(bounds):
        size = RECORD_OVERHEAD * (end - start) + _length(keys[start:end]) + _length(values[start:end])
        if headers is not None:
            size += sum(map(headers_size, filter(None, headers[start:end])))
        sums.append(size)
    return sums


def _length(column: Sequence[bytes | None]) -> int:
    try:
        return sum(map(len, column))  # type: ignore[arg-type]
    except TypeError:  # some are null
        return sum(map(len, filter(None, column)))
