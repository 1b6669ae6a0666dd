"""Arrow tables and pandas frames as records: columns `value`, and where they are there `key`, `partition`,
`timestamp` and `headers`, as `AsyncConsumer.getarrow` and Spark name them. Other columns are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kclient.errors import ConfigurationError
from kclient.producer.many import Many

if TYPE_CHECKING:
    import pyarrow as pa


def many_from(topic: str, table: Any) -> Many:
    """The records of an Arrow table or record batch, or of a pandas frame."""
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
        found = table.column(name)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    keys, partitions, timestamps = column("key"), column("partition"), column("timestamp")
    headers = column("headers")
    value = column("value")
    assert value is not None
    return Many(
        topic,
        _objects(value),
        None if keys is None else _objects(keys),
        None if partitions is None else partitions.to_pylist(),
        None if timestamps is None else _milliseconds(timestamps),
        None if headers is None else [_headers(each) for each in headers.to_pylist()],
    )


def _objects(array: pa.Array[Any]) -> list[Any]:
    """Bytes where the column has text or bytes; else Python's objects, for a serializer."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(array.type):  # what pandas calls a category
        array = array.cast(array.type.value_type)
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        array = array.cast(pa.binary())
    elif pa.types.is_large_string(kind):
        array = array.cast(pa.large_binary())
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        objects: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return objects
    return array.to_pylist()


def _milliseconds(array: pa.Array[Any]) -> list[int]:
    import pyarrow as pa  # noqa: PLC0415

    if array.null_count:
        raise ValueError(f"column 'timestamp' has {array.null_count} nulls: leave it out, or fill it")
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    milliseconds: list[int] = array.cast(pa.int64()).to_numpy().tolist()
    return milliseconds


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(each["key"], each["value"]) if isinstance(each, dict) else each for each in headers or ()]
