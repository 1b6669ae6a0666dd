"""Records of many batches (magic 2) as the columns of one, for those whose batches are small.

Hot. Numpy costs about the same for the fields of 300 records as for those of 3000, so the records of all
batches are delimited batch by batch (`walk`) and then read together. What is unusual makes it return None,
and each batch is decoded by itself. Called by the consumer's `decode`; importing it imports numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kclient.errors import ProtocolError
from kclient.records.columns import Columns, fields_behind
from kclient.records.layout import LOG_APPEND_TIME, BatchHeader
from kclient.records.walk import record_bounds
from kclient.records.words import WORD, Cursor, TooOddError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kclient.records.batch import ModernBatch

    Int64s = NDArray[np.int64]

# Timestamps between these bounds cannot leave 64 bits by what 56 bits add to them.
_FAR = 1 << 62


def columns_together(batches: Sequence[ModernBatch]) -> Columns | None:
    """The records of all batches, in order; None where they have to be looked at one by one."""
    try:
        sections = [batch.section() for batch in batches]
    except ProtocolError:
        return None
    buffer, shifts = _one_buffer(sections)
    if len(buffer) < WORD or any(abs(batch.header.base_timestamp) >= _FAR for batch in batches):
        return None
    parts: list[Int64s] = []
    for batch, section, shift in zip(batches, sections, shifts, strict=True):
        bounds = record_bounds(section, batch.record_count) if batch.record_count else None
        if bounds is None:
            return None
        parts.append(bounds[:-1] + shift)
    starts = np.concatenate(parts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    last_ones = np.cumsum([batch.record_count for batch in batches]) - 1
    ends[last_ones] = [shift + len(section) for section, shift in zip(sections, shifts, strict=True)]
    try:
        return _decode(buffer, batches, starts, ends)
    except TooOddError:
        return None


def _one_buffer(sections: Sequence[memoryview]) -> tuple[memoryview, list[int]]:
    """What all sections lie in, and where: the frame of uncompressed ones, or a copy side by side."""
    whole = sections[0].obj
    if all(section.obj is whole for section in sections):
        buffer = memoryview(whole).cast("B")
        begin = _address(buffer)
        return buffer, [_address(section) - begin for section in sections]
    sizes = [len(section) for section in sections]
    return memoryview(b"".join(sections)), [0, *np.cumsum(sizes[:-1]).tolist()]


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


def _decode(buffer: memoryview, batches: Sequence[ModernBatch], starts: Int64s, ends: Int64s) -> Columns:
    headers = [batch.header for batch in batches]
    counts = [header.record_count for header in headers]
    cursor = Cursor(buffer, starts)
    # The length, by which `walk` found the bounds, and the attributes, which mean nothing.
    cursor.varint()
    cursor.skip(1)
    timestamps = _timestamps(cursor.varint(), headers, counts)
    deltas = cursor.varint()
    if deltas.min() < 0 or (deltas > _spread([header.last_offset_delta for header in headers], counts)).any():
        raise TooOddError
    offsets = deltas + _spread([header.base_offset for header in headers], counts)
    key_sizes = cursor.varint()
    key_starts = cursor.position
    cursor.seek(fields_behind(key_starts, key_sizes, ends))
    value_sizes = cursor.varint()
    value_starts = cursor.position
    header_counts = fields_behind(value_starts, value_sizes, ends)
    if (header_counts != ends - 1).any() or np.frombuffer(buffer, np.uint8)[header_counts].any():
        raise TooOddError
    return Columns(buffer, offsets, timestamps, key_starts, key_sizes, value_starts, value_sizes, None)


def _timestamps(elapsed: Int64s, headers: Sequence[BatchHeader], counts: Sequence[int]) -> Int64s:
    stamped = [bool(header.attributes & LOG_APPEND_TIME) for header in headers]
    if any(stamped):
        elapsed = np.where(np.array(stamped).repeat(counts), 0, elapsed)
    bases = [
        header.max_timestamp if by_broker else header.base_timestamp
        for header, by_broker in zip(headers, stamped, strict=True)
    ]
    return elapsed + _spread(bases, counts)


def _spread(items: Sequence[int], counts: Sequence[int]) -> Int64s:
    """What each batch says, once for each of its records."""
    return np.array(items, np.int64).repeat(counts)
