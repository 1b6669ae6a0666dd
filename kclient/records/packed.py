"""Columns of Arrow as records: keys and values stay in their buffers until they are copied into a batch.

Hot. The other way in beside `pieces`, for what never were Python objects. The records of a batch are one
`take`: lengths, deltas, keys and values are elements of one array, the *pool*, and a record is a row of
numbers that says which of them follow each other. `pieces.by_record` is the plain path it is tested against.

`Block` is what was sent together; `Packed` is one column of some of its rows, a sequence of bytes like a
list of them, which is what everybody sees who is not in a hurry. The producer makes them, `encode` asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kclient.records import varint
from kclient.records.varint import TABLED

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

# Longer keys and values are not in the tables of lengths: what is so long is copied, not counted.
LONGEST = TABLED - 64
# Numbers that the tables have at least: offset deltas of most batches, so that a pool is made once.
_LEAST = 16_384
# Around key and value: attributes, timestamp delta, offset delta, two lengths, count of headers.
_MOST_AROUND = 1 + 10 + 5 + 5 + 5 + 1
_STEPS = (1 << 6, 1 << 13, 1 << 20, 1 << 27)


class Block:
    """Keys and values that were sent together. `keys` None stands for records without."""

    __slots__ = ("_pool", "keys", "longest", "values")

    def __init__(self, keys: pa.Array[Any] | None, values: pa.Array[Any]) -> None:
        self.keys: pa.Array[Any] | None = keys
        self.values: pa.Array[Any] = values
        self.longest: int = (0 if keys is None else longest(keys)) + longest(values)
        self._pool: _Pool | None = None

    def __len__(self) -> int:
        return len(self.values)

    def columns(self) -> tuple[Packed, Packed]:
        """All keys and all values."""
        key_lengths = np.full(len(self), -1, np.int32) if self.keys is None else lengths_of(self.keys)
        return Packed(self, True, None, key_lengths), Packed(self, False, None, lengths_of(self.values))

    def slice(self, start: int, end: int) -> Block:
        """Some rows that follow each other, as a block of their own."""
        keys = None if self.keys is None else self.keys.slice(start, end - start)
        return Block(keys, self.values.slice(start, end - start))

    def pool(self, numbers: int) -> _Pool:
        """The array of all elements, with a table of at least so many numbers.

        Two threads may make one at the same time: both are right, and one of them stays.
        """
        pool = self._pool
        if pool is None or pool.numbers < numbers:
            pool = self._pool = _pooled(self, max(_LEAST, 1 << numbers.bit_length()))
        return pool


class _Pool(NamedTuple):
    """One array: numbers from -1 on, beginnings of records by their size, keys, values."""

    array: pa.Array[Any]
    numbers: int
    heads_at: int
    keys_at: int
    values_at: int


class Packed(Sequence["bytes | None"]):
    """The keys or the values of some rows of a block; `rows` None are all. A null has the length -1."""

    __slots__ = ("_is_key", "block", "lengths", "rows")

    def __init__(
        self, block: Block, is_key: bool, rows: NDArray[np.int32] | None, lengths: NDArray[np.int32]
    ) -> None:
        self.block: Block = block
        self.rows: NDArray[np.int32] | None = rows
        self.lengths: NDArray[np.int32] = lengths
        self._is_key = is_key

    def __repr__(self) -> str:
        return f"<Packed {len(self)} {'keys' if self._is_key else 'values'} of a block of {len(self.block)}>"

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.take(at)
        column = self._column
        place = range(len(self))[at]
        if column is None:
            return None
        return column[place if self.rows is None else int(self.rows[place])].as_py()

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self.tolist())

    def tolist(self) -> list[bytes | None]:
        """The same as a list of Python's objects."""
        column = self._column
        if column is None:
            return [None] * len(self)
        chosen = column if self.rows is None else column.take(_indices(self.rows))
        objects: list[bytes | None] = chosen.to_numpy(zero_copy_only=False).tolist()
        return objects

    def take(self, chosen: NDArray[np.intp] | slice) -> Packed:
        """Some of them, by their place here."""
        if self.rows is None:
            every: NDArray[np.int32] = np.arange(len(self), dtype=np.int32)
            rows = every[chosen] if isinstance(chosen, slice) else chosen.astype(np.int32)
        else:
            rows = self.rows[chosen]
        return Packed(self.block, self._is_key, rows, self.lengths[chosen])

    def contiguous(self) -> tuple[memoryview, NDArray[np.int64]]:
        """The bytes of those that are not null, one behind the other, and where each begins."""
        column = self._column
        assert column is not None
        chosen = column if self.rows is None else column.take(_indices(self.rows))
        offsets = _offsets(chosen)
        first, last = int(offsets[0]), int(offsets[-1])
        return _data(chosen)[first:last], offsets[:-1].astype(np.int64) - first

    @property
    def _column(self) -> pa.Array[Any] | None:
        return self.block.keys if self._is_key else self.block.values


class Run(NamedTuple):
    """Records of one block that follow each other in a batch; one timestamp may stand for all."""

    keys: Packed
    values: Packed
    times: int | NDArray[np.int64]


def first_time(run: Run) -> int:
    return run.times if isinstance(run.times, int) else int(run.times[0])


def latest_time(run: Run) -> int:
    return run.times if isinstance(run.times, int) else int(run.times.max())


