"""Formats of keys and values: bytes to columns with real types on the way in, and back on the way out.

`FORMATS` is the registry, by the names that `keyFormat` and `valueFormat` take. A format that needs more than
a schema (those of a Schema Registry: avro, protobuf, jsonschema) is one more entry: it is given the type, and
answers functions from Arrow arrays to Arrow arrays. The reader calls `decoder`, the sink `encoder`, the
schema `data_type`; nothing here knows Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType

from kclient.errors import ConfigurationError
from kclient.spark import ddl
from kclient.spark.malformed import MalformedRecordError

Convert = Callable[[Any], Any]
FAIL, PERMISSIVE = "failfast", "permissive"


class Format(Protocol):
    """One format."""

    def data_type(self, schema: str | None) -> DataType:
        """The type of the column, from the option `keySchema` or `valueSchema` where the format needs it."""

    def decoder(self, kind: DataType, mode: str) -> Convert:
        """From an array of bytes to one of the type; what is malformed raises, or is null if permissive."""

    def encoder(self, kind: DataType) -> Convert:
        """From an array of the type to one of bytes. Raises `ConfigurationError` for a type it cannot."""


class Binary:
    """Bytes as they are; text is written as UTF-8."""

    def data_type(self, schema: str | None) -> DataType:
        return _without_schema("binary", schema, BinaryType())

    def decoder(self, kind: DataType, mode: str) -> Convert:  # noqa: ARG002 - no bytes are malformed
        _check("binary", kind, BinaryType())
        return lambda array: array

    def encoder(self, kind: DataType) -> Convert:
        if not isinstance(kind, (BinaryType, StringType)):
            raise ConfigurationError(
                f"a column of type {kind.simpleString()} cannot be written as it is: cast it to string or "
                "binary, or give it a format: string, json or msgpack"
            )
        return lambda array: array


class Text:
    """UTF-8. Written from whatever has a text: strings, numbers, booleans, dates."""

    def data_type(self, schema: str | None) -> DataType:
        return _without_schema("string", schema, StringType())

    def decoder(self, kind: DataType, mode: str) -> Convert:
        _check("string", kind, StringType())

        def decode(array: Any) -> Any:
            try:
                return array.cast(pa.string())
            except pa.ArrowInvalid:
                return one_by_one(array, lambda value: value.decode(), pa.string(), mode)

        return decode

    def encoder(self, kind: DataType) -> Convert:
        if kind.typeName() in ("struct", "array", "map", "variant"):
            raise ConfigurationError(f"{kind.simpleString()} has no text: give the column the format json")
        return lambda array: array if pa.types.is_binary(array.type) else array.cast(pa.string())


_MALFORMED = (ValueError, TypeError, KeyError, OverflowError, ArithmeticError, RecursionError)


def one_by_one(array: Any, read: Convert, target: Any, mode: str) -> Any:
    """What `read` makes of every value that is not null; what it refuses raises, or is null if permissive.

    What Arrow has no room for in the type (a decimal too long, half of a surrogate pair) is refused as well.
    """
    try:
        return pa.array(_read_all(array, read, mode), target)
    except _MALFORMED:

        def tried(value: bytes) -> Any:  # Arrow does not say which one it refuses
            found = read(value)
            pa.array([found], target)
            return found

        return pa.array(_read_all(array, tried, mode), target)


def _read_all(array: Any, read: Convert, mode: str) -> list[Any]:
    found: list[Any] = []
    for row, value in enumerate(array.to_numpy(zero_copy_only=False).tolist()):
        try:
            found.append(None if value is None else read(value))
        except _MALFORMED as error:
            if mode == FAIL:
                raise MalformedRecordError(row, str(error) or type(error).__name__) from error
            found.append(None)
    return found


def _without_schema(name: str, schema: str | None, kind: DataType) -> DataType:
    if schema is not None:
        raise ConfigurationError(
            f"the format {name} has no schema, but {schema!r} was given: leave it out, or use json or msgpack"
        )
    return kind


def _check(name: str, kind: DataType, wanted: DataType) -> None:
    if kind != wanted:
        raise ConfigurationError(
            f"the format {name} makes a column of type {wanted.simpleString()}, "
            f"the schema says {kind.simpleString()}"
        )


@dataclass(frozen=True)
class Described:
    """A format whose type a schema describes; its code is in a module that is imported on first use."""

    name: str
    module: str

    def data_type(self, schema: str | None) -> DataType:
        if schema is None:
            raise ConfigurationError(
                f"the format {self.name} needs a schema: give keySchema or valueSchema, for example "
                "'id bigint, name string', or a whole schema with .schema(…)"
            )
        return ddl.data_type(schema)

    def decoder(self, kind: DataType, mode: str) -> Convert:
        found: Convert = import_module(self.module).decoder(kind, mode)
        return found

    def encoder(self, kind: DataType) -> Convert:
        found: Convert = import_module(self.module).encoder(kind)
        return found


FORMATS: dict[str, Format] = {
    "binary": Binary(),
    "string": Text(),
    "json": Described("json", "kclient.spark.json_format"),
    "msgpack": Described("msgpack", "kclient.spark.msgpack_format"),
}


def named(name: str) -> Format:
    """The format of a name."""
    found = FORMATS.get(name.strip().lower())
    if found is None:
        raise ConfigurationError(f"there is no format {name!r}: known are {', '.join(FORMATS)}")
    return found


def data_type(name: str, schema: str | None) -> DataType:
    """The type of a column in a format.

    >>> data_type("json", "id bigint, price double").simpleString()
    'struct<id:bigint,price:double>'
    """
    return named(name).data_type(schema)


def decoder(name: str, kind: DataType, mode: str = FAIL) -> Convert:
    """From an array of bytes to one of the type. Raises `MalformedRecordError`, unless permissive."""
    return named(name).decoder(kind, mode)


def encoder(name: str, kind: DataType) -> Convert:
    """From an array of the type to one of bytes or text."""
    return named(name).encoder(kind)
