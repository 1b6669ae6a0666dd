"""The rows of tables and streams as records, in pieces of moderate size.

A table is sent piece by piece, so that it is never copied as a whole. What lies in memory is checked before
its first piece is sent; a stream is checked as it is read. `tables` calls it; columns are `table_columns`'.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kclient.errors import RecordTooLargeError
from kclient.producer import table_columns
from kclient.producer.many import Many, Source
from kclient.records.packed import LONGEST, Block, longest
from kclient.records.sizes import RECORD_OVERHEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.producer.config import ProducerConfig

_FIELDS = ("value", "key", "partition", "timestamp", "headers")
# What a table that was consumed has besides; it means nothing to a producer.
_OF_READING = {"topic", "offset", "timestamp_type", "timestampType"}
# pandas' index, where it became a column.
_INDEX = "__index_level_"
# Fewer records than this are sent faster as objects.
_FEW = 48
# Bytes of keys and values that are made ready at a time, and rows below which smaller batches are joined.
_PIECE_BYTES = 1 << 25
_JOINED_ROWS = 4_096


class _Piece(NamedTuple):
    """Some rows, ready to be sent; `first` is the number of the first of them."""

    first: int
    values: pa.Array[Any]
    keys: pa.Array[Any] | None
    times: NDArray[np.int64] | None
    partitions: list[int | None] | None

    @property
    def nbytes(self) -> int:
        """Of keys and values."""
        return self.values.nbytes + (0 if self.keys is None else self.keys.nbytes)

    def many(self, topic: str) -> Many:
        """Keys and values stay where they are if they are of moderate length, else they become objects."""
        columns = [column for column in (self.keys, self.values) if column is not None]
        keys: Sequence[bytes | None] | None
        values: Sequence[bytes | None]
        times: Any = self.times
        if len(self.values) >= _FEW and max(map(longest, columns)) <= LONGEST:
            packed, values = Block(self.keys, self.values).columns()
            keys = None if self.keys is None else packed
        else:
            keys = None if self.keys is None else _objects(self.keys)
            values, times = _objects(self.values), None if times is None else _with_none(times)
        return Many(topic, values, keys, self.partitions, times, row=self.first)


class Rows:
    """The rows of one call of `send_arrow` or `send_pandas`."""

    def __init__(
        self, topic: str, config: ProducerConfig, check_size: Callable[[str, int, str], None]
    ) -> None:
        self._topic = topic
        self._check_size = check_size
        self._serializers = {"key": config.key_serializer, "value": config.value_serializer}

    def source(self, table: Any) -> Source:
        """The records of a table of any kind."""
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(table, pandas.DataFrame):
            return self._frame(table)
        try:
            if isinstance(table, pa.RecordBatch) or hasattr(table, "__arrow_c_array__"):
                table = pa.Table.from_batches([pa.record_batch(table)])
            elif not isinstance(table, pa.Table) and hasattr(table, "__arrow_c_stream__"):
                table = pa.RecordBatchReader.from_stream(table)
        except pa.ArrowInvalid as error:  # a single column: an array, a series
            raise TypeError(_no_table(table)) from error
        if isinstance(table, pa.Table):
            return self._table(table)
        if isinstance(table, pa.RecordBatchReader):
            return self._stream(table)
        raise TypeError(_no_table(table))

    def _table(self, table: pa.Table) -> Source:
        self._check_columns(table.schema)
        if self._makes_objects(table.schema):
            columns = {name: table.column(name) for name in _FIELDS if name in table.schema.names}
            return Source([self._of_objects(columns, 0)], at_once=True)
        batches = table.to_batches()
        if _fits_in_a_piece(table, batches):
            return Source(list(self._pieces(batches)), at_once=True)
        highest = -1
        for first, batch in _numbered(batches):
            for number in self._checked(batch, first)[1] or ():
                if number is not None and number > highest:
                    highest = number
        return Source(self._pieces(batches), partition=None if highest < 0 else highest)

    def _stream(self, reader: pa.RecordBatchReader) -> Source:
        self._check_columns(reader.schema)
        if not self._makes_objects(reader.schema):
            return Source(self._pieces(reader))
        names = [name for name in _FIELDS if name in reader.schema.names]
        return Source(
            self._of_objects({name: batch.column(name) for name in names}, first)
            for first, batch in _numbered(reader)
        )

    def _frame(self, frame: Any) -> Source:
        """A pandas frame. Columns that Arrow would change, or cannot hold, stay Python's objects."""
        _check_names([str(name) for name in frame.columns])
        _check_index(frame.index.names)
        columns: dict[str, Any] = {}
        for name in _FIELDS:
            if name in frame.columns:
                series = frame[name]
                stays = name == "headers" or self._serializers.get(name) is not None
                columns[name] = _listed(series) if stays else _from_pandas(series, name)
        if not any(isinstance(column, list) for column in columns.values()):
            return self._table(pa.table(columns))
        for name, column in columns.items():
            if not isinstance(column, list):
                table_columns.check_type(name, column.type, self._serializers.get(name))
        return Source([self._of_objects(columns, 0)], at_once=True)

    def _check_columns(self, schema: pa.Schema) -> None:
        _check_names(schema.names)
        for name, kind in zip(schema.names, schema.types, strict=True):
            if name in _FIELDS:
                table_columns.check_type(name, kind, self._serializers.get(name))

    def _makes_objects(self, schema: pa.Schema) -> bool:
        """Whether each record is looked at in Python, by a serializer or for its headers."""
        return "headers" in schema.names or any(self._serializers.values())

    def _of_objects(self, columns: dict[str, Any], first: int) -> Many:
        partitions, times, headers = (columns.get(name) for name in ("partition", "timestamp", "headers"))
        values = self._payloads("value", columns["value"])
        assert values is not None
        return Many(
            self._topic,
            values,
            self._payloads("key", columns.get("key")),
            None if partitions is None else table_columns.partitions(_in_one(partitions), first),
            None if times is None else _with_none(table_columns.timestamps(_in_one(times), first)),
            None if headers is None else table_columns.headers(headers, first),
            row=first,
        )

    def _payloads(self, name: str, column: Any) -> list[Any] | None:
        """Keys or values as a serializer takes them, or else as bytes."""
        if column is None:
            return None
        if self._serializers[name] is not None:
            return column if isinstance(column, list) else column.to_pylist()
        if isinstance(column, list):
            return table_columns.payload_objects(name, column)
        found: list[Any] = []
        for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for start, end in _cuts([array]):
                found += _objects(table_columns.as_binary(array.slice(start, end - start)))
        return found

    def _checked(
        self, batch: pa.RecordBatch, first: int
    ) -> tuple[NDArray[np.int64] | None, list[int | None] | None]:
        """Timestamps and partitions of all rows; raises what is wrong with any, its size included."""
        names = batch.schema.names
        payloads = [batch.column(name) for name in ("value", "key") if name in names]
        try:
            most = sum(table_columns.extent(column)[0] for column in payloads)
            self._check_size(self._topic, most + RECORD_OVERHEAD, "a record")
        except RecordTooLargeError:  # or the longest key and the longest value are in different rows
            sizes = sum(map(table_columns.lengths, payloads))
            largest = int(np.argmax(sizes))
            most = int(np.max(sizes)) + RECORD_OVERHEAD
            self._check_size(self._topic, most, f"row {first + largest}")
        times = table_columns.timestamps(batch.column("timestamp"), first) if "timestamp" in names else None
        given = table_columns.partitions(batch.column("partition"), first) if "partition" in names else None
        return times, given

    def _pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Many]:
        waiting: list[_Piece] = []
        rows = size = 0
        for piece in self._cut(batches):
            if waiting and size + piece.nbytes > _PIECE_BYTES:
                yield _joined(waiting).many(self._topic)
                waiting, rows, size = [], 0, 0
            waiting.append(piece)
            rows += len(piece.values)
            size += piece.nbytes
            if rows >= _JOINED_ROWS:
                yield _joined(waiting).many(self._topic)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _joined(waiting).many(self._topic)

    def _cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[_Piece]:
        for first, batch in _numbered(batches):
            times, given = self._checked(batch, first)
            payloads = [batch.column(name) for name in ("value", "key") if name in batch.schema.names]
            for start, end in _cuts(payloads):
                value, *key = (
                    table_columns.as_binary(column.slice(start, end - start)) for column in payloads
                )
                yield _Piece(
                    first + start,
                    value,
                    key[0] if key else None,
                    None if times is None else times[start:end],
                    None if given is None else given[start:end],
                )