def records(runs: Sequence[Run], base: int) -> list[bytes]:
    """The pieces that, joined, are the records of all runs at consecutive offsets, without headers."""
    pieces: list[Any] = []
    delta = 0
    for run in runs:
        pieces.append(_run_bytes(run, base, delta))
        delta += len(run.values)
    # A head begins with the end of the record before it, which the first one has not.
    pieces[0] = memoryview(pieces[0])[1:]
    pieces.append(b"\0")
    return pieces


def _run_bytes(run: Run, base: int, delta: int) -> memoryview:
    block, total = run.values.block, len(run.values)
    pool = block.pool(max(delta + total, block.longest) + 1)
    array = pool.array
    deltas = np.arange(delta, delta + total, dtype=np.int32)
    keys, values = run.keys.lengths, run.values.lengths
    # attributes, count of headers, and what the varints take
    bodies = 2 + _varint_sizes(deltas) + _varint_sizes(keys) + _varint_sizes(values)
    bodies += np.maximum(keys, 0)
    bodies += np.maximum(values, 0)
    times: Any
    if isinstance(run.times, int) and 0 <= run.times - base < pool.numbers:
        times = run.times - base + 1
        bodies += varint.size(run.times - base)
    else:
        elapsed = np.broadcast_to(np.asarray(run.times, np.int64) - base, total)
        extra, sizes = _varints(elapsed)
        times = np.arange(len(array), len(array) + total, dtype=np.int32)
        array = _concatenated([array, extra])
        bodies += sizes
    has_keys = block.keys is not None
    index = np.empty((total, 7 if has_keys else 6), np.int32)
    index[:, 0] = bodies + pool.heads_at
    index[:, 1] = times
    index[:, 2] = deltas + 1
    index[:, 3] = keys + 1
    if has_keys:
        index[:, 4] = _rows(run.keys) + pool.keys_at
    index[:, -2] = values + 1
    index[:, -1] = _rows(run.values) + pool.values_at
    joined = array.take(_indices(index.ravel()))
    return _data(joined)[: int(_offsets(joined)[-1])]


def _rows(column: Packed) -> NDArray[np.int32]:
    return np.arange(len(column), dtype=np.int32) if column.rows is None else column.rows


def longest(array: pa.Array[Any]) -> int:
    """The length of the longest of some bytes."""
    return int(np.diff(_offsets(array)).max(initial=0))


def lengths_of(array: pa.Array[Any]) -> NDArray[np.int32]:
    """The length of each, -1 for nulls."""
    lengths: NDArray[np.int32] = np.diff(_offsets(array))
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths


def _offsets(array: pa.Array[Any]) -> NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, np.int32)
    held: Any = array.buffers()[1]
    offsets: NDArray[np.int32] = np.frombuffer(held, np.int32, len(array) + 1, array.offset * 4)
    return offsets


def _data(array: pa.Array[Any]) -> memoryview:
    held: Any = array.buffers()[2]
    return memoryview(b"" if held is None else held)


def _pooled(block: Block, numbers: int) -> _Pool:
    parts = [_numbers(numbers), _heads(1 << (block.longest + _MOST_AROUND).bit_length())]
    heads_at = len(parts[0])
    keys_at = heads_at + len(parts[1])
    values_at = keys_at
    if block.keys is not None:
        parts.append(_without_nulls(block.keys))
        values_at += len(block.keys)
    parts.append(_without_nulls(block.values))
    return _Pool(_concatenated(parts), numbers, heads_at, keys_at, values_at)


def _without_nulls(array: pa.Array[Any]) -> pa.Array[Any]:
    """With nothing in place of nulls: what follows a length of -1."""
    return array.fill_null(b"") if array.null_count else array


def _varint_sizes(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """How many bytes each takes as a varint; they are -1 or more."""
    sizes = np.ones(len(numbers), np.int32)
    most = int(numbers.max(initial=0))
    for step in _STEPS:
        if most < step:
            break
        sizes += numbers >= step
    return sizes


def _varints(numbers: NDArray[np.int64]) -> tuple[pa.Array[Any], NDArray[np.int32]]:
    """Any numbers as varints, and the size of each."""
    import pyarrow as pa  # noqa: PLC0415 - only those who have tables pay for the import

    rest = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    shifts = np.arange(0, max(int(rest.max(initial=1)), 1).bit_length(), 7, dtype=np.uint64)
    groups = rest[:, None] >> shifts
    sizes = np.maximum((groups != 0).sum(axis=1, dtype=np.int32), 1)
    encoded = (groups & np.uint64(0x7F)).astype(np.uint8)
    places = np.arange(len(shifts), dtype=np.int32)
    encoded[places < sizes[:, None] - 1] |= 0x80
    data = encoded[places < sizes[:, None]]
    offsets = np.concatenate((np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)))
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(data.data)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers), sizes


@lru_cache(maxsize=8)
def _numbers(count: int) -> pa.Array[Any]:
    """The varints of -1, 0, 1 … below `count`."""
    return _varints(np.arange(-1, count, dtype=np.int64))[0]


@lru_cache(maxsize=16)
def _heads(count: int) -> pa.Array[Any]:
    """For bodies of 0, 1 … bytes: the end of the record before, the length, the attributes."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.array([b"\0" + varint.encode(size) + b"\0" for size in range(count)], pa.binary())


def _concatenated(arrays: list[pa.Array[Any]]) -> pa.Array[Any]:
    import pyarrow as pa  # noqa: PLC0415

    return pa.concat_arrays(arrays)


def _indices(numbers: NDArray[np.int32]) -> pa.Array[Any]:
    import pyarrow as pa  # noqa: PLC0415

    return pa.array(numbers)
