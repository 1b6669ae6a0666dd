"""Records of a batch (magic 2) that follow each other in long runs of one shape.

Hot, and the common case: keys and values of one size each, no headers. Then only the first record of a run is
parsed, and a handful of strided comparisons prove that the others are like it. Gives up with None on all
other batches, which `columns` or `scalar` decode. Called by `batch`; importing it imports numpy.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kclient.errors import CorruptBatchError
from kclient.records.layout import LOG_APPEND_TIME, BatchHeader
from kclient.records.varint import decode32, decode64, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    UInt64s = NDArray[np.uint64]

_INT64 = 1 << 63
_FAR = 1 << 62
_ONE_BYTE = np.array([byte >> 1 ^ -(byte & 1) for byte in range(128)], np.int64)
_VALUE_WORDS = ("u1", "u1", "<u2", "<u4", "<u4")
# Each run costs as much as some 30 records one by one: one shorter than this, or many, are not worth it.
_SHORT_RUN = 16
_FEW_RUNS = 4


class Run(NamedTuple):
    """`number` records every `stride` bytes from `start` on, with their fields at the same places in each."""

    start: int
    stride: int
    number: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    # One number where all are the same; offset deltas are None where they count up from `first`.
    elapsed: Int64s | int
    deltas: Int64s | None
    first: int

    def timestamps(self, base: int) -> Int64s:
        """The timestamp of every record."""
        if isinstance(self.elapsed, int):
            return np.full(self.number, base + self.elapsed, np.int64)
        return self.elapsed + base

    def offsets(self, base: int) -> Int64s:
        """The offset of every record."""
        if self.deltas is None:
            first = base + self.first
            return np.arange(first, first + self.number, dtype=np.int64)
        return self.deltas + base


class _Shape(NamedTuple):
    """One record: where its fields are, and which bits of its first 8 bytes others must share."""

    stride: int
    time_at: int
    time_width: int
    offset_at: int
    offset_width: int
    key_at: int
    key_size: int
    length_at: int
    value_at: int
    value_size: int
    mask: int


def decode_runs(buffer: memoryview, header: BatchHeader) -> list[Run] | None:
    """The records as runs, or None where they do not come in runs or anything about them is unusual."""
    count = header.record_count
    runs: list[Run] = []
    position = index = 0
    stretch = 64
    try:
        while index < count:
            shape = _shape(buffer, position)
            run = shape and _run(buffer, position, index, min(stretch, count - index), shape)
            if not run or not _plausible(run, header):
                return None
            stretch = stretch * 64 if run.number == stretch else 64
            position += run.number * run.stride
            index += run.number
            runs.append(run)
            too_many = len(runs) > _FEW_RUNS + index // (4 * _SHORT_RUN)
            if index < count and (too_many or run.number < _SHORT_RUN):
                return None
    except (CorruptBatchError, IndexError):
        return None
    if position != len(buffer):
        return None
    if header.attributes & LOG_APPEND_TIME:
        runs = [run._replace(elapsed=header.max_timestamp - header.base_timestamp) for run in runs]
    return runs


def _shape(buffer: memoryview, position: int) -> _Shape | None:
    """The record at `position`, or None when it has headers or more in front of its key than a word holds."""
    size, body = decode32(buffer, position)
    time_at = body + 1
    _, offset_at = decode64(buffer, time_at)
    _, key_length_at = decode32(buffer, offset_at)
    key_size, key_at = decode32(buffer, key_length_at)
    length_at = key_at + max(key_size, 0)
    value_size, value_at = decode32(buffer, length_at)
    end = value_at + max(value_size, 0)
    if key_at - position > 8 or min(key_size, value_size) < -1 or buffer[end] or end + 1 != body + size:
        return None
    if end + 1 - position < 8:
        return None
    mask = 0
    for place in range(position, key_at):
        # Lengths must be the same, other varints only as long; attributes may be anything.
        is_length = place < body or place >= key_length_at
        bits = 0xFF if is_length else 0x80 if place > body else 0
        mask |= bits << 8 * (place - position)
    return _Shape(
        end + 1 - position,
        time_at - position,
        offset_at - time_at,
        offset_at - position,
        key_length_at - offset_at,
        key_at - position,
        key_size,
        length_at - position,
        value_at - position,
        value_size,
        mask,
    )


def _run(buffer: memoryview, start: int, index: int, most: int, shape: _Shape) -> Run | None:
    """The records from `start` on that are like the first one."""
    stride = shape.stride
    most = min(most, (len(buffer) - start) // stride)
    if most == 0:
        return None
    most = _like_the_first(buffer, start, most, shape)
    return Run(
        start,
        stride,
        most,
        shape.key_at,
        shape.key_size,
        shape.value_at,
        shape.value_size,
        _elapsed(buffer, start, most, shape),
        _deltas(buffer, start, most, index, shape),
        index,
    )


def _like_the_first(buffer: memoryview, start: int, most: int, shape: _Shape) -> int:
    """How many records in a row have the lengths of the first, and no headers."""
    stride = shape.stride
    kind = _VALUE_WORDS[shape.value_at - shape.length_at]
    bound = np.ndarray((most,), "<u8", buffer, start, (stride,)) & np.uint64(shape.mask)
    lengths = np.ndarray((most,), kind, buffer, start + shape.length_at, (stride,))
    headers = np.ndarray((most,), "u1", buffer, start + stride - 1, (stride,))
    # Comparing bytes takes half the time of comparing arrays, but does not say where they differ.
    if (
        bound.tobytes() == bound[:1].tobytes() * most
        and lengths.tobytes() == lengths[:1].tobytes() * most
        and headers.tobytes().count(0) == most
    ):
        return most
    differs = (bound != bound[0]) | (lengths != lengths[0]) | (headers != 0)
    return int(differs.argmax())


def _elapsed(buffer: memoryview, start: int, number: int, shape: _Shape) -> Int64s | int:
    if shape.time_width > 1:
        return _zigzag(buffer, start, number, shape.stride, slice(shape.time_at, shape.offset_at))
    raw = np.ndarray((number,), "u1", buffer, start + shape.time_at, (shape.stride,)).tobytes()
    if raw.count(raw[0]) == number:
        return int(_ONE_BYTE[raw[0]])
    return _ONE_BYTE.take(np.frombuffer(raw, np.uint8))


def _deltas(buffer: memoryview, start: int, number: int, index: int, shape: _Shape) -> Int64s | None:
    at, width = shape.offset_at, shape.offset_width
    if width <= 2:
        raw = np.ndarray((number,), _VALUE_WORDS[width], buffer, start + at, (shape.stride,)).tobytes()
        first, wanted = _consecutive_bytes(width)
        if index >= first and raw == wanted[(index - first) * width : (index - first + number) * width]:
            return None
    return _zigzag(buffer, start, number, shape.stride, slice(at, at + width))


@cache
def _consecutive_bytes(width: int) -> tuple[int, bytes]:
    """All varints of `width` bytes that are not negative, one after the other, and the first of them."""
    first, end = ((0, 64), (64, 8192))[width - 1]
    return first, b"".join([encode(number) for number in range(first, end)])


def _zigzag(buffer: memoryview, start: int, number: int, stride: int, place: slice) -> Int64s:
    """The varints that are at one place, of one width, in each record."""
    raw = np.zeros(number, np.int64)
    for shift, at in enumerate(range(place.start, place.stop)):
        byte = np.ndarray((number,), "u1", buffer, start + at, (stride,))
        raw |= (byte & np.uint8(0x7F)).astype(np.int64) << 7 * shift
    return raw >> 1 ^ -(raw & 1)


def _plausible(run: Run, header: BatchHeader) -> bool:
    """Whether offsets and timestamps are ones that a batch with this header can have."""
    if run.deltas is None:
        low, high = run.first, run.first + run.number - 1
    else:
        low, high = int(run.deltas.min()), int(run.deltas.max())
    if low < 0 or high > header.last_offset_delta:
        return False
    # No delta that fits between the key and the length can leave these bounds, except near the ends of time.
    if -_FAR < header.base_timestamp < _FAR:
        return True
    elapsed = run.elapsed
    first, last = (elapsed, elapsed) if isinstance(elapsed, int) else (int(elapsed.min()), int(elapsed.max()))
    return header.base_timestamp + first >= -_INT64 and header.base_timestamp + last < _INT64


@lru_cache(maxsize=4)
def consecutive_varints(count: int) -> tuple[UInt64s, UInt64s, UInt64s]:
    """The varints of 0, 1 ... below `count` (at most 2^20) as words, with the mask and the bits of each."""
    raw = np.arange(count, dtype=np.uint64) << np.uint64(1)
    low, middle, high = (raw >> np.uint64(shift) & np.uint64(0x7F) for shift in (0, 7, 14))
    two, three = (raw > 0x7F).astype(np.uint64), (raw > 0x3FFF).astype(np.uint64)
    words = (
        low | middle << np.uint64(8) | high << np.uint64(16) | two << np.uint64(7) | three << np.uint64(15)
    )
    bits = (two + three + np.uint64(1)) << np.uint64(3)
    return words, (np.uint64(1) << bits) - np.uint64(1), bits
