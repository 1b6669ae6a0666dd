"""Arrow batches: the same records as columns that Spark and pandas take as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings

from kclient.errors import ConfigurationError
from kclient.records import Codec, RecordBatch, Stamp, encode_batch, encode_sparse, read_batches
from kclient.records.arrow import SCHEMA, Part, arrow_batches, arrow_from_records, concat_batches, schema_of
from kclient.records.objects import Origin
from kclient.records.pieces import RecordTuple
from kclient.types import TimestampType
from tests.unit.records.building import DECODERS, NOW, batches, decoder, mixed, read_one, uniform, varied

PLACES = (("orders", 4), ("payments", 1), ("orders", 5), ("o", 0))


def _rows(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            (row["timestamp"] - epoch) // timedelta(milliseconds=1),
            row["timestamp_type"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in batch.to_pylist()
    ]


def _part(found: RecordBatch, origin: Origin) -> Part:
    columns = found.columns()
    return Part(columns, [(origin, len(columns.offsets))])


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("make", [uniform, varied, mixed])
@pytest.mark.parametrize("count", [1, 47, 300])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_arrow_holds_what_records_hold(
    name: str, make: Callable[[int], list[RecordTuple]], count: int, codec: Codec
) -> None:
    data = encode_batch(make(count), stamp=Stamp(base_offset=10), codec=codec)
    with decoder(name):
        found = read_one(data)
        batch = found.arrow("orders", 4)
        records = found.records("orders", 4)
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    assert _rows(batch) == [tuple(record[:8]) for record in records]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("make", [uniform, varied, mixed])
@pytest.mark.parametrize("count", [1, 300])
def test_columns_that_are_asked_for_are_those_of_the_whole(
    name: str, make: Callable[[int], list[RecordTuple]], count: int
) -> None:
    with decoder(name):
        found = read_one(encode_batch(make(count)))
        whole = found.arrow("orders", 4)
        for columns in ([only] for only in SCHEMA.names):
            assert found.arrow("orders", 4, columns) == whole.select(columns)
        some = ["value", "offset", "headers"]
        assert found.arrow("orders", 4, some) == whole.select(some)


@pytest.mark.parametrize("make", [uniform, varied, mixed])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_columns_of_several_batches_are_those_of_the_whole(
    make: Callable[[int], list[RecordTuple]], codec: Codec
) -> None:
    frame = b"".join(encode_batch(make(60), stamp=Stamp(base_offset=at), codec=codec) for at in (0, 60, 120))
    parts = [_part(found, Origin("orders", 4, found.timestamp_type, 7)) for found in read_batches(frame)]
    whole = arrow_batches(parts)
    assert _rows(whole) == [row for found in read_batches(frame) for row in _rows(found.arrow("orders", 4))]
    for columns in (["key"], ["headers", "topic"], ["timestamp_type", "value", "partition"]):
        assert arrow_batches(parts, schema_of(columns)) == whole.select(columns)


def test_batches_of_several_partitions_in_one_frame_become_one() -> None:
    made = (uniform(60), varied(200), mixed(50), uniform(70))
    frame = memoryview(b"".join(map(encode_batch, made)))
    origins = [Origin(topic, number, TimestampType(number % 2), 7) for topic, number in PLACES]
    parts = [_part(found, origin) for found, origin in zip(read_batches(frame), origins, strict=True)]
    rows = [row for each in parts for row in _rows(arrow_batches([each]))]
    joined = arrow_batches(parts)
    joined.validate(full=True)
    assert _rows(joined) == rows
    without_headers = arrow_batches(parts[:2])
    without_headers.validate(full=True)
    assert _rows(without_headers) == rows[:260]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["offset", "offsets"], "no column 'offsets'.*there are topic, partition, offset"),
        ([], "at least one"),
        (["key", "key"], "none twice"),
        ("key", r"as in \['key'\]"),
    ],
)
def test_columns_that_do_not_exist_are_refused(columns: list[str], complaint: str) -> None:
    found = read_one(encode_batch(uniform(3)))
    with pytest.raises(ConfigurationError, match=complaint):
        found.arrow("t", 0, columns)


@given(batches(most=120))
@settings(max_examples=40, deadline=None)
def test_columns_and_records_become_the_same_arrow(records: list[RecordTuple]) -> None:
    near = [(key, value, NOW, headers) for key, value, _, headers in records]
    with decoder("columns"):
        found = read_one(encode_batch(near))
        batch = found.arrow("t", 0)
    assert batch == arrow_from_records(found.records("t", 0))


def test_types_are_those_of_sparks_kafka_source() -> None:
    assert [(field.name, str(field.type)) for field in SCHEMA] == [
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[ms, tz=UTC]"),
        ("timestamp_type", "int32"),
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "list<item: struct<key: string not null, value: binary> not null>"),
    ]


def test_arrow_does_not_hold_on_to_the_frame() -> None:
    frame = bytearray(encode_batch(varied(300)))
    batch = next(read_batches(frame)).arrow("t", 0)
    # A buffer that anybody still looks at cannot be resized.
    frame.clear()
    assert batch.num_rows == 300


def test_batches_of_several_topics_become_one() -> None:
    first = read_one(encode_batch(mixed(5))).arrow("a", 0)
    second = read_one(encode_batch(uniform(300))).arrow("b", 1)
    joined = concat_batches([first, second])
    assert _rows(joined) == _rows(first) + _rows(second)
    assert concat_batches([first]) is first
    assert concat_batches([]).num_rows == 0
    assert concat_batches([]).schema == SCHEMA


def test_batches_with_gaps_and_without_records_become_arrow() -> None:
    gaps = list(zip(range(0, 600, 3), uniform(200), strict=True))
    assert read_one(encode_sparse(gaps, 1000)).arrow("t", 0)["offset"].to_pylist() == list(range(0, 600, 3))
    assert read_one(encode_sparse([], 3)).arrow("t", 0).num_rows == 0
