"""Varints at many places of a buffer at once, read as 8-byte words with numpy.

Not a decoder of records: `columns` says where to look. Anything a word cannot hold makes it give up with None
or `TooOdd`, never with a wrong answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    UInt64s = NDArray[np.uint64]

_CONTINUE = np.uint64(0x8080808080808080)
_PAYLOAD = np.uint64(0x7F7F7F7F7F7F7F7F)
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
        self._last = len(buffer) - 8
        self._word: UInt64s
        self.seek(position)

    def seek(self, position: Int64s) -> None:
        """Look at other places; they must lie inside the buffer (or at its end) and must not fall."""
        self.position = position
        if position[-1] <= self._last:
            self._word = self._words[position]
        else:
            inside = np.minimum(position, self._last)
            self._word = self._words[inside] >> ((position - inside) << 3).view(np.uint64)
        self._left = 8

    def skip(self, size: int) -> None:
        """Go on by `size` bytes that were seen already."""
        self.position = self.position + size
        self._word = self._word >> np.uint64(8 * size)
        self._left -= size

    def varint(self) -> Int64s:
        """The zigzag varint here, and go on behind it."""
        raw, size = self._raw()
        self.position = self.position + (size if isinstance(size, int) else size.view(np.int64))
        self._word = self._word >> (np.uint64(size * 8) if isinstance(size, int) else size << np.uint64(3))
        sign = raw & np.uint64(1)
        value = (raw >> np.uint64(1)).view(np.int64)
        return value ^ -sign.view(np.int64) if sign.any() else value

    def _raw(self) -> tuple[UInt64s, int | UInt64s]:
        if self._left < 2:
            self.seek(self.position)
        word = self._word
        if not (word & np.uint64(0x80)).any():
            self._left -= 1
            return word & np.uint64(0x7F), 1
        if ((word & np.uint64(0x8080)) == np.uint64(0x80)).all():
            self._left -= 2
            return word & np.uint64(0x7F) | word >> np.uint64(1) & np.uint64(0x3F80), 2
        if self._left < 8:
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
        return raw, size

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
