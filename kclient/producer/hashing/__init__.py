"""Hashes of keys, each equal to that of another client, so that keys meet in the same partition.

`Hash` is what partitioners use. A hash is a number that is taken modulo the count of partitions; what a
client does about negative numbers is part of it. Nothing here knows topics, or records without a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash by name, for one key and for many at once; both give numbers in 0 … 2**32 - 1."""

    name: str
    one: Callable[[bytes], int]
    many: Callable[[Sequence[bytes]], NDArray[np.uint32]]

    def partition(self, key: bytes, count: int) -> int:
        """The partition of a key in a topic of `count` partitions."""
        return self.one(key) % count

    def partitions(self, keys: Sequence[bytes], count: int) -> NDArray[np.int32]:
        """The partitions of many keys, in their order."""
        return (self.many(keys) % np.uint32(count)).astype(np.int32)
