"""Between Python's plain objects, as JSON and msgpack have them, and the objects that Arrow takes for a type.

`reader` and `writer` are compiled once per type from closures, so that a record costs calls and no decisions.
Text formats have no dates, times, decimals and bytes: those are ISO 8601, numbers or text, and base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from math import isfinite
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kclient.errors import ConfigurationError

Change = Callable[[Any], Any]
# Spark has decimals of 38 digits, and rounds them like this.
_WIDE = Context(prec=76, rounding=ROUND_HALF_UP)
# What has no number in JSON, as Spark's to_json writes it.
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def reader(kind: DataType, *, text: bool) -> Change:
    """From a plain object to what Arrow takes. Raises `ValueError` or `TypeError` for what is none."""
    change = _reader(kind, text)
    return lambda value: None if value is None else change(value)


def _reader(kind: DataType, text: bool) -> Change:
    if isinstance(kind, StructType):
        return _struct_reader(kind, text)
    if isinstance(kind, ArrayType):
        element = reader(kind.elementType, text=text)
        return lambda value: [element(each) for each in _is(value, list, kind)]
    if isinstance(kind, MapType):
        key, item = _key_reader(kind.keyType, text), reader(kind.valueType, text=text)
        return lambda value: [(key(name), item(each)) for name, each in _is(value, dict, kind).items()]
    if isinstance(kind, IntegralType):
        return _whole(kind)
    if isinstance(kind, BinaryType) and not text:
        return lambda value: value if isinstance(value, bytes) else _is(value, str, kind).encode()
    found = _LEAVES.get(type(kind))
    if found is None:
        raise ConfigurationError(f"the format has no values of type {kind.simpleString()}")
    return lambda value: found(value, kind)


def _key_reader(kind: DataType, text: bool) -> Change:
    change = reader(_simple(kind), text=text)
    if text and isinstance(kind, BooleanType | DoubleType | FloatType | IntegralType):
        return lambda name: change(json.loads(name))  # the names of a JSON object are texts
    return change


def _simple(kind: DataType) -> DataType:
    if isinstance(kind, ArrayType | MapType | StructType):
        raise ConfigurationError(
            f"a map whose keys are {kind.simpleString()} has no form in json or msgpack: "
            "make it an array of structs, for example with map_entries"
        )
    return kind


def _struct_reader(kind: StructType, text: bool) -> Change:
    fields = [(field.name, reader(field.dataType, text=text)) for field in kind.fields]
    required = [field.name for field in kind.fields if not field.nullable]

    def read(value: Any) -> dict[str, Any]:
        get = _is(value, dict, kind).get
        for name in required:
            if get(name) is None:
                raise ValueError(f"the field {name!r} is required and missing")
        return {name: change(get(name)) for name, change in fields}

    return read


def _is(value: Any, wanted: type, kind: DataType) -> Any:
    if not isinstance(value, wanted):
        raise TypeError(f"{_short(value)} is no {kind.typeName()}")
    return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "…"


def _whole(kind: DataType) -> Change:
    most = 1 << (_BITS[kind.simpleString()] - 1)

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not -most <= value < most:
            raise ValueError(f"{_short(value)} is no {kind.simpleString()}")
        return value

    return read


def _number(value: Any, kind: DataType) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float | Decimal) or value in _NOT_FINITE):
        raise TypeError(f"{_short(value)} is no {kind.typeName()}")
    return float(value)


def _decimal(value: Any, kind: DataType) -> Decimal:
    assert isinstance(kind, DecimalType)
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise TypeError(f"{_short(value)} is no {kind.simpleString()}")
    try:
        return _WIDE.quantize(Decimal(str(value)), Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        raise ValueError(f"{_short(value)} is no {kind.simpleString()}") from None


def _string(value: Any, kind: DataType) -> str:
    return str(_is(value, str, kind))


def _time(value: Any, kind: DataType) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(_is(value, str, kind))
    if isinstance(kind, TimestampNTZType):
        return found.replace(tzinfo=None)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


_LEAVES: dict[type[DataType], Callable[[Any, DataType], Any]] = {
    BinaryType: lambda value, kind: base64.b64decode(_is(value, str, kind), validate=True),
    BooleanType: lambda value, kind: _is(value, bool, kind),
    DateType: lambda value, kind: date.fromisoformat(_is(value, str, kind)),
    DecimalType: _decimal,
    DoubleType: _number,
    FloatType: _number,
    StringType: _string,
    TimestampNTZType: _time,
    TimestampType: _time,
}


def writer(kind: DataType, *, text: bool) -> Change:
    """From what Arrow gives to a plain object. Fields that are null are left out of structs, as in Spark."""
    change = _writer(kind, text)
    return lambda value: None if value is None else change(value)


def _writer(kind: DataType, text: bool) -> Change:
    if isinstance(kind, StructType):
        fields = [(field.name, writer(field.dataType, text=text)) for field in kind.fields]
        return lambda row: {name: change(row[name]) for name, change in fields if row[name] is not None}
    if isinstance(kind, ArrayType):
        element = writer(kind.elementType, text=text)
        return lambda value: [element(each) for each in value]
    if isinstance(kind, MapType):
        item = writer(kind.valueType, text=text)
        key = _text_key(kind.keyType) if text else writer(_simple(kind.keyType), text=text)
        return lambda value: {key(name): item(each) for name, each in value}
    return _leaf_writer(kind, text)


def _leaf_writer(kind: DataType, text: bool) -> Change:
    if isinstance(kind, BinaryType) and text:
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, TimestampType) and not text:
        return lambda value: value.astimezone(UTC)
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return lambda value: value.isoformat()
    if isinstance(kind, DecimalType):
        return str
    if isinstance(kind, DoubleType | FloatType) and text:
        return lambda value: value if isfinite(value) else _spelled(value)
    if isinstance(kind, IntegralType | BinaryType | BooleanType | DoubleType | FloatType | StringType):
        return lambda value: value
    raise ConfigurationError(f"the format has no values of type {kind.simpleString()}")


def _spelled(value: float) -> str:
    return str(value).replace("nan", "NaN").replace("inf", "Infinity")


def _text_key(kind: DataType) -> Change:
    change = writer(_simple(kind), text=True)
    if isinstance(kind, BooleanType):
        return json.dumps
    return lambda value: str(change(value))