def _check_names(names: Sequence[str]) -> None:
    """Refuse a table whose columns do not say what they are."""
    for name in names:
        if name in _FIELDS:
            if names.count(name) > 1:
                raise ValueError(f"the table has {names.count(name)} columns {name!r}: rename all but one")
        elif name not in _OF_READING and not name.startswith(_INDEX):
            near = get_close_matches(name.lower(), _FIELDS, 1)
            meant = f"did you mean {near[0]!r}? Else " if near else ""
            raise ValueError(
                f"column {name!r} is no part of a record, which has {', '.join(_FIELDS)}: "
                f"{meant}leave it out, or put it into 'value'"
            )
    if "value" not in names:
        raise ValueError(f"the table has the columns {list(names)}: 'value' is missing")


def _check_index(names: Sequence[Any]) -> None:
    """Refuse a frame whose index is a field of records: it would be lost."""
    for name in names:
        if name in _FIELDS:
            raise ValueError(
                f"the frame's index is {name!r}, and only columns are sent: make it one with reset_index(), "
                "or leave it out with reset_index(drop=True)"
            )


def _no_table(given: Any) -> str:
    return (
        f"{type(given).__name__} is no table: give an Arrow table, record batch or reader, "
        "a pandas frame, or what speaks Arrow's C interface, as Polars' frames and DuckDB's relations do"
    )


