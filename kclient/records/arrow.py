"""Decoded records as Arrow batches, and Arrow columns as records to encode.

Payloads are copied once: all fields of a batch are one binary array laid over its buffer, from which the
wanted ones are taken. Called by `batch` and by the producer's `send_arrow`; importing it imports pyarrow.
Arrays are made of buffers and read from them, never with `pa.array` or `to_numpy`: those import pandas where
it is installed, which takes some 45 MB and longer than to read the first records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from kclient.errors import ConfigurationError

try:
    import pyarrow as pa
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "records as Arrow batches need pyarrow: pip install 'kclient-kafka[arrow]'", name="pyarrow"
    ) from _error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kclient.records.columns import Columns, HeaderColumns
    from kclient.records.objects import BytesRecord, Origin

    Int64s = NDArray[np.int64]

_HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("item", _HEADER, nullable=False))
_NO_HEADERS = pa.nulls(0, _HEADER)
_TIMESTAMP = pa.timestamp("ms", "UTC")

# Names and types as Spark's Kafka source has them, in snake case; plain strings, because batches of several
# topics are concatenated and Spark knows no dictionaries.
_FIELDS: list[pa.Field[Any]] = [
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", _TIMESTAMP, nullable=False),
    pa.field("timestamp_type", pa.int32(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", _HEADERS, nullable=False),
]
SCHEMA = pa.schema(_FIELDS)

# Arrow's texts and bytes lie between 32-bit offsets: no column can be larger.
COLUMN_BYTES = (1 << 31) - 1


def schema_of(names: Sequence[str] | None, *besides: str) -> pa.Schema:
    """The columns of `SCHEMA` with these names, in their order, and then `besides`; None is all of them."""
    if names is None:
        return SCHEMA
    if isinstance(names, str):
        raise ConfigurationError(f"columns={names!r} must be a list of names, as in [{names!r}]")
    return _schema_of(*names, *(name for name in besides if name not in names))


@lru_cache(maxsize=64)
def _schema_of(*names: str) -> pa.Schema:
    for name in names:
        if name not in SCHEMA.names:
            raise ConfigurationError(f"there is no column {name!r}: there are {', '.join(SCHEMA.names)}")
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(f"columns={list(names)} must name at least one column, and none twice")
    return pa.schema([SCHEMA.field(name) for name in names])


class Part(NamedTuple):
    """Records of batches as columns. `origins` say how many of them, in order, came with which batch."""

    columns: Columns
    origins: Sequence[tuple[Origin, int]]


def arrow_batch(columns: Columns, origin: Origin, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """The records of one batch with the columns of `SCHEMA`, or with some of them."""
    return _arrow(columns, [(origin, len(columns.offsets))], schema)


def arrow_batches(parts: Sequence[Part], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """The records of several batches, of any partitions, in order, as one Arrow batch.

    Batches that lie in one buffer, as uncompressed ones of one fetch do, are copied once for all.
    """
    batches: list[pa.RecordBatch] = []
    for _, group in groupby(parts, lambda part: id(part.columns.buffer.obj)):
        near = list(group)
        joined = _joined([columns for columns, _ in near])
        if joined is None:
            batches += [_arrow(columns, origins, schema) for columns, origins in near]
        else:
            batches.append(_arrow(joined, [each for _, origins in near for each in origins], schema))
    return concat_batches(batches, schema)


def _arrow(columns: Columns, origins: Sequence[tuple[Origin, int]], schema: pa.Schema) -> pa.RecordBatch:
    """The wanted columns. `origins` say how many records came with which batch."""
    arrays = [_BUILDERS[name](columns, origins) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spread(kind: pa.DataType, items: list[int], origins: Sequence[tuple[Origin, int]]) -> pa.Array[Any]:
    """What all records of a batch have in common, once for each of them."""
    return _numbers(kind, np.array(items, np.int32).repeat([count for _, count in origins]))


def _topics(origins: Sequence[tuple[Origin, int]]) -> pa.Array[Any]:
    names = [origin.topic.encode() for origin, _ in origins]
    counts = [count for _, count in origins]
    ends = np.zeros(sum(counts) + 1, np.int32)
    np.cumsum(np.array([len(name) for name in names], np.int32).repeat(counts), out=ends[1:])
    text = b"".join([name * count for name, count in zip(names, counts, strict=True)])
    _require_room(len(text))
    return pa.Array.from_buffers(
        pa.string(), sum(counts), [None, pa.py_buffer(ends.data), pa.py_buffer(text)]
    )


def _joined(parts: Sequence[Columns]) -> Columns | None:
    """The columns of batches in one buffer as those of one batch; None if any has headers."""
    if any(part.headers is not None for part in parts):
        return None
    if len(parts) == 1:
        return parts[0]
    whole = parts[0].buffer.obj
    buffer = memoryview(whole).cast("B")
    begin = _address(buffer)
    shifts = [_address(part.buffer) - begin for part in parts]
    return parts[0]._replace(
        buffer=buffer,
        offsets=np.concatenate([part.offsets for part in parts]),
        timestamps=np.concatenate([part.timestamps for part in parts]),
        key_starts=np.concatenate([part.key_starts + at for part, at in zip(parts, shifts, strict=True)]),
        key_sizes=np.concatenate([part.key_sizes for part in parts]),
        value_starts=np.concatenate([part.value_starts + at for part, at in zip(parts, shifts, strict=True)]),
        value_sizes=np.concatenate([part.value_sizes for part in parts]),
    )


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


def arrow_from_records(records: Sequence[BytesRecord], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Records of any batches, in order, with the columns of `SCHEMA`, or with some of them.

    Dearer per record than `arrow_batch` and cheaper per batch: the way for many small batches.
    """
    arrays = [_FROM_RECORDS[name](records) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _integers(name: str, kind: pa.DataType, dtype: str) -> Callable[[Sequence[BytesRecord]], pa.Array[Any]]:
    field = attrgetter(name)
    return lambda records: _numbers(kind, np.fromiter(map(field, records), dtype, len(records)))


def _binaries(kind: pa.DataType, items: Sequence[bytes | None]) -> pa.Array[Any]:
    """Payloads that were cut out before."""
    valid = None
    if None in items:
        valid = _bits(np.array([item is not None for item in items]))
        items = [item or b"" for item in items]
    payloads: Sequence[bytes] = items  # type: ignore[assignment]
    ends = np.zeros(len(items) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, payloads), np.int32, len(items)), out=ends[1:])
    joined = b"".join(payloads)
    _require_room(len(joined))
    data = [valid, pa.py_buffer(ends.data), pa.py_buffer(joined)]
    return pa.Array.from_buffers(kind, len(items), data)


