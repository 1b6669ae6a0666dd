"""Formats: both ways give back what went in, both parsers of JSON agree, malformed records are named."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from kclient.errors import ConfigurationError
from kclient.spark import formats, json_format
from kclient.spark.arrow_types import arrow_type
from kclient.spark.ddl import data_type
from kclient.spark.malformed import MalformedRecordError

EVERYTHING = """id bigint, small smallint, price double, name string, yes boolean, day date, at timestamp,
    local timestamp_ntz, raw binary, amount decimal(12,2), tags array<string>, counts map<string,int>,
    inner struct<a: int, b: array<struct<c: string>>>"""
ROWS: list[Any] = [
    {
        "id": 1 << 40,
        "small": -5,
        "price": 1.5,
        "name": "é",
        "yes": True,
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
        "local": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001 - that is what it is for
        "raw": b"\x00\xff",
        "amount": Decimal("12.50"),
        "tags": ["a", None],
        "counts": [("x", 1)],
        "inner": {"a": 1, "b": [{"c": "d"}]},
    },
    None,
    dict.fromkeys(("id", "small", "price", "name", "yes", "day", "at", "local", "raw", "amount", "tags"))
    | {"counts": None, "inner": None},
]


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_what_was_encoded_is_decoded(name: str) -> None:
    kind = data_type(EVERYTHING)
    array = pa.array(ROWS, arrow_type(kind))
    encoded = formats.encoder(name, kind)(array).cast(pa.binary())
    found = formats.decoder(name, kind)(encoded)
    assert found.type == array.type
    assert found.to_pylist() == array.to_pylist()


def test_json_is_what_spark_writes() -> None:
    kind = data_type("a int, b string, raw binary, m map<int,string>")
    row = {"a": 1, "b": None, "raw": b"\x00", "m": [(1, "x")]}
    assert formats.encoder("json", kind)(pa.array([row], arrow_type(kind))).to_pylist() == [
        '{"a":1,"raw":"AA==","m":{"1":"x"}}'
    ]


def texts(random: Random) -> list[str | None]:
    """JSON of many kinds, some of it not of the schema, some of it not JSON at all."""
    plain = [
        {"id": random.choice([1, -(1 << 62), None]), "name": random.choice(["a", "é\n", "}", None])},
        {"id": 1, "price": random.choice([1, 2.5, 1e300]), "more": {"x": [1, {"y": 2}]}},
        {"inner": {"yes": True, "numbers": [1, None, 3]}, "name": '"}\n{"v":'},
        {},
        None,
    ]
    return [None if random.random() < 0.1 else json.dumps(random.choice(plain)) for _ in range(50)]


MALFORMED = [
    "",
    "{",
    "nonsense",
    '{"id": "text"}',
    '{"id": 1.5}',
    '{"id": 99999999999999999999}',
    '{"name": 5}',
    '{"inner": {"yes": 1}}',
    '{"inner": [1]}',
    "[1]",
    "1",
    '{"id": 1}{"id": 2}',
    '{"id": 1}\n{"v":{"id": 2}}',
    '{"id": 1}}\n{"v":{"id": 2}',
    '{"id": 1',
    '"abc',
]
SHALLOW = "id bigint, name string, price double, inner struct<yes: boolean, numbers: array<int>>"


@pytest.mark.parametrize("seed", range(10))
def test_both_parsers_of_json_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = pa.array(texts(Random(seed))).cast(pa.binary())
    decode = formats.decoder("json", data_type(SHALLOW))
    quick = decode(array)
    assert json_format._all_at_once(array, quick.type) is not None
    monkeypatch.setattr(json_format, "_FEW", 1 << 40)
    plain = decode(array)
    assert quick.type == plain.type
    assert quick.to_pylist() == plain.to_pylist()


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("around", [2, 30])
def test_a_malformed_record_is_named_or_null(text: str, around: int) -> None:
    kind = data_type(SHALLOW)
    values = ['{"id": 7}'] * around + [text] + ['{"id": 8}'] * around
    array = pa.array(values).cast(pa.binary())
    with pytest.raises(MalformedRecordError) as failure:
        formats.decoder("json", kind)(array)
    assert failure.value.row == around
    found = formats.decoder("json", kind, "permissive")(array).to_pylist()
    assert [row and row["id"] for row in found] == [7] * around + [None] + [8] * around


@pytest.mark.parametrize("around", [2, 30])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("a string", b'{"a":"\\ud800"}'),
        ("a string", b'{"a":"\xff"}'),
        ("a string", b'{"b":"\xff"}'),
        ("a decimal(4,2)", b'{"a":123.45}'),
        ("a decimal(4,2)", b'{"a":"NaN"}'),
        ("a array<int>", b"[" * 100_000),
        ("a map<int,string>", b'{"a":{"x":"y"}}'),
    ],
    ids=["surrogate", "not utf8", "not utf8, unused", "too long", "nan", "too deep", "key"],
)
def test_a_value_that_its_type_has_no_room_for_is_malformed(kind: str, value: bytes, around: int) -> None:
    array = pa.array([*[b"{}"] * around, value, *[b"{}"] * around])
    with pytest.raises(MalformedRecordError) as failure:
        formats.decoder("json", data_type(kind))(array)
    assert failure.value.row == around
    found = formats.decoder("json", data_type(kind), "permissive")(array).to_pylist()
    assert found == [*[{"a": None}] * around, None, *[{"a": None}] * around]


def test_decimals_keep_their_digits_and_are_rounded_as_by_spark() -> None:
    values = [b"1234567890123456789012345678.1234567891", b'"12345678901234567890.5"', b"7", b"0.12345678905"]
    assert formats.decoder("json", data_type("decimal(38,10)"))(pa.array(values)).to_pylist() == [
        Decimal("1234567890123456789012345678.1234567891"),
        Decimal("12345678901234567890.5"),
        Decimal(7),
        Decimal("0.1234567891"),
    ]


def test_keys_of_maps_come_back_as_what_they_were() -> None:
    kind = data_type("a map<int,string>, b map<boolean,int>, c map<double,int>, d map<date,int>")
    row = {"a": [(1, "x")], "b": [(True, 1)], "c": [(1.5, 2)], "d": [(date(2026, 1, 2), 3)]}
    array = pa.array([row], arrow_type(kind))
    encoded = formats.encoder("json", kind)(array)
    assert encoded.to_pylist() == [
        '{"a":{"1":"x"},"b":{"true":1},"c":{"1.5":2},"d":{"2026-01-02":3}}',
    ]
    assert formats.decoder("json", kind)(encoded.cast(pa.binary())).to_pylist() == array.to_pylist()


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_keys_that_are_no_simple_values_are_refused_before_the_first_record(name: str) -> None:
    for make in (formats.encoder, formats.decoder):
        with pytest.raises(ConfigurationError, match="make it an array of structs"):
            make(name, data_type("map<struct<a:int>,int>"))


def test_numbers_that_json_has_not_are_texts_as_in_spark() -> None:
    kind = data_type("array<double>")
    array = pa.array([[1.5, float("nan"), float("inf"), float("-inf")]])
    encoded = formats.encoder("json", kind)(array)
    assert encoded.to_pylist() == ['[1.5,"NaN","Infinity","-Infinity"]']
    found = formats.decoder("json", kind)(encoded.cast(pa.binary())).to_pylist()
    assert str(found) == "[[1.5, nan, inf, -inf]]"


def test_two_halves_of_a_record_are_not_one() -> None:
    """One value that begins a record and one that ends it would have the right count between others."""
    array = pa.array([b'{"id": 1}'] * 20 + [b'{"name":"a', b'b"}', b'{"id": 1}}\n{"v":{"id": 2}'])
    with pytest.raises(MalformedRecordError) as failure:
        formats.decoder("json", data_type("id bigint, name string"))(array)
    assert failure.value.row == 20


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("id bigint not null", "{}", "the field 'id' is required and missing"),
        ("id tinyint", '{"id": 200}', "200 is no tinyint"),
        ("at timestamp", '{"at": "soon"}', "Invalid isoformat"),
        ("day date", '{"day": 5}', "5 is no date"),
        ("raw binary", '{"raw": "?"}', "base64"),
        ("amount decimal(5,2)", '{"amount": "x"}', r"'x' is no decimal\(5,2\)"),
        ("array<int>", '{"a": 1}', "is no array"),
    ],
)
def test_what_is_wrong_is_said(kind: str, text: str, reason: str) -> None:
    with pytest.raises(MalformedRecordError, match=reason):
        formats.decoder("json", data_type(kind))(pa.array([text.encode()]))


def test_msgpack_that_is_none_is_named() -> None:
    kind = data_type("id bigint")
    good = formats.encoder("msgpack", kind)(pa.array([{"id": 1}], arrow_type(kind)))[0].as_py()
    array = pa.array([good, b"\xc1", None, b"\x01"], pa.binary())
    with pytest.raises(MalformedRecordError, match="row 1"):
        formats.decoder("msgpack", kind)(array)
    found = formats.decoder("msgpack", kind, "permissive")(array)
    assert found.to_pylist() == [{"id": 1}, None, None, None]


def test_text_is_utf8() -> None:
    array = pa.array([b"a", None, b"\xff", "é".encode()], pa.binary())
    with pytest.raises(MalformedRecordError, match="row 2"):
        formats.decoder("string", StringType())(array)
    assert formats.decoder("string", StringType(), "permissive")(array).to_pylist() == ["a", None, None, "é"]
    assert formats.decoder("string", StringType())(array[:2]).to_pylist() == ["a", None]


def test_text_is_written_from_whatever_has_one() -> None:
    assert formats.encoder("string", IntegerType())(pa.array([1, None, -3])).to_pylist() == ["1", None, "-3"]
    array = pa.array([b"a"], pa.binary())
    assert formats.encoder("string", BinaryType())(array) is array
    with pytest.raises(ConfigurationError, match="give the column the format json"):
        formats.encoder("string", data_type("a int"))


def test_binary_is_as_it_is() -> None:
    array = pa.array([b"\xff", None], pa.binary())
    assert formats.decoder("binary", BinaryType())(array) is array
    assert formats.encoder("binary", BinaryType())(array) is array
    with pytest.raises(ConfigurationError, match="bigint cannot be written as it is"):
        formats.encoder("binary", LongType())
    with pytest.raises(ConfigurationError, match="the schema says string"):
        formats.decoder("binary", StringType())


def test_the_type_of_a_column_comes_from_format_and_schema() -> None:
    assert formats.data_type("binary", None) == BinaryType()
    assert formats.data_type("String", None) == StringType()
    assert isinstance(formats.data_type("json", "id int"), StructType)
    for name, schema, message in (
        ("json", None, "needs a schema"),
        ("string", "id int", "has no schema"),
        ("avro", None, "known are binary, string, json, msgpack"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            formats.data_type(name, schema)


def test_types_are_those_that_spark_wants() -> None:
    kind = data_type(EVERYTHING + ", b tinyint not null, i int, f float")
    assert arrow_type(kind) == to_arrow_type(kind, timezone="UTC")