def _fits_in_a_piece(table: pa.Table, batches: Sequence[pa.RecordBatch]) -> bool:
    """Also written out, row by row: dictionaries, runs and views have many rows that share their bytes."""
    if table.nbytes > _PIECE_BYTES:
        return False
    return (
        sum(
            table_columns.extent(batch.column(name))[1]
            for name in ("value", "key")
            if name in table.schema.names and table_columns.shares_bytes(table.schema.field(name).type)
            for batch in batches
        )
        <= _PIECE_BYTES
    )


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches that have rows, each with the number of its first row."""
    first = 0
    for batch in batches:
        if batch.num_rows:
            yield first, batch
        first += batch.num_rows


def _cuts(payloads: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Where to cut rows, so that a piece has up to `_PIECE_BYTES`, or one row."""
    if sum(table_columns.extent(column)[1] for column in payloads) <= _PIECE_BYTES:
        yield 0, len(payloads[0])
        return
    sums = np.cumsum(sum(map(table_columns.lengths, payloads)))
    start, before = 0, 0
    while start < len(sums):
        end = max(start + 1, int(np.searchsorted(sums, before + _PIECE_BYTES, "right")))
        yield start, end
        start, before = end, int(sums[end - 1])


def _joined(pieces: list[_Piece]) -> _Piece:
    """Pieces that follow each other as one."""
    if len(pieces) == 1:  # to join is to copy
        return pieces[0]
    firsts, values, keys, times, partitions = zip(*pieces, strict=True)
    return _Piece(
        firsts[0],
        pa.concat_arrays(values),
        None if keys[0] is None else pa.concat_arrays(keys),
        None if times[0] is None else np.concatenate(times),
        None if partitions[0] is None else [number for each in partitions for number in each],
    )


def _in_one(column: Any) -> Any:
    """Numbers in chunks as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _objects(array: Any) -> list[bytes | None]:
    objects: list[bytes | None] = array.to_numpy(zero_copy_only=False).tolist()
    return objects


def _with_none(times: NDArray[np.int64]) -> list[int | None]:
    """Timestamps as `send_many` takes them."""
    found: list[int | None] = times.tolist()
    for row in np.flatnonzero(times == table_columns.MISSING_TIME).tolist():
        found[row] = None
    return found


def _from_pandas(series: Any, name: str) -> Any:
    """A column of a frame as Arrow; texts and bytes in one column stay a list."""
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        if name in {"key", "value"}:
            return _listed(series)
        raise ValueError(f"column {name!r}{_odd_one_out(series)}: {error}") from error


def _odd_one_out(series: Any) -> str:
    """Which row of a column holds something else than its first row."""
    column = _listed(series)
    kinds = [type(value) for value in column if value is not None]
    row = next(
        (row for row, value in enumerate(column) if value is not None and type(value) is not kinds[0]), None
    )
    return "" if row is None else f", row {row}: {column[row]!r}"


def _listed(series: Any) -> list[Any]:
    """Python's objects, and None for whatever pandas takes for missing."""
    pairs = zip(series.tolist(), series.isna().tolist(), strict=True)
    return [None if missing else value for value, missing in pairs]