def _header_lists(records: Sequence[BytesRecord]) -> pa.Array[Any]:
    ends = np.zeros(len(records) + 1, np.int32)
    np.cumsum(np.fromiter((len(record.headers) for record in records), np.int32, len(records)), out=ends[1:])
    headers = [header for record in records for header in record.headers]
    keys = _binaries(pa.string(), [key.encode() for key, _ in headers])
    values = _binaries(pa.binary(), [value for _, value in headers])
    return _lists(ends, pa.StructArray.from_arrays([keys, values], fields=list(_HEADER)))


def concat_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """All rows of all batches, in order, as one batch; an empty one for no batches."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    if table.num_rows:
        # Several, where a column passes what one array can hold.
        return with_rows(sum(map(len, batches)), table.to_batches()[0])
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def with_rows(count: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, which must have the rows that it was made of: positions move behind all of them."""
    if batch.num_rows != count:
        raise RuntimeError(
            f"{count} records became {batch.num_rows} rows of an Arrow batch: this is a defect of kclient, "
            "please report it; smaller calls (max_records) may pass"
        )
    return batch


def _require_room(size: int) -> None:
    """Callers take no more than a column holds; offsets that wrapped around would be others' bytes."""
    if size > COLUMN_BYTES:
        raise OverflowError(
            f"a column of {size} bytes, where an Arrow array holds {COLUMN_BYTES}: take fewer records at once"
        )


def first_from(batch: pa.RecordBatch, offset: int) -> int:
    """Where the rows from an offset on begin. Needs its column."""
    column = batch.column("offset")
    if not len(column) or column[0].as_py() >= offset:
        return 0
    data: Any = column.buffers()[1]
    offsets = np.frombuffer(data, np.int64, len(column), 8 * column.offset)
    return int(offsets.searchsorted(offset))


def _numbers(kind: pa.DataType, items: NDArray[np.generic]) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(items.data)])


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little").data)


