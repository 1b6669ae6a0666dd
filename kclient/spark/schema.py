"""The columns of a read, as Spark names and types them, and what of them a user's schema asks for.

`default_schema` is what `schema()` answers; `wanted` checks the schema that a reader is made with. A format
(`kclient.spark.formats`) turns `key` or `value` from binary into the type that `formats.data_type` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kclient.errors import ConfigurationError
from kclient.spark.options import Options, Use, parse

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
# In the order of Spark's own source.
COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
FORMATTED = ("key", "value")


def default_schema(options: Mapping[str, str]) -> StructType:
    """The columns without a user's schema: those of Spark's own source, `headers` only on request."""
    parsed = parse(options, Use.ALL)
    return StructType(
        [
            StructField(name, formatted_type(parsed, name, kind))
            for name, kind in COLUMNS.items()
            if name != "headers" or parsed["includeHeaders"]
        ]
    )


def formatted_type(options: Options, name: str, plain: DataType) -> DataType:
    """The type of a column, which a format may change."""
    chosen = options[f"{name}Format"] if name in FORMATTED else None
    if chosen is None:
        if name in FORMATTED and options[f"{name}Schema"] is not None:
            raise ConfigurationError(
                f"{name}Schema is given without {name}Format, which says what the bytes are: json or msgpack"
            )
        return plain
    kind: DataType = import_module("kclient.spark.formats").data_type(chosen, options[f"{name}Schema"])
    return kind


def wanted(schema: StructType, options: Options) -> dict[str, StructField]:
    """The columns to read, by name, in the schema's order. Raises where they cannot be had."""
    found: dict[str, StructField] = {}
    for field in schema.fields:
        plain: Any = COLUMNS.get(field.name)
        if plain is None:
            raise ConfigurationError(
                f"there is no column {field.name!r} in Kafka's records: known are {', '.join(COLUMNS)}"
            )
        formatted = field.name in FORMATTED and options[f"{field.name}Format"] is not None
        if not formatted and field.dataType != plain:
            raise ConfigurationError(
                f"the column {field.name!r} is {plain.simpleString()}, the schema says "
                f"{field.dataType.simpleString()}: cast it in the query"
                + (f", or give {field.name}Format" if field.name in FORMATTED else "")
            )
        found[field.name] = field
    return found
