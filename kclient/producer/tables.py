"""Arrow tables and pandas frames as records: columns `value`, and where they are there `key`, `partition`,
`timestamp` and `headers`, as `AsyncConsumer.getarrow` and Spark name them. Other columns are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from kclient.errors import ConfigurationError
from kclient.producer.many import Many
from kclient.records.packed import LONGEST, Block, Packed, longest

if TYPE_CHECKING:
    import pyarrow as pa

    from kclient.producer.config import ProducerConfig

# Fewer records than this are sent faster as objects.
_FEW = 48


def many_from(topic: str, table: Any, config: ProducerConfig) -> Many:
    """The records of an Arrow table or record batch, or of a pandas frame.

    A serializer is given what its column has; without one, text becomes bytes.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - only those who have tables pay for the import
    except ImportError as error:
        raise ConfigurationError("tables need pyarrow: pip install 'kclient-kafka[arrow]'") from error
    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        table = pa.Table.from_pandas(table, preserve_index=False)
    if "value" not in table.column_names:
        raise ValueError(f"the table has the columns {table.column_names}: 'value' is missing")

    def column(name: str) -> pa.Array[Any] | None:
        if name not in table.column_names:
            return None
        found: Any = table.column(name)
        return cast("pa.Array[Any]", _in_one(found) if isinstance(found, pa.ChunkedArray) else found)

    partitions, timestamps, headers = column("partition"), column("timestamp"), column("headers")
    value = column("value")
    assert value is not None
    key = column("key")
    if config.value_serializer is None:
        value = _as_binary(value)
    if key is not None and config.key_serializer is None:
        key = _as_binary(key)
    untouched = headers is None and not (config.key_serializer or config.value_serializer)
    keys, values = _payloads(key, value, packed=untouched and len(value) >= _FEW)
    return Many(
        topic,
        values,
        keys,
        None if partitions is None else partitions.to_pylist(),
        None if timestamps is None else _milliseconds(timestamps, packed=isinstance(values, Packed)),
        None if headers is None else [_headers(each) for each in headers.to_pylist()],
    )


def _in_one(column: Any) -> Any:
    """All chunks of a column as one array, or as they are where Python's objects are made of it anyway."""
    import pyarrow as pa  # noqa: PLC0415

    if column.num_chunks == 1:  # to combine is to copy
        return column.chunk(0)
    if pa.types.is_nested(column.type):
        return column
    if _passes(column.nbytes):
        large = _large(column.type)
        column = column if large is None else column.cast(large)
    return column.combine_chunks()


def _passes(size: int) -> bool:
    """Whether so many bytes may be too many for the 32-bit offsets of one array."""
    from kclient.records.arrow import COLUMN_BYTES  # noqa: PLC0415 - imports pyarrow

    return size > COLUMN_BYTES


def _large(kind: Any) -> Any:
    """The type with 64-bit offsets for texts and bytes; None for others."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else None


def _payloads(
    keys: pa.Array[Any] | None, values: pa.Array[Any], *, packed: bool
) -> tuple[Sequence[Any] | None, Sequence[Any]]:
    """Keys and values: left where they are if both are bytes of moderate length, else Python's objects."""
    import pyarrow as pa  # noqa: PLC0415

    if packed and all(
        column is None or (pa.types.is_binary(column.type) and longest(column) <= LONGEST)
        for column in (keys, values)
    ):
        packed_keys, packed_values = Block(keys, values).columns()
        return None if keys is None else packed_keys, packed_values
    return None if keys is None else _objects(keys), _objects(values)


def _as_binary(array: pa.Array[Any]) -> pa.Array[Any]:
    """Text as its UTF-8; what is neither text nor bytes as it is."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(array.type):  # what pandas calls a category
        array = _spelled_out(array)
    kind = array.type
    if pa.types.is_string(kind):
        array = array.cast(pa.binary())
    elif pa.types.is_string_view(kind):
        # To 64 bits first: a cast to 32 wraps around without a word.
        large = array.cast(pa.large_binary())
        array = large if _passes(large.nbytes) else large.cast(pa.binary())
    elif pa.types.is_large_string(kind):
        array = array.cast(pa.large_binary())
    return array


def _spelled_out(array: Any) -> Any:
    """Every row of a dictionary with what it stands for."""
    import pyarrow.compute as pc  # noqa: PLC0415

    values, indices = array.dictionary, array.indices
    large = _large(values.type)
    if large is not None and _passes(pc.sum(pc.binary_length(values).take(indices)).as_py() or 0):
        return values.cast(large).take(indices)
    return values.take(indices)


def _objects(array: Any) -> list[Any]:
    """Bytes where the column has bytes; else Python's objects, for a serializer."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        objects: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return objects
    found: list[Any] = array.to_pylist()
    return found


def _milliseconds(array: pa.Array[Any], *, packed: bool) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    if array.null_count:
        raise ValueError(f"column 'timestamp' has {array.null_count} nulls: leave it out, or fill it")
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    milliseconds = array.cast(pa.int64()).to_numpy()
    return milliseconds if packed else milliseconds.tolist()


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(each["key"], each["value"]) if isinstance(each, dict) else each for each in headers or ()]
