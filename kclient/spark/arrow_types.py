"""Arrow's types for Spark's, as Spark itself pairs them. Its own function for it differs between releases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kclient.errors import ConfigurationError

_SIMPLE: dict[type[DataType], Any] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    DateType: pa.date32(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    StringType: pa.string(),
    TimestampNTZType: pa.timestamp("us"),
    TimestampType: pa.timestamp("us", "UTC"),
}


def arrow_type(kind: DataType) -> Any:
    """The type of the array that Spark takes for a column."""
    if isinstance(kind, StructType):
        return pa.struct([_field(each.name, each.dataType, each.nullable) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(_field("element", kind.elementType, kind.containsNull))
    if isinstance(kind, MapType):
        key = _field("key", kind.keyType, nullable=False)
        return pa.map_(key, _field("value", kind.valueType, kind.valueContainsNull))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = _SIMPLE.get(type(kind))
    if found is None:
        raise ConfigurationError(f"kclient has no columns of type {kind.simpleString()}: cast it to string")
    return found


def _field(name: str, kind: DataType, nullable: bool) -> Any:
    return pa.field(name, arrow_type(kind), nullable)
