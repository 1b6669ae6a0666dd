"""The two sparse indexes of a segment, as Kafka lays them out: offset to position, timestamp to offset.

They are kept in memory; `index_files` writes what is added to them. What a crash takes with it is rebuilt
from the segment. Offsets are relative to the segment's first.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Self

OFFSET_ENTRY = 8
TIME_ENTRY = 12
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class OffsetIndex:
    """For some batches: the offset of their last record and where they begin in the file."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets: array[int] = array("i")
        self.positions: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, last_offset: int, position: int) -> None:
        self.offsets.append(last_offset)
        self.positions.append(position)

    def position_before(self, offset: int) -> int:
        """A position from which a walk over batches meets the one with `offset`."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0

    def position_at_or_before(self, position: int) -> int:
        """The last known beginning of a batch that is not after `position`."""
        at = bisect_right(self.positions, position) - 1
        return self.positions[at] if at >= 0 else 0

    def truncate(self, offset: int) -> None:
        """Forget everything from `offset` on."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:]
        del self.positions[keep:]

    def encode(self, start: int = 0) -> bytes:
        """The entries as in a file, from number `start` on."""
        offsets, positions = self.offsets, self.positions
        if start == len(offsets) - 1:  # what an append brings
            return _OFFSET_ENTRY.pack(offsets[start], positions[start])
        words = array("i", bytes((len(offsets) - start) * OFFSET_ENTRY))
        words[0::2] = offsets[start:]
        words[1::2] = positions[start:]
        return _big_endian(words)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        words = _from_big_endian("i", data)
        index = cls()
        index.offsets, index.positions = words[0::2], words[1::2]
        return index


class TimeIndex:
    """For some points: the largest timestamp so far and the last offset of the batch that brought it."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps: array[int] = array("q")
        self.offsets: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if time went on since the last one."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(offset)

    def offset_before(self, timestamp: int) -> int:
        """An offset before which no record is as late as `timestamp`."""
        at = bisect_right(self.timestamps, timestamp) - 1
        return self.offsets[at] if at >= 0 else 0

    def truncate(self, offset: int) -> None:
        """Forget everything from `offset` on."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:]
        del self.timestamps[keep:]

    def encode(self, start: int = 0) -> bytes:
        """The entries as in a file, from number `start` on."""
        timestamps, offsets = self.timestamps, self.offsets
        if start == len(offsets) - 1:  # what an append brings
            return _TIME_ENTRY.pack(timestamps[start], offsets[start])
        halves = array("i", _big_endian(timestamps[start:]))
        words = array("i", bytes((len(offsets) - start) * TIME_ENTRY))
        words[0::3], words[1::3] = halves[0::2], halves[1::2]
        words[2::3] = array("i", _big_endian(offsets[start:]))
        return words.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        words = array("i", data)
        halves = array("i", bytes(len(words) // 3 * 8))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index = cls()
        index.timestamps = _from_big_endian("q", halves.tobytes())
        index.offsets = _from_big_endian("i", words[2::3].tobytes())
        return index


def _big_endian(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        return values.tobytes()
    swapped = values[:]
    swapped.byteswap()
    return swapped.tobytes()


def _from_big_endian(kind: str, data: bytes) -> array[int]:
    values: array[int] = array(kind, data)
    if sys.byteorder == "little":
        values.byteswap()
    return values
