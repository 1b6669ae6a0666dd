"""Records of a batch (magic 2) as numpy columns, all records at once.

Hot. Records are delimited first (`walk`), then each field of all records is read together. What does not fit,
or is merely unusual, makes it return None, and the scalar decoder decides. Called by `batch` for batches that
are worth it; importing it imports numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kclient.records.layout import LOG_APPEND_TIME, BatchHeader
from kclient.records.uniform import consecutive_varints
from kclient.records.walk import record_bounds
from kclient.records.words import WORD, Cursor, TooOddError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.records.rows import Rows
    from kclient.records.uniform import Run

    Int64s = NDArray[np.int64]
    UInt64s = NDArray[np.uint64]

# A round of header decoding handles one header of every record; a record with more than this is odd.
_MOST_HEADERS = 64
_INT64 = 1 << 63


class HeaderColumns(NamedTuple):
    """One entry per header of the whole batch, in order; a value size of -1 is null."""

    records: Int64s
    key_starts: Int64s
    key_sizes: Int64s
    value_starts: Int64s
    value_sizes: Int64s


class Columns(NamedTuple):
    """One entry per record: where its fields lie in `buffer`. A size of -1 is null.

    `headers` is None when no record has any.
    """

    buffer: memoryview
    offsets: Int64s
    timestamps: Int64s
    key_starts: Int64s
    key_sizes: Int64s
    value_starts: Int64s
    value_sizes: Int64s
    headers: HeaderColumns | None


def rows_from(columns: Columns, first: int) -> Columns:
    """Without the records before the one with this number."""
    headers = columns.headers
    if headers is not None:
        at = int(headers.records.searchsorted(first))
        headers = HeaderColumns(headers.records[at:] - first, *(column[at:] for column in headers[1:]))
    return Columns._make((columns.buffer, *(column[first:] for column in columns[1:7]), headers))


def rows_to(columns: Columns, end: int) -> Columns:
    """Without the records from the one with this number on."""
    headers = columns.headers
    if headers is not None:
        at = int(headers.records.searchsorted(end))
        headers = HeaderColumns._make(column[:at] for column in headers)
    return Columns._make((columns.buffer, *(column[:end] for column in columns[1:7]), headers))


def columns_from_rows(rows: Rows) -> Columns:
    """The same as `Columns`, for batches that were decoded by the scalar decoders."""
    headers = rows.headers
    spans = None if headers is None else HeaderColumns(*map(_int64s, headers))
    return Columns._make((memoryview(rows.buffer), *map(_int64s, rows[1:7]), spans))


def _int64s(items: list[int]) -> Int64s:
    return np.array(items, np.int64)


def columns_from_runs(buffer: memoryview, runs: list[Run], header: BatchHeader) -> Columns:
    """The same for batches that `uniform` decoded."""
    parts: list[tuple[Int64s, ...]] = []
    for run in runs:
        starts = np.arange(run.start, run.start + run.number * run.stride, run.stride)
        parts.append(
            (
                run.offsets(header.base_offset),
                run.timestamps(header.base_timestamp),
                starts + run.key_at,
                np.full(run.number, run.key_size),
                starts + run.value_at,
                np.full(run.number, run.value_size),
            )
        )
    arrays = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    return Columns._make((buffer, *arrays, None))


def decode_columns(buffer: memoryview, header: BatchHeader) -> Columns | None:
    """Find the fields of all records in `buffer`, or None where the scalar decoder should look instead."""
    bounds = record_bounds(buffer, header.record_count) if len(buffer) >= WORD else None
    if bounds is None:
        return None
    try:
        return _decode(buffer, header, bounds[:-1], bounds[1:])
    except TooOddError:
        return None


def _decode(buffer: memoryview, header: BatchHeader, starts: Int64s, ends: Int64s) -> Columns:
    cursor = Cursor(buffer, starts)
    # The length, by which `walk` found the bounds, and the attributes, which mean nothing.
    cursor.varint()
    cursor.skip(1)
    timestamps = _timestamps(cursor, header)
    offsets = _offsets(cursor, header)
    key_sizes = cursor.varint()
    key_starts = cursor.position
    cursor.seek(fields_behind(key_starts, key_sizes, ends))
    value_sizes = cursor.varint()
    value_starts = cursor.position
    header_counts = fields_behind(value_starts, value_sizes, ends)
    headers = None
    if not (header_counts == ends - 1).all() or np.frombuffer(buffer, np.uint8)[header_counts].any():
        cursor.seek(header_counts)
        headers = _headers(cursor, buffer, ends)
    return Columns(buffer, offsets, timestamps, key_starts, key_sizes, value_starts, value_sizes, headers)


def _require(fits: bool | np.bool_) -> None:
    if not fits:
        raise TooOddError


def fields_behind(starts: Int64s, sizes: Int64s, ends: Int64s) -> Int64s:
    """The places behind fields of these sizes, each of which leaves at least a byte of its record."""
    smallest = sizes.min()
    _require(smallest >= -1)
    position = starts + (sizes if smallest >= 0 else np.maximum(sizes, 0))
    _require((position < ends).all())
    return position


def _timestamps(cursor: Cursor, header: BatchHeader) -> Int64s:
    elapsed = cursor.varint()
    base = header.base_timestamp
    _require(base + int(elapsed.min()) >= -_INT64 and base + int(elapsed.max()) < _INT64)
    if header.attributes & LOG_APPEND_TIME:
        return np.full(len(elapsed), header.max_timestamp, np.int64)
    return elapsed + base


def _offsets(cursor: Cursor, header: BatchHeader) -> Int64s:
    """Consecutive offsets are compared with what their bytes must be; others are decoded."""
    base, count = header.base_offset, header.record_count
    if count <= 1 << 16:
        words, masks, bits = consecutive_varints(max(8192, 1 << (count - 1).bit_length()))
        if cursor.expect(words[:count], masks[:count], bits[:count]):
            return np.arange(base, base + count, dtype=np.int64)
    deltas = cursor.varint()
    _require(deltas.min() >= 0 and deltas.max() <= header.last_offset_delta)
    return deltas + base


def _headers(cursor: Cursor, buffer: memoryview, ends: Int64s) -> HeaderColumns | None:
    """Round after round: the first headers of all records that have one, then the second ones ..."""
    counts = cursor.varint()
    most = int(counts.max())
    _require(counts.min() >= 0 and most <= _MOST_HEADERS)
    _require((cursor.position + 2 * counts <= ends).all())
    if most == 0:
        _require((cursor.position == ends).all())
        return None
    first = counts.cumsum() - counts
    out = HeaderColumns(*(np.empty(int(counts.sum()), np.int64) for _ in HeaderColumns._fields))
    position = cursor.position.copy()
    for number in range(most):
        active = np.flatnonzero(counts > number)
        place = first[active] + number
        limit = ends[active]
        reader = Cursor(buffer, position[active])
        key_sizes = reader.varint()
        _require(key_sizes.min() >= 0)
        key_starts = reader.position
        reader.seek(fields_behind(key_starts, key_sizes, limit))
        value_sizes = reader.varint()
        _require(value_sizes.min() >= -1)
        after = reader.position + np.maximum(value_sizes, 0)
        _require((after <= limit).all())
        for column, items in zip(
            out, (active, key_starts, key_sizes, reader.position, value_sizes), strict=True
        ):
            column[place] = items
        position[active] = after
    _require((position == ends).all())
    return out
