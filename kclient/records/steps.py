"""A column of numbers that seldom change, as the timestamps of records do that are sent one after the other.

Kept as the places where they change, so it costs nothing per record. Producers make it, `pieces` knows it;
to all others it is a sequence of numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import index
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Steps(Sequence[int]):
    """`numbers[i]` from place `starts[i]` on, up to the next start; `starts` rises from 0."""

    __slots__ = ("numbers", "starts", "total")

    def __init__(self, starts: list[int], numbers: list[int], total: int) -> None:
        self.starts: list[int] = starts
        self.numbers: list[int] = numbers
        self.total: int = total

    def __repr__(self) -> str:
        return f"<Steps {len(self.starts)} in {self.total}>"

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(repeat(number, end - start) for start, end, number in self.runs())

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return list(self)[at] if at.step not in (None, 1) else self._between(*at.indices(self.total)[:2])
        return self.numbers[bisect_right(self.starts, range(self.total)[index(at)]) - 1]

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Start, end and number of every step."""
        return zip(self.starts, [*self.starts[1:], self.total], self.numbers, strict=False)

    @property
    def rising(self) -> bool:
        """Whether no number is smaller than the one before it."""
        return self.numbers == sorted(self.numbers)

    def at(self, places: NDArray[np.intp]) -> int | Steps:
        """The numbers at these places, which rise; a single one where all are alike."""
        return joined_steps(places.searchsorted(self.starts).tolist(), self.numbers, len(places))

    def _between(self, start: int, end: int) -> Steps:
        end = max(start, end)
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, end)
        starts = [max(each - start, 0) for each in self.starts[first:last]]
        return Steps(starts, self.numbers[first:last], end - start)


def joined_steps(starts: Iterable[int], numbers: Iterable[int], total: int) -> int | Steps:
    """A column of `total` numbers; one number where all are alike. Of equal starts the last one counts."""
    kept: list[int] = []
    values: list[int] = []
    for start, number in zip(starts, numbers, strict=True):
        if start >= total:
            break
        if kept and kept[-1] == start:
            del kept[-1], values[-1]
        if not values or values[-1] != number:
            kept.append(start)
            values.append(number)
    return values[0] if len(values) == 1 else Steps(kept, values, total)
