"""Fetched batches as Arrow: how much a call takes, in which pieces they are decoded, how these are joined.

Hot, per batch. `chunk` decodes into pieces, `poller` joins those of all chunks of a call, so that what came
in many small answers is not copied and joined answer by answer. Spark's tables are made here too. Importing
it imports pyarrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kclient.records import ModernBatch
from kclient.records.arrow import (
    COLUMN_BYTES,
    Part,
    arrow_batches,
    arrow_from_records,
    concat_batches,
    with_rows,
)
from kclient.records.batch import LARGE, RUNS_FROM
from kclient.records.columns import rows_from, rows_to
from kclient.records.objects import Origin
from kclient.records.together import columns_together

if TYPE_CHECKING:
    from kclient.records.batch import RecordBatch
    from kclient.records.columns import Columns
    from kclient.records.objects import BytesRecord
    from kclient.types import TopicPartition

# What a call gives when the application names no number of rows: large enough that the call itself costs
# nothing beside its rows, small enough that an event loop stands still for some ten milliseconds.
MOST_ROWS = 100_000
MOST_BYTES = 32 * 1024 * 1024
# The same where the application names the rows: far below what a column holds, because records that are all
# alike grow a thousandfold, and what is decompressed is in memory two or three times until it is joined.
MOST_BYTES_OF_ROWS = 256 * 1024 * 1024
# Keys of headers that are no text grow by so much when they are made text.
_REPLACEMENT = 3

# Decoded records on their way into one table: columns, objects, or a table of which a part was wanted.
Piece: TypeAlias = "Part | list[BytesRecord] | pa.RecordBatch"

_offset = attrgetter("offset")


class Room:
    """What a call may still take: rows, and bytes of decompressed records.

    No column of the result is larger than those bytes. A number of rows that the application named is kept to
    the row; else a batch is taken whole or not at all. One that is larger than everything allowed is taken
    alone, as far as columns can hold it.
    """

    __slots__ = ("_exact", "rows", "size", "taken")

    def __init__(self, most: int | None) -> None:
        self._exact = most is not None
        self.rows: int = MOST_ROWS if most is None else most
        size = MOST_BYTES if most is None else MOST_BYTES_OF_ROWS
        self.size: int = min(size, COLUMN_BYTES // _REPLACEMENT)
        self.taken: int = 0

    @property
    def full(self) -> bool:
        return self.rows <= 0 or self.size <= 0

    def holds(self, rows: int, size: int) -> bool:
        """Whether all of that fits."""
        return rows <= self.rows and size <= self.size

    def rows_of(self, rows: int, size: int) -> int:
        """How many rows of one batch fit."""
        if self.taken and size > self.size:
            return 0
        if self._exact:
            return min(rows, self.rows)
        return 0 if self.taken and rows > self.rows else rows

    def take(self, rows: int, size: int) -> None:
        self.taken += rows
        self.rows -= rows
        self.size -= size


def extent_in_arrow(batch: RecordBatch, topic: str) -> tuple[int, int]:
    """The most rows that a batch becomes, and the most bytes of any of its columns. Decompresses it."""
    rows, size = batch.extent()
    return rows, max(size, rows * len(topic.encode()))


def pieces_of(batches: Iterable[RecordBatch], partition: TopicPartition, start: int) -> list[Piece]:
    """The records from offset `start` on: large batches by themselves, others, which are dear, together."""
    pieces: list[Piece] = []
    for large, group in groupby([batch for batch in batches if batch.last_offset >= start], _is_large):
        some = list(group)
        if large:
            pieces += [_part(batch, partition, start) for batch in some]
        else:
            pieces += _together(some, partition, start)
    return pieces


def _together(batches: Sequence[RecordBatch], partition: TopicPartition, start: int) -> list[Piece]:
    """Batches that are not large: decoded at once, or by kind where that cannot be."""
    modern = [batch for batch in batches if isinstance(batch, ModernBatch) and batch.record_count]
    if len(modern) == len(batches) > 1 and sum(batch.record_count for batch in modern) >= RUNS_FROM:
        columns = columns_together(modern)
        if columns is not None:
            return [_from(columns, [(_origin(each, partition), each.record_count) for each in modern], start)]
    pieces: list[Piece] = []
    for small, group in groupby(batches, _is_small):
        if small:
            pieces.append(_records(group, partition, start))
        else:
            pieces += [_part(batch, partition, start) for batch in group]
    return pieces


def _records(batches: Iterable[RecordBatch], partition: TopicPartition, start: int) -> list[BytesRecord]:
    records = list(chain.from_iterable(batch.records(*partition) for batch in batches))
    return records[bisect_left(records, start, key=_offset) :]


def _part(batch: RecordBatch, partition: TopicPartition, start: int) -> Part:
    columns = batch.columns()
    return _from(columns, [(_origin(batch, partition), len(columns.offsets))], start)


def _from(columns: Columns, origins: list[tuple[Origin, int]], start: int) -> Part:
    """The rows from an offset on, which lies in the first of the batches."""
    origin, count = origins[0]
    before = int(columns.offsets[:count].searchsorted(start))
    if before:
        columns = rows_from(columns, before)
        origins = [(origin, count - before), *origins[1:]]
    return Part(columns, origins)


def _origin(batch: RecordBatch, partition: TopicPartition) -> Origin:
    return Origin(*partition, batch.timestamp_type, batch.leader_epoch)


def _is_large(batch: RecordBatch) -> bool:
    return isinstance(batch, ModernBatch) and batch.record_count >= LARGE


def _is_small(batch: RecordBatch) -> bool:
    return not isinstance(batch, ModernBatch) or batch.record_count < RUNS_FROM


def rows_in(pieces: Iterable[Piece]) -> int:
    """How many rows they become."""
    return sum(len(piece.columns.offsets) if isinstance(piece, Part) else len(piece) for piece in pieces)


def table_of(pieces: Iterable[Piece], schema: pa.Schema) -> pa.RecordBatch:
    """One Arrow batch of everything, in order."""
    pieces = list(pieces)
    tables: list[pa.RecordBatch] = []
    for kind, group in groupby(pieces, type):
        some: list[Any] = list(group)
        if kind is Part:
            tables.append(arrow_batches(some, schema))
        elif kind is list:
            tables.append(arrow_from_records(list(chain.from_iterable(some)), schema))
        else:
            tables += some
    return with_rows(rows_in(pieces), concat_batches(tables, schema))


def arrow_from_all(
    batches: Sequence[RecordBatch], partition: TopicPartition, start: int, schema: pa.Schema
) -> tuple[pa.RecordBatch, bool]:
    """The records of several batches in a row from offset `start` on, and whether that is all of them.

    Of a single batch only the first ones may come, as many as columns can hold. Several fit: see `Room`.
    """
    if len(batches) == 1 and _may_pass(batches[0], partition):
        part = _part(batches[0], partition, start)
        count = _rows_that_fit(part.columns, partition)
        if count < len(part.columns.offsets):
            first = Part(rows_to(part.columns, count), [(_origin(batches[0], partition), count)])
            return table_of([first], schema), False
        return table_of([part], schema), True
    return table_of(pieces_of(batches, partition, start), schema), True


def _may_pass(batch: RecordBatch, partition: TopicPartition) -> bool:
    """Whether a column of the batch may be larger than one can be: a few large ones are looked at closely."""
    _, size = extent_in_arrow(batch, partition.topic)
    return size * _REPLACEMENT > COLUMN_BYTES


def _rows_that_fit(columns: Columns, partition: TopicPartition) -> int:
    """How many of the first records fit into columns, but at least one."""
    rows = len(columns.offsets)
    needed = [
        np.full(rows, len(partition.topic.encode())),
        np.maximum(columns.key_sizes, 0),
        np.maximum(columns.value_sizes, 0),
    ]
    headers = columns.headers
    if headers is not None:
        of_headers = (headers.key_sizes * _REPLACEMENT, np.maximum(headers.value_sizes, 0))
        needed += [np.bincount(headers.records, sizes, rows) for sizes in of_headers]
    return max(1, min(int(each.cumsum().searchsorted(COLUMN_BYTES, "right")) for each in needed))
