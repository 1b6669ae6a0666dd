"""Rows of Spark as tables for a producer: which columns there are and of what type, and one table per topic.

`Plan` is made on the driver from the schema, so that what cannot be written fails before the first task, and
is used in workers, batch by batch. Columns are those of Spark's own sink, and `timestamp`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kclient.errors import ConfigurationError
from kclient.spark import formats
from kclient.spark.options import Options

_COLUMNS = ("value", "key", "headers", "topic", "partition", "timestamp")


class Plan:
    """How the rows of one schema become records."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._topic: str | None = options["topic"]
        types = _checked(schema, self._topic)
        # By name, for the worker: functions are made there, where they are used.
        self._encoded = {
            name: (options[f"{name}Format"] or "binary", types[name])
            for name in ("value", "key")
            if name in types
        }
        for name, (chosen, kind) in self._encoded.items():
            _encoder(name, chosen, kind)
        self._check_schemas(options)
        self._rest = [name for name in ("headers", "partition", "timestamp") if name in types]
        self._places = {field.name.lower(): place for place, field in enumerate(schema.fields)}

    def _check_schemas(self, options: Options) -> None:
        """A schema is not needed to write, as the column has one; where it is given it has to be that."""
        for name, (chosen, kind) in self._encoded.items():
            given = options[f"{name}Schema"]
            if given is not None:
                wanted = formats.data_type(chosen, given)
                if wanted.simpleString() != kind.simpleString():
                    raise ConfigurationError(
                        f"{name}Schema says {wanted.simpleString()}, the column {name!r} is "
                        f"{kind.simpleString()}: cast it, or leave the option out"
                    )

    def tables(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """A table per topic, in the order of its rows."""
        columns: dict[str, Any] = {
            name: _encoder(name, chosen, kind)(batch.column(self._places[name]))
            for name, (chosen, kind) in self._encoded.items()
        }
        columns |= {name: batch.column(self._places[name]) for name in self._rest}
        if "timestamp" in columns and columns["timestamp"].null_count:
            columns["timestamp"] = _filled(columns["timestamp"])
        table = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        if self._topic is not None:
            yield self._topic, table
        elif batch.num_rows:
            yield from _by_topic(batch.column(self._places["topic"]), table)


def _checked(schema: StructType, topic: str | None) -> dict[str, DataType]:
    """The types of the columns that mean something. Raises where Spark's own sink would, in its words."""
    types: dict[str, DataType] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name in types:
            raise ConfigurationError(f"there are two columns {name!r}: rename one of them")
        if name in _COLUMNS:
            types[name] = field.dataType
    if "value" not in types:
        raise ConfigurationError(
            f"Required attribute 'value' not found: the columns are {', '.join(schema.fieldNames())}; "
            "name one of them value, or make one, for example with to_json(struct('*')) as value"
        )
    if topic is None and "topic" not in types:
        raise ConfigurationError(
            "topic option required when no 'topic' attribute is present. "
            "Use the topic option for setting a topic."
        )
    _check_type(types, "topic", StringType)
    _check_type(types, "partition", IntegerType)
    _check_type(types, "timestamp", TimestampType, TimestampNTZType)
    headers = types.get("headers")
    if headers is not None and not _are_headers(headers):
        raise ConfigurationError(
            f"headers attribute type must be array<struct<key:string,value:binary>>, "
            f"not {headers.simpleString()}"
        )
    return types


def _check_type(types: dict[str, DataType], name: str, *wanted: type[DataType]) -> None:
    found = types.get(name)
    if found is not None and not isinstance(found, wanted):
        names = " or ".join(kind().simpleString() for kind in wanted)
        raise ConfigurationError(
            f"{name} attribute type must be {names}, not {found.simpleString()}: cast it"
        )


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    found = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return found == [("key", StringType), ("value", BinaryType)]


def _encoder(name: str, chosen: str, kind: DataType) -> formats.Convert:
    try:
        return formats.encoder(chosen, kind)
    except ConfigurationError as error:
        raise ConfigurationError(f"the column {name!r}: {error}") from None


def _filled(times: Any) -> Any:
    """Rows without a time of their own get the time at which they are written."""
    now = pa.scalar(time.time_ns() // 1000, pa.int64()).cast(pa.timestamp("us", times.type.tz))
    return times.cast(now.type).fill_null(now)


def _by_topic(topics: Any, table: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if topics.null_count:
        raise ConfigurationError(
            f"null topic present in the data ({topics.null_count} of {len(topics)} rows). "
            "Use the topic option for setting a topic."
        )
    coded = topics.dictionary_encode()
    names = coded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], table
        return
    codes = coded.indices.to_numpy()
    for code, name in enumerate(names):
        yield name, table.take(np.flatnonzero(codes == code))
