"""The payloads of all records of a batch as `bytes`, cut out of the buffer without a loop in Python.

Hot. Fields of one size at one distance are a strided array of opaque items, whose `tolist` makes bytes.
Fields of any other shape are read by one `struct` whose format is written by numpy for this batch. Only
`objects` calls this.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.records.uniform import Run

    Int64s = NDArray[np.int64]
    Payloads = list[bytes | None]

# The format of one field: bytes to skip and bytes to take, with four digits for each.
_FORMAT = np.dtype([("skip", "<u4"), ("x", "u1"), ("take", "<u4"), ("s", "u1")])
_WIDEST = 10_000


def cut_run(buffer: memoryview, run: Run) -> tuple[Payloads, Payloads]:
    """Keys and values of a run of records of one shape."""
    return (
        _cut_strided(buffer, run, run.key_at, run.key_size),
        _cut_strided(buffer, run, run.value_at, run.value_size),
    )


def _cut_strided(buffer: memoryview, run: Run, at: int, size: int) -> Payloads:
    if size < 1:
        return [None if size < 0 else b""] * run.number
    fields: Payloads = np.ndarray(
        (run.number,), _opaque(size), buffer, run.start + at, (run.stride,)
    ).tolist()
    return fields


def cut_fields(buffer: memoryview, starts: Int64s, sizes: Int64s) -> Payloads:
    """Fields of any sizes at any places that rise. Sizes of -1 are null."""
    size = int(sizes[0])
    if (sizes == size).all():
        if size < 1:
            return [None if size < 0 else b""] * len(sizes)
        # Items that overlap, one beginning at every byte.
        every = np.ndarray((len(buffer) - size + 1,), _opaque(size), buffer, strides=(1,))
        fields: Payloads = every[starts].tolist()
        return fields
    taken = np.maximum(sizes, 0)
    skipped = starts.copy()
    skipped[1:] -= starts[:-1] + taken[:-1]
    if max(skipped.max(), taken.max()) >= _WIDEST:
        return _cut_large(buffer, starts.tolist(), sizes.tolist())
    formats = np.empty(len(sizes), _FORMAT)
    formats["skip"] = _digits()[skipped]
    formats["take"] = _digits()[taken]
    formats["x"], formats["s"] = b"xs"
    fields = list(Struct(b"=" + formats.tobytes()).unpack_from(buffer))
    for place in np.flatnonzero(sizes < 0).tolist():
        fields[place] = None
    return fields


def _cut_large(view: memoryview, starts: list[int], sizes: list[int]) -> Payloads:
    """Where fields are so large that a call for each does not matter."""
    return [
        None if size < 0 else bytes(view[start : start + size])
        for start, size in zip(starts, sizes, strict=True)
    ]


@lru_cache(maxsize=64)
def _opaque(size: int) -> np.dtype[np.void]:
    """The type of items of `size` bytes, which become `bytes` objects in lists."""
    return np.dtype((np.void, size))


@cache
def _digits() -> NDArray[np.uint32]:
    """The four digits of 0 to 9999, each as one little-endian word."""
    text = b"".join([b"%04d" % number for number in range(_WIDEST)])
    return np.frombuffer(text, "<u4")
