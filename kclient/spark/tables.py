"""Record batches of one partition as Arrow batches with Spark's columns, of a size that Spark likes.

Hot, per batch; no object per record. kclient's own Arrow columns are what it starts from: names, times in
milliseconds and required fields are theirs, microseconds and nullable fields Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kclient.consumer.arrow import MOST_BYTES_OF_ROWS, arrow_from_all, extent_in_arrow
from kclient.errors import PositionError, ProtocolError
from kclient.records.arrow import schema_of
from kclient.records.batch import RecordBatch
from kclient.records.compression import Codec
from kclient.spark.malformed import MalformedRecordError

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from kclient.spark.fetch import Piece
    from kclient.spark.options import Options

Convert = Callable[[Any], Any]

_TIME = pa.timestamp("us", "UTC")
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER))
_OURS = {"timestampType": "timestamp_type"}
# Spark takes batches of this size as fast as larger ones.
_ENOUGH = 1 << 20
# To copy more than this costs more than another batch does.
_SMALL = 128 << 10
# Bytes of a row in the columns of fixed size, with the offsets of the others.
_ROW = 64


def _headers(lists: Any) -> Any:
    """Records without headers have none, which to Spark's own source is null and not an empty list."""
    if not len(lists.values):
        return pa.nulls(len(lists), _HEADERS)
    items = pa.StructArray.from_arrays(lists.values.flatten(), fields=list(_HEADER))
    empty = pa.array(lists.value_lengths().to_numpy() == 0)
    # The offsets of a slice, which a batch cut at the start of a range is, cannot be masked: a copy can.
    offsets = pa.array(lists.offsets.to_numpy()) if lists.offset else lists.offsets
    return pa.ListArray.from_arrays(offsets, items, type=_HEADERS, mask=empty)


_CONVERSIONS: dict[str, Convert] = {"timestamp": lambda times: times.cast(_TIME), "headers": _headers}


class Layout:
    """The columns of a task's output, and how they are made."""

    def __init__(self, columns: Mapping[str, StructField], options: Options) -> None:
        self._names = list(columns)
        self._required = {name for name, field in columns.items() if not field.nullable}
        self._most = min(options["kclient.batchBytes"], MOST_BYTES_OF_ROWS)
        self._wanted = schema_of([_OURS.get(name, name) for name in self._names], "offset")
        self._convert = dict(_CONVERSIONS)
        self._formatted = False
        for name in self._names:
            chosen = options[f"{name}Format"] if name in ("key", "value") else None
            if chosen is not None:
                self._formatted = True
                formats = import_module("kclient.spark.formats")
                self._convert[name] = formats.decoder(chosen, columns[name].dataType, options["formatMode"])

    def tables(self, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        """The wanted records of pieces. Small tables become one: a table costs Spark as much as many rows."""
        held: list[pa.RecordBatch] = []
        size = 0
        for piece in pieces:
            for table, about in self._placed(piece):
                large = about > _SMALL
                if large or size + about > self._most:
                    # In order: what is held may be of the same partition.
                    yield from _joined(held)
                    held, size = [], 0
                if large:
                    yield table
                else:
                    held.append(table)
                    size += about
                if size > _ENOUGH:
                    yield from _joined(held)
                    held, size = [], 0
        yield from _joined(held)

    def _placed(self, piece: Piece) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The tables of a piece; what cannot be decoded says of which partition it is."""
        topic, partition = piece.range.topic_partition
        try:
            yield from self._tables(piece)
        except ProtocolError as error:
            raise error.locate(topic=topic, partition=partition) from None

    def _tables(self, piece: Piece) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The records of one piece, and about how large each table is: to ask it (`nbytes`) is dear."""
        topic_partition = piece.range.topic_partition
        for batches, size in self._groups(piece.batches, topic_partition.topic):
            start, ends = piece.start, False
            while not ends:
                ours, ends = arrow_from_all(batches, topic_partition, start, self._wanted)
                if ours.num_rows:
                    start = ours.column("offset")[-1].as_py() + 1
                    table = self._table(ours, piece)
                    about = size + _ROW * table.num_rows
                    # Keys, values, topics and headers: none is larger than `size`.
                    if ends and not self._formatted and 4 * about <= self._most:
                        if table.num_rows:
                            yield table, about
                    else:
                        for part in self._sized(table):
                            yield part, part.nbytes

    def _groups(self, batches: Sequence[RecordBatch], topic: str) -> Iterator[tuple[list[RecordBatch], int]]:
        """Batches that together make about one Arrow batch, and how large one of its columns may be.

        Those that are compressed are decompressed here, and lie in memory of their own then: together they
        cost another copy, which is worth it only until they are large enough for Spark.
        """
        group: list[RecordBatch] = []
        size = 0
        for batch in batches:
            compressed = batch.codec is not Codec.NONE
            _, grown = extent_in_arrow(batch, topic)
            if group and size + grown > (min(self._most, _ENOUGH) if compressed else self._most):
                yield group, size
                group, size = [], 0
            group.append(batch)
            size += grown
        if group:
            yield group, size

    def _table(self, ours: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        """With Spark's columns, and without what lies behind the range."""
        wanted = piece.range
        if ours.column("offset")[-1].as_py() >= wanted.end:
            ours = ours.slice(0, int(ours.column("offset").to_numpy().searchsorted(wanted.end)))
        arrays = [self._column(name, ours, piece) for name in self._names]
        if self._required:
            return self._without_nulls(arrays, ours, piece)
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _column(self, name: str, ours: pa.RecordBatch, piece: Piece) -> Any:
        column = ours.column(_OURS.get(name, name))
        convert = self._convert.get(name)
        if convert is None:
            return column
        try:
            return convert(column)
        except MalformedRecordError as error:
            what = f"malformed: {error.reason}; formatMode=permissive reads such records as null"
            raise _at(f"the {name} of a record is {what}", ours, error.row, piece) from None

    def _without_nulls(self, arrays: list[Any], ours: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        """As `not null` in a user's schema says: Spark wants the fields so, and believes it."""
        fields = []
        for name, array in zip(self._names, arrays, strict=True):
            required = name in self._required
            if required and array.null_count:
                row = array.is_null().to_pylist().index(True)
                what = "null, where the schema says not null: leave that out of the schema"
                raise _at(f"the {name} of a record is {what}", ours, row, piece)
            fields.append(pa.field(name, array.type, nullable=not required))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _sized(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Slices of what came out larger than expected; nothing of nothing."""
        if not table.num_rows:
            return
        parts = -(-table.nbytes // (2 * self._most))
        rows = -(-table.num_rows // parts)
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows) if parts > 1 else table


def _joined(tables: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(tables) < 2:
        return tables
    joined: list[pa.RecordBatch] = pa.Table.from_batches(tables).combine_chunks().to_batches()
    return joined


def _at(what: str, ours: pa.RecordBatch, row: int, piece: Piece) -> PositionError:
    """An error about one record, with where it is."""
    return PositionError(what, *piece.range.topic_partition, ours.column("offset")[row].as_py())
