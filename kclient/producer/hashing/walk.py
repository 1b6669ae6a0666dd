"""A walk over many keys at once: a word (or byte) of every key per step, so that each step is one numpy loop.

Hot. Not a hash: `murmur2` and `fnv1a` say what a step does. The keys are joined, and the pieces taken from
their places in the joined bytes. Keys are sorted by length, the longest first: then those that have a piece
left at a step are always the first ones, and no step looks at a key that has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kclient.records.packed import Packed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

UInt32s: TypeAlias = "NDArray[np.uint32]"
Int64s: TypeAlias = "NDArray[np.int64]"

# From so many keys on numpy beats the scalar loops: a walk costs some 30 µs before it looks at a key.
ENOUGH = 48
# A step costs as much as 16 scalar ones. Fewer keys than that are left to the scalar loop, unless the end is
# near, and so is what is longer than the steps that a byte can count.
_FEW_KEYS, _FEW_STEPS, _MOST_STEPS = 16, 16, 255


class Walk:
    """Many keys as one buffer. `lengths` and `starts` say where each lies."""

    __slots__ = ("_data", "lengths", "starts")

    lengths: Int64s
    starts: Int64s

    def __init__(self, keys: Sequence[bytes]) -> None:
        # A word may begin at the last byte of a key: the padding lets it be read.
        if isinstance(keys, Packed):
            data, self.starts = keys.contiguous()
            self._data = b"".join((data, b"\0\0\0\0"))
            self.lengths = keys.lengths.astype(np.int64)
            return
        self._data = b"".join((*keys, b"\0\0\0\0"))
        self.lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        self.starts = np.cumsum(self.lengths) - self.lengths

    def words(self) -> UInt32s:
        """The little-endian words that begin at each byte of the buffer."""
        return np.ndarray((len(self._data) - 3,), "<u4", self._data, strides=(1,))

    def bytes(self) -> NDArray[np.uint8]:
        """The bytes of the buffer."""
        return np.frombuffer(self._data, np.uint8)

    def fold(
        self,
        hashes: UInt32s,
        pieces: NDArray[np.generic],
        size: int,
        step: Callable[[UInt32s, UInt32s], None],
    ) -> list[int]:
        """Call `step(hashes, pieces)` for the first `size` bytes of all keys, then the next, in place.

        Returns which keys were not walked to their end: their hashes mean nothing.
        """
        steps = self.lengths // size
        counted = np.minimum(steps, _MOST_STEPS)
        most = int(counted.max())
        left = len(steps) - np.cumsum(np.bincount(counted, minlength=_MOST_STEPS + 1))
        rounds = min(most, max(_FEW_STEPS, int(np.count_nonzero(left >= _FEW_KEYS))))
        order: NDArray[np.intp] | slice = slice(None)
        if left[most - 1] != len(steps):
            # A stable sort of bytes is a radix sort.
            order = np.argsort((_MOST_STEPS - counted).astype(np.uint8), kind="stable")
        places, folded = self.starts[order].copy(), hashes[order]
        for count in left[:rounds].tolist():
            here = places[:count]
            step(folded[:count], pieces[here].astype(np.uint32, copy=False))
            here += size
        hashes[order] = folded
        found: list[int] = np.flatnonzero(steps > rounds).tolist()
        return found
