"""The format msgpack: a map per struct, by the names of its fields. Needs the package msgpack."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType

from kclient.errors import ConfigurationError
from kclient.spark import plain
from kclient.spark.arrow_types import arrow_type
from kclient.spark.formats import Convert, one_by_one


def _msgpack() -> Any:
    try:
        import msgpack  # noqa: PLC0415 - only this format needs it
    except ImportError as error:
        raise ConfigurationError(
            "the format msgpack needs a package on every node: pip install 'kclient-kafka[msgpack]'"
        ) from error
    return msgpack


def decoder(kind: DataType, mode: str) -> Convert:
    unpack = _msgpack().unpackb
    change = plain.reader(kind, text=False)
    target = arrow_type(kind)

    def read(value: bytes) -> Any:
        # A timestamp of msgpack is a time, and keys of a map need not be text.
        return change(unpack(value, timestamp=3, strict_map_key=False))

    return lambda array: one_by_one(array, read, target, mode)


def encoder(kind: DataType) -> Convert:
    pack = _msgpack().packb
    change = plain.writer(kind, text=False)

    def encode(array: Any) -> Any:
        packed = [None if row is None else pack(change(row), datetime=True) for row in array.to_pylist()]
        return pa.array(packed, pa.binary())

    return encode
