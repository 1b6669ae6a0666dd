"""The format json. Two ways in that must agree on what they both know: Arrow's parser, which takes a whole
batch at once, and Python's, record by record, which knows every type and says which record is malformed.

Arrow's parser is asked first where the types have one meaning in both; whatever it refuses, Python's decides.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import json as arrow_json
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from kclient.spark import plain
from kclient.spark.arrow_types import arrow_type
from kclient.spark.formats import Convert, one_by_one

# Fewer records than this are read faster one by one.
_FEW = 16
_BEGIN, _BETWEEN, _END = b'{"v":', b'}\n{"v":', b"}\n"


def decoder(kind: DataType, mode: str) -> Convert:
    change = plain.reader(kind, text=True)
    target = arrow_type(kind)
    together = _alike_in_arrow(kind)
    # A decimal that has been a float on its way is another one.
    loads = partial(json.loads, parse_float=Decimal) if _has_decimals(kind) else json.loads

    def read(value: bytes) -> Any:
        return change(loads(value))

    def decode(array: Any) -> Any:
        if together and len(array) >= _FEW:
            found = _all_at_once(array, target)
            if found is not None:
                return found
        return one_by_one(array, read, target, mode)

    return decode


def _all_at_once(array: Any, target: Any) -> Any | None:
    """What Arrow's parser makes of all records; None where it refuses one, or finds more or fewer.

    A record cannot be split and another joined to it, so that the count would be right by accident: what
    joins two records must hold a raw line break within a string, which is not JSON.
    """
    try:
        array.cast(pa.string())  # checks what Arrow's parser does not: that texts are UTF-8
    except pa.ArrowInvalid:
        return None
    values = array.fill_null(b"null") if array.null_count else array
    data = b"".join((_BEGIN, _BETWEEN.join(values.to_numpy(zero_copy_only=False).tolist()), _END))
    parsing = arrow_json.ParseOptions(
        explicit_schema=pa.schema([("v", target)]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    reading = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        source: Any = pa.BufferReader(data)
        table = arrow_json.read_json(source, reading, parsing)
    except pa.ArrowException:
        return None
    if table.num_rows != len(array) or table.column_names != ["v"]:
        return None
    column = table.column("v").combine_chunks()
    return column if column.type == target else column.cast(target)


def _alike_in_arrow(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        names = [field.name for field in kind.fields]
        fields = all(field.nullable and _alike_in_arrow(field.dataType) for field in kind.fields)
        return fields and len(set(names)) == len(names)
    if isinstance(kind, ArrayType):
        return kind.containsNull and _alike_in_arrow(kind.elementType)
    return isinstance(kind, BooleanType | DoubleType | FloatType | IntegerType | LongType | StringType)


def _has_decimals(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_decimals(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_decimals(kind.elementType)
    if isinstance(kind, MapType):
        return _has_decimals(kind.valueType)
    return isinstance(kind, DecimalType)


def encoder(kind: DataType) -> Convert:
    change = plain.writer(kind, text=True)
    dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def encode(array: Any) -> Any:
        return pa.array(
            [None if row is None else dumps(change(row)) for row in array.to_pylist()], pa.string()
        )

    return encode
