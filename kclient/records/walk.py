"""Where each record of a batch begins: the one thing that must be found one after the other.

Only lengths are read here; what is between them is for `columns`, who calls this. Records of one size are
found by strides, all others by a loop of one table lookup per record.
"""

from __future__ import annotations

from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from kclient.errors import CorruptBatchError
from kclient.records.varint import decode32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

# Shorter runs of records of one size are found faster record by record.
_SHORT_RUN = 32
# So few records are not worth looking for runs.
_FEW = 128
_LENGTH_MASKS = (0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF)
_SMALLEST_BODY = 6


def record_bounds(buffer: memoryview, count: int) -> Int64s | None:
    """The starts of `count` records and the end of the last, or None when the lengths do not add up."""
    parts: list[Int64s] = []
    position, left = 0, count
    try:
        if count < _FEW:
            starts, position = _steps(buffer, 0, count)
            parts.append(starts)
            left = 0
        # A longer stretch is looked at only after a whole one was equal, so the work stays linear.
        stretch = 64
        while left:
            number, stride = _equal_records(buffer, position, min(left, stretch))
            parts.append(np.arange(position, position + number * stride, stride))
            position += number * stride
            left -= number
            if number < _SHORT_RUN and left:
                starts, position = _steps(buffer, position, left)
                parts.append(starts)
                break
            stretch = stretch * 64 if number == stretch else 64
    except (CorruptBatchError, IndexError):
        return None
    if position != len(buffer):
        return None
    parts.append(np.array([position]))
    return np.concatenate(parts)


def _equal_records(buffer: memoryview, position: int, most: int) -> tuple[int, int]:
    """How many of the next `most` records have the length of the first, and that length."""
    size, body = decode32(buffer, position)
    width = body - position
    stride = width + size
    most = min(most, (len(buffer) - position) // stride) if size >= _SMALLEST_BODY else 0
    if most == 0:
        raise CorruptBatchError(f"a record of {size} bytes")
    if width >= len(_LENGTH_MASKS):
        return 1, stride
    lengths = np.ndarray((most,), "<u4", buffer, position, (stride,))
    differs = ((lengths ^ lengths[0]) & np.uint32(_LENGTH_MASKS[width])) != 0
    return int(differs.argmax()) if differs.any() else most, stride


def _steps(buffer: memoryview, position: int, count: int) -> tuple[Int64s, int]:
    """The starts of the next `count` records, and the end of the last."""
    first, steps = position, _step_table()
    starts: list[int] = []
    append = starts.append
    try:
        for _ in repeat(None, count):
            append(position)
            position += steps[buffer[position]][buffer[position + 1]]
    except TypeError:
        # A length of three bytes or more.
        position = first
        starts = []
        for _ in repeat(None, count):
            starts.append(position)
            size, position = decode32(buffer, position)
            position += size
            if size < 0:
                raise CorruptBatchError(f"a record of {size} bytes") from None
    return np.fromiter(starts, np.int64, count), position


@cache
def _step_table() -> list[list[int]]:
    """The size of a record by its first two bytes; None, which adds to nothing, where they do not tell."""
    unknown: list[Any] = [None] * 128
    table: list[list[Any]] = []
    for first in range(256):
        if first & 1:
            table.append(unknown * 2)
        elif first < 0x80:
            table.append([first // 2 + 1] * 256)
        else:
            table.append([(first & 0x7F) // 2 + second * 64 + 2 for second in range(128)] + unknown)
    return table