def _payloads(buffer: memoryview, starts: Int64s, sizes: Int64s) -> pa.Array[Any]:
    """One field of every record, in the order in which they lie. Sizes of -1 become nulls."""
    same = _of_one_size(buffer, starts, sizes)
    if same is not None:
        return same
    count, null = len(starts), sizes < 0
    if null.all():
        return pa.nulls(count, pa.binary())
    _require_room(len(buffer))
    # Field and gap of each record: the end of each is the start of the next.
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(sizes, 0)
    bounds[-1] = bounds[-2] if count else 0
    laid = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds.data), pa.py_buffer(buffer)]
    )
    valid = _bits(~null) if null.any() else None
    places = pa.py_buffer(np.arange(0, 2 * count, 2).data)
    wanted: pa.Array[Any] = pa.Array.from_buffers(pa.int64(), count, [valid, places])
    return laid.take(wanted)


def _of_one_size(buffer: memoryview, starts: Int64s, sizes: Int64s) -> pa.Array[Any] | None:
    """Fields that are all of one size, copied without looking at each; None for others."""
    size = int(sizes[0]) if len(sizes) else 0
    if size < 1 or not (sizes == size).all():
        return None
    _require_room(len(sizes) * size)
    # Items that overlap, one beginning at every byte.
    every = np.ndarray((len(buffer) - size + 1,), np.dtype((np.void, size)), buffer, strides=(1,))
    ends = np.arange(0, len(sizes) * size + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(ends.data), pa.py_buffer(every[starts].data)]
    )


def _headers(buffer: memoryview, count: int, headers: HeaderColumns | None) -> pa.Array[Any]:
    ends = np.zeros(count + 1, np.int32)
    items = _NO_HEADERS
    if headers is not None:
        np.cumsum(np.bincount(headers.records, minlength=count), out=ends[1:])
        keys = _payloads(buffer, headers.key_starts, headers.key_sizes)
        values = _payloads(buffer, headers.value_starts, headers.value_sizes)
        items = pa.StructArray.from_arrays([_text(keys), values], fields=list(_HEADER))
    return _lists(ends, items)


def _lists(ends: NDArray[np.int32], items: pa.Array[Any]) -> pa.Array[Any]:
    """The headers of each record, which end there among all headers."""
    places: Any = _numbers(pa.int32(), ends)
    lists: pa.Array[Any] = pa.ListArray.from_arrays(places, items, type=_HEADERS)
    return lists


def _text(raw: pa.Array[Any]) -> pa.Array[Any]:
    """Header keys as text; what is not UTF-8 is replaced, as it is in `Record` objects."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        readable = [item.decode(errors="replace").encode() for item in raw.to_pylist() if item is not None]
        return _binaries(pa.string(), readable)


_Builder: TypeAlias = "Callable[[Columns, Sequence[tuple[Origin, int]]], pa.Array[Any]]"
_FromRecords: TypeAlias = "Callable[[Sequence[BytesRecord]], pa.Array[Any]]"
_BUILDERS: dict[str, _Builder] = {
    "topic": lambda _, origins: _topics(origins),
    "partition": lambda _, origins: _spread(pa.int32(), [each.partition for each, _ in origins], origins),
    "offset": lambda columns, _: _numbers(pa.int64(), columns.offsets),
    "timestamp": lambda columns, _: _numbers(_TIMESTAMP, columns.timestamps),
    "timestamp_type": lambda _, origins: _spread(
        pa.int32(), [each.timestamp_type for each, _ in origins], origins
    ),
    "key": lambda columns, _: _payloads(columns.buffer, columns.key_starts, columns.key_sizes),
    "value": lambda columns, _: _payloads(columns.buffer, columns.value_starts, columns.value_sizes),
    "headers": lambda columns, _: _headers(columns.buffer, len(columns.offsets), columns.headers),
}
_FROM_RECORDS: dict[str, _FromRecords] = {
    "topic": lambda records: _binaries(pa.string(), [record.topic.encode() for record in records]),
    "partition": _integers("partition", pa.int32(), "i4"),
    "offset": _integers("offset", pa.int64(), "i8"),
    "timestamp": _integers("timestamp", _TIMESTAMP, "i8"),
    "timestamp_type": _integers("timestamp_type", pa.int32(), "i4"),
    "key": lambda records: _binaries(pa.binary(), [record.key for record in records]),
    "value": lambda records: _binaries(pa.binary(), [record.value for record in records]),
    "headers": _header_lists,
}
