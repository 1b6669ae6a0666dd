"""Varints at many places of a buffer at once, read as 8-byte words with numpy.

Not a decoder of records: `columns` says where to look. Anything a word cannot hold makes it give up with None
or `TooOdd`, never with a wrong answer.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    UInt64s = NDArray[np.uint64]

# Bytes that are read at once: a buffer must have as many.
WORD = 8

_CONTINUE = np.uint64(0x8080808080808080)
_PAYLOAD = np.uint64(0x7F7F7F7F7F7F7F7F)
_TWO_BYTES = np.uint64(0xFFFF)
_ONES = np.uint64(0x0101010101010101)
# Neighbouring groups of 7, 14 and 28 bits are pushed together: keep, take, shift.
_SQUEEZE = tuple(
    (np.uint64(keep), np.uint64(take), np.uint64(shift))
    for keep, take, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


class TooOddError(Exception):
    """The bytes are not what the fast path knows; the scalar path will say what they are."""


class Cursor:
    """A reading position in every record of a batch."""

    __slots__ = ("_last", "_left", "_word", "_words", "position")

    def __init__(self, buffer: memoryview, position: Int64s) -> None:
        # Overlapping words, one beginning at every byte.
        self._words: UInt64s = np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))
        self._last = len(buffer) - WORD
        self._word: UInt64s
        self.seek(position)

    def seek(self, position: Int64s) -> None:
        """Look at other places; they must lie inside the buffer (or at its end) and must not fall."""
        self.position: Int64s = position
        if position[-1] <= self._last:
            self._word = self._words[position]
        else:
            inside = np.minimum(position, self._last)
            self._word = self._words[inside] >> ((position - inside) << 3).view(np.uint64)
        self._left = WORD

    def skip(self, size: int) -> None:
        """Go on by `size` bytes that were seen already."""
        self.position = self.position + size
        self._word = self._word >> np.uint64(8 * size)
        self._left -= size

    def varint(self) -> Int64s:
        """The zigzag varint here, and go on behind it."""
        if self._left < 2:
            self.seek(self.position)
        values, sizes = _short_varints()
        first = (self._word & _TWO_BYTES).view(np.int64)
        size = sizes.take(first)
        if size.min() > 0:
            value = values.take(first)
            self._left -= 2
        else:
            value, size = self._long_varint()
        self.position = self.position + size
        self._word = self._word >> (size << 3).view(np.uint64)
        return value

    def _long_varint(self) -> tuple[Int64s, Int64s]:
        """Value and size where some take more than two bytes."""
        self.seek(self.position)
        word = self._word
        ends = ~word & _CONTINUE
        if not ends.all():
            raise TooOddError
        below = (ends & (~ends + np.uint64(1))) - np.uint64(1)
        size = ((below & _ONES) * _ONES) >> np.uint64(56)
        self._left -= int(size.max())
        raw = word & below & _PAYLOAD
        for keep, take, shift in _SQUEEZE:
            raw = raw & keep | (raw & take) >> shift
        value = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
        return value, size.view(np.int64)

    def expect(self, words: UInt64s, masks: UInt64s, bits: UInt64s) -> bool:
        """Whether exactly these encodings, the last one longest, stand here; if so, go on behind them."""
        longest = int(bits[-1]) // 8
        if self._left < longest:
            self.seek(self.position)
        if ((self._word ^ words) & masks).any():
            return False
        self.position = self.position + (bits >> np.uint64(3)).view(np.int64)
        self._word = self._word >> bits
        self._left -= longest
        return True


@cache
def _short_varints() -> tuple[Int64s, Int64s]:
    """Value and size of the varint at the start of any two bytes; size 0 if it is longer than that."""
    number = np.arange(1 << 16, dtype=np.int64)
    low, high = number & 0xFF, number >> 8
    sizes = np.where(low < 0x80, 1, np.where(high < 0x80, 2, 0))
    raw = np.where(low < 0x80, low, low & 0x7F | high << 7)
    return raw >> 1 ^ -(raw & 1), sizes
