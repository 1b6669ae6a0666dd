"""Decoded records as `Record` objects, for callers who want Python objects.

Hot. However a batch was decoded (rows, columns or runs), its fields become iterables first and records last,
in one go. Called by `batch`.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kclient.types import Header, Record, TimestampType
from kclient.uncollected import list_uncollected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kclient.records.columns import Columns
    from kclient.records.layout import BatchHeader
    from kclient.records.rows import Rows
    from kclient.records.uniform import Run

BytesRecord: TypeAlias = "Record[bytes | None, bytes | None]"


class Origin(NamedTuple):
    """What all records of one batch share."""

    topic: str
    partition: int
    timestamp_type: TimestampType
    leader_epoch: int


def records_from_rows(rows: Rows, origin: Origin) -> list[BytesRecord]:
    """All records of a small batch."""
    buffer = bytes(rows.buffer)
    keys = _slices(buffer, rows.key_starts, rows.key_sizes)
    values = _slices(buffer, rows.value_starts, rows.value_sizes)
    headers: Iterable[tuple[Header, ...]] = repeat(())
    if rows.headers is not None:
        headers = header_tuples(buffer, len(keys), rows.headers)
    sizes = rows.key_sizes, rows.value_sizes
    return list(_build(origin, rows.offsets, rows.timestamps, (keys, values, headers), sizes))


def records_from_columns(columns: Columns, origin: Origin) -> list[BytesRecord]:
    """All records of a large batch."""
    from kclient.records.cutting import cut_fields  # noqa: PLC0415 - imports numpy

    count = len(columns.offsets)
    headers: Iterable[tuple[Header, ...]] = repeat(())
    if columns.headers is not None:
        spans = [column.tolist() for column in columns.headers]
        headers = header_tuples(bytes(columns.buffer), count, spans)
    payloads = (
        cut_fields(columns.buffer, columns.key_starts, columns.key_sizes),
        cut_fields(columns.buffer, columns.value_starts, columns.value_sizes),
        headers,
    )
    sizes = columns.key_sizes.tolist(), columns.value_sizes.tolist()
    return list_uncollected(
        _build(origin, columns.offsets.tolist(), columns.timestamps.tolist(), payloads, sizes)
    )


def records_from_runs(
    buffer: memoryview, runs: list[Run], header: BatchHeader, origin: Origin
) -> list[BytesRecord]:
    """All records of a large batch that comes in runs of one shape."""
    from kclient.records.cutting import cut_run  # noqa: PLC0415 - imports numpy

    built: list[Iterator[BytesRecord]] = []
    for run in runs:
        first = header.base_offset + run.first
        offsets: Iterable[int] = range(first, first + run.number)
        if run.deltas is not None:
            offsets = run.offsets(header.base_offset).tolist()
        timestamps: Iterable[int]
        if isinstance(run.elapsed, int):
            timestamps = repeat(header.base_timestamp + run.elapsed)
        else:
            timestamps = run.timestamps(header.base_timestamp).tolist()
        payloads = *cut_run(buffer, run), repeat(())
        sizes = repeat(run.key_size), repeat(run.value_size)
        built.append(_build(origin, offsets, timestamps, payloads, sizes))
    return list_uncollected(*built)


def _build(
    origin: Origin,
    offsets: Iterable[int],
    timestamps: Iterable[int],
    payloads: tuple[Iterable[bytes | None], Iterable[bytes | None], Iterable[tuple[Header, ...]]],
    sizes: tuple[Iterable[int], Iterable[int]],
) -> Iterator[BytesRecord]:
    topic, partition, timestamp_type, leader_epoch = origin
    fields = zip(
        repeat(topic),
        repeat(partition),
        offsets,
        timestamps,
        repeat(timestamp_type),
        *payloads,
        repeat(leader_epoch),
        *sizes,
        strict=False,
    )
    return records_of(fields)


def records_of(fields: Iterator[tuple[Any, ...]]) -> Iterator[Record[Any, Any]]:
    """Records of all their fields: what `Record._make` does, without a Python frame per record."""
    return map(tuple.__new__, repeat(Record), fields)


def _slices(buffer: bytes, starts: list[int], sizes: list[int]) -> list[bytes | None]:
    return [
        buffer[start : start + size] if size >= 0 else None for start, size in zip(starts, sizes, strict=True)
    ]


def header_tuples(buffer: bytes, count: int, spans: Sequence[list[int]]) -> list[tuple[Header, ...]]:
    """The headers of each of `count` records. Keys that are not UTF-8 keep what can be read of them."""
    records, key_starts, key_sizes, value_starts, value_sizes = spans
    raw = [buffer[start : start + size] for start, size in zip(key_starts, key_sizes, strict=True)]
    names = {name: name.decode(errors="replace") for name in set(raw)}
    values = _slices(buffer, value_starts, value_sizes)
    headers: list[Any] = list_uncollected(zip(map(names.__getitem__, raw), values, strict=True))
    # Where each record has as many headers as the next, they can be dealt out without looking.
    each = len(headers) // count
    if len(headers) == each * count and records == [record for record in range(count) for _ in range(each)]:
        return list_uncollected(zip(*[iter(headers)] * each, strict=True))
    out: list[tuple[Header, ...]] = [()] * count
    start, total = 0, len(headers)
    while start < total:
        record, end = records[start], start + 1
        while end < total and records[end] == record:
            end += 1
        out[record] = tuple(headers[start:end])
        start = end
    return out
