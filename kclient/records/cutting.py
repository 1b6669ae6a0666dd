"""The payloads of all records of a batch as `bytes`, cut out of the buffer without a loop in Python.

Hot. Fields of one size at one distance are a strided array of opaque items, whose `tolist` makes bytes.
Fields of any other shape are read by one `struct` whose format is written by numpy for this batch. Only
`objects` calls this.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.records.columns import Columns
    from kclient.records.uniform import Run

    Int64s = NDArray[np.int64]
    Payloads = list[bytes | None]

# The format of one record: bytes to skip, key, bytes to skip, value, with four digits for each.
_FORMAT = np.dtype(
    [(f"{name}{number}", kind) for number in range(4) for name, kind in (("size", "<u4"), ("code", "u1"))]
)
_WIDEST = 10_000


def cut_run(buffer: memoryview, run: Run) -> tuple[Payloads, Payloads]:
    """Keys and values of a run of records of one shape."""
    return _cut_strided(buffer, run, run.key_at, run.key_size), _cut_strided(
        buffer, run, run.value_at, run.value_size
    )


def _cut_strided(buffer: memoryview, run: Run, at: int, size: int) -> Payloads:
    if size < 1:
        return [None if size < 0 else b""] * run.number
    items = np.ndarray((run.number,), f"V{size}", buffer, run.start + at, (run.stride,))
    fields: Payloads = items.tolist()
    return fields


def cut_fields(columns: Columns) -> tuple[Payloads, Payloads]:
    """Keys and values of any records, by one `struct`: skip, key, skip, value of each in turn."""
    key_sizes, value_sizes = np.maximum(columns.key_sizes, 0), np.maximum(columns.value_sizes, 0)
    key_ends, value_ends = columns.key_starts + key_sizes, columns.value_starts + value_sizes
    before_keys = columns.key_starts.copy()
    before_keys[1:] -= value_ends[:-1]
    before_values = columns.value_starts - key_ends
    numbers = (before_keys, key_sizes, before_values, value_sizes)
    if max(int(column.max()) for column in numbers) >= _WIDEST:
        fields = _cut_large(columns)
    else:
        digits = _digits()
        formats = np.empty(len(key_sizes), _FORMAT)
        for number, column in enumerate(numbers):
            formats[f"size{number}"] = digits[column]
            formats[f"code{number}"] = b"xs"[number & 1]
        fields = list(Struct(b"=" + formats.tobytes()).unpack_from(columns.buffer))
    keys, values = fields[0::2], fields[1::2]
    for payloads, sizes in ((keys, columns.key_sizes), (values, columns.value_sizes)):
        for place in np.flatnonzero(sizes < 0).tolist():
            payloads[place] = None
    return keys, values


def _cut_large(columns: Columns) -> Payloads:
    """Where a field is so large that one copy more or less does not matter."""
    fields: Payloads = []
    view = columns.buffer
    for key, key_size, value, value_size in zip(
        columns.key_starts.tolist(),
        columns.key_sizes.tolist(),
        columns.value_starts.tolist(),
        columns.value_sizes.tolist(),
        strict=True,
    ):
        fields += bytes(view[key : key + max(key_size, 0)]), bytes(view[value : value + max(value_size, 0)])
    return fields


@cache
def _digits() -> NDArray[np.uint32]:
    """The four digits of 0 to 9999, each as one little-endian word."""
    text = b"".join([b"%04d" % number for number in range(_WIDEST)])
    return np.frombuffer(text, "<u4")
