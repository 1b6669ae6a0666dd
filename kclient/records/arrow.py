"""Decoded records as Arrow batches, and Arrow columns as records to encode.

Payloads are copied once: all fields of a batch are one binary array laid over its buffer, from which the
wanted ones are taken. Called by `batch` and by the producer's `send_arrow`; importing it imports pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "records as Arrow batches need pyarrow: pip install 'kclient-kafka[arrow]'", name="pyarrow"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kclient.records.columns import Columns, HeaderColumns
    from kclient.records.objects import BytesRecord, Origin

    Int64s = NDArray[np.int64]

_HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("item", _HEADER, nullable=False))
_NO_HEADERS = pa.array([], _HEADER)
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


def arrow_batch(columns: Columns, origin: Origin) -> pa.RecordBatch:
    """The records of one batch with the columns of `SCHEMA`."""
    return _arrow(columns, origin, np.full(len(columns.offsets), origin.timestamp_type, np.int32))


def arrow_batches(parts: Sequence[tuple[Columns, Origin]]) -> pa.RecordBatch:
    """The records of several batches of one partition, in order, as one Arrow batch.

    Batches that lie in one buffer, as uncompressed ones of one fetch do, are copied once for all.
    """
    joined = _joined([columns for columns, _ in parts])
    if joined is None:
        return concat_batches([arrow_batch(columns, origin) for columns, origin in parts])
    kinds = np.array([origin.timestamp_type for _, origin in parts], np.int32)
    counts = [len(columns.offsets) for columns, _ in parts]
    return _arrow(joined, parts[0][1], kinds.repeat(counts))


def _arrow(columns: Columns, origin: Origin, timestamp_types: NDArray[np.int32]) -> pa.RecordBatch:
    count = len(columns.offsets)
    keys, values = _take(
        columns.buffer,
        (columns.key_starts, columns.key_sizes),
        (columns.value_starts, columns.value_sizes),
    )
    arrays = [
        _repeated_text(origin.topic.encode(), count),
        pa.array(np.full(count, origin.partition, np.int32)),
        pa.array(columns.offsets),
        _numbers(_TIMESTAMP, columns.timestamps),
        pa.array(timestamp_types),
        keys,
        values,
        _headers(columns.buffer, count, columns.headers),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _joined(parts: Sequence[Columns]) -> Columns | None:
    """The columns of batches in one buffer as those of one batch; None if they are not that simple."""
    whole = parts[0].buffer.obj
    if any(part.buffer.obj is not whole or part.headers is not None for part in parts):
        return None
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


def arrow_from_records(records: Sequence[BytesRecord]) -> pa.RecordBatch:
    """Records of any batches, in order, with the columns of `SCHEMA`.

    Dearer per record than `arrow_batch` and cheaper per batch: the way for many small batches.
    """
    columns: list[list[Any]] = [
        [record.topic for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.timestamp for record in records],
        [int(record.timestamp_type) for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [record.headers for record in records],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of all batches, in order, as one batch; an empty one for no batches."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, SCHEMA).combine_chunks()
    return next(iter(table.to_batches()), None) or pa.RecordBatch.from_pylist([], SCHEMA)


def _numbers(kind: pa.DataType, items: NDArray[np.generic]) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(items.data)])


def _repeated_text(text: bytes, count: int) -> pa.Array[Any]:
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(ends.data), pa.py_buffer(text * count)]
    )


def _take(
    buffer: memoryview, first: tuple[Int64s, Int64s], second: tuple[Int64s, Int64s]
) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Two fields of every record, of which the first comes first. Sizes of -1 become nulls."""
    same = _of_one_size(buffer, *first), _of_one_size(buffer, *second)
    if same[0] is not None and same[1] is not None:
        return same[0], same[1]
    count = len(first[0])
    # first, gap, second, gap of each record: the end of each is the start of the next.
    bounds = np.empty(4 * count + 1, np.int32)
    for place, (starts, sizes) in zip((0, 2), (first, second), strict=True):
        bounds[place:-1:4] = starts
        bounds[place + 1 :: 4] = starts + np.maximum(sizes, 0)
    bounds[-1] = bounds[-2] if count else 0
    laid = pa.Array.from_buffers(
        pa.binary(), 4 * count, [None, pa.py_buffer(bounds.data), pa.py_buffer(buffer)]
    )
    taken = []
    for place, (_, sizes) in zip((0, 2), (first, second), strict=True):
        null = sizes < 0
        wanted: pa.Array[Any] = pa.array(np.arange(place, 4 * count, 4), mask=null if null.any() else None)
        taken.append(laid.take(wanted))
    return taken[0], taken[1]


def _of_one_size(buffer: memoryview, starts: Int64s, sizes: Int64s) -> pa.Array[Any] | None:
    """Fields that are all of one size, copied without looking at each; None for others."""
    size = int(sizes[0]) if len(sizes) else 0
    if size < 1 or not (sizes == size).all():
        return None
    # Items that overlap, one beginning at every byte.
    every = np.ndarray((len(buffer) - size + 1,), np.dtype((np.void, size)), buffer, strides=(1,))
    ends = np.arange(0, (len(sizes) + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(ends.data), pa.py_buffer(every[starts].data)]
    )


def _headers(buffer: memoryview, count: int, headers: HeaderColumns | None) -> pa.Array[Any]:
    ends = np.zeros(count + 1, np.int32)
    items = _NO_HEADERS
    if headers is not None:
        np.cumsum(np.bincount(headers.records, minlength=count), out=ends[1:])
        keys, values = _take(
            buffer, (headers.key_starts, headers.key_sizes), (headers.value_starts, headers.value_sizes)
        )
        items = pa.StructArray.from_arrays([_text(keys), values], fields=list(_HEADER))
    places: Any = _numbers(pa.int32(), ends)
    lists: pa.Array[Any] = pa.ListArray.from_arrays(places, items, type=_HEADERS)
    return lists


def _text(raw: pa.Array[Any]) -> pa.Array[Any]:
    """Header keys as text; what is not UTF-8 is replaced, as it is in `Record` objects."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [item.decode(errors="replace") for item in raw.to_pylist() if item is not None], pa.string()
        )
