"""Case by case, rows written through `format("kclient")` land as those written through `format("kafka")`.

librdkafka reads what landed: keys, values, headers, whose time it is, and the partition where keys decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.spark.parity.sides import BOTH, OURS, THEIRS, Sides
from tests.support.readers import read_topic

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

PARTITIONS = 5
ROWS = 120
KEYED = ("concat('customer ', id % 37) as key", "concat('order ', id) as value")
HEADERS = "array(struct('a' as key, cast(id as string) as value), struct('a' as key, null as value))"
HEADER_TYPE = "array<struct<key:string,value:binary>>"
# The columns that are written, and the options.
CASES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "topic": (KEYED, {}),
    "topic, wins over the column": ((*KEYED, "'elsewhere' as topic"), {}),
    "bytes": (("cast(concat('k', id) as binary) as key", "cast(concat('v', id) as binary) as value"), {}),
    "null keys": (("cast(null as string) as key", "concat('order ', id) as value"), {}),
    "no keys": (("concat('order ', id) as value",), {}),
    "null values": (("concat('k', id) as key", "if(id % 2 = 0, 'v', null) as value"), {}),
    "empty keys and values": (("'' as key", "'' as value"), {}),
    "headers": ((*KEYED, f"cast({HEADERS} as {HEADER_TYPE}) as headers"), {"includeHeaders": "true"}),
    "headers, some null": (
        (*KEYED, f"if(id % 2 = 0, cast({HEADERS} as {HEADER_TYPE}), null) as headers"),
        {},
    ),
    "headers, empty": ((*KEYED, f"cast(array() as {HEADER_TYPE}) as headers"), {}),
    "partition": ((*KEYED, f"cast(id % {PARTITIONS} as int) as partition"), {}),
    "partition, some null": ((*KEYED, "if(id % 2 = 0, 3, null) as partition"), {}),
    "other columns": ((*KEYED, "id", "id as more"), {}),
    "properties of a producer": (
        KEYED,
        {"kafka.compression.type": "lz4", "kafka.acks": "1", "kafka.enable.idempotence": "false"},
    ),
    "kafka.partitioner.class": (
        KEYED,
        {"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
    ),
}
_KEYS_DO_NOT_DECIDE = ("null keys", "no keys", "kafka.partitioner.class")
REFUSED: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "no topic": (("'v' as value",), {}, "topic option required"),
    "no value": (("'v' as other",), {"topic": "$empty"}, "'value' not found"),
    "value, another type": (("id as value",), {"topic": "$empty"}, "'value'"),
    "key, another type": (("'v' as value", "id as key"), {"topic": "$empty"}, "'key'"),
    "topic, another type": (("'v' as value", "id as topic"), {}, "topic attribute type must be string"),
    "partition, another type": (
        ("'v' as value", "id as partition"),
        {"topic": "$empty"},
        "partition attribute",
    ),
    "headers, another type": (
        ("'v' as value", "array('h') as headers"),
        {"topic": "$empty"},
        "headers attribute",
    ),
    "topic, null": (("'v' as value", "cast(null as string) as topic"), {}, "null topic present"),
    "key.serializer": (
        ("'v' as value",),
        {"topic": "$empty", "kafka.key.serializer": "some.Class"},
        "key.serializer",
    ),
    "value.serializer": (
        ("'v' as value",),
        {"topic": "$empty", "kafka.value.serializer": "some.Class"},
        "value.serializer",
    ),
    "no servers": (
        ("'v' as value",),
        {"topic": "$empty", "kafka.bootstrap.servers": ""},
        "bootstrap.servers",
    ),
}

_numbers = count()


def write(rows: Any, sides: Sides, side: str, options: Mapping[str, str], mode: str = "append") -> None:
    rows.write.format(side).options(**sides.topics.options(options)).mode(mode).save()


def made(sides: Sides, side: str) -> str:
    return sides.topics.create(f"{side}-{next(_numbers)}", PARTITIONS)


def landed(sides: Sides, topic: str, rows: int, *, partitions: bool = True) -> list[tuple[Any, ...]]:
    """What a topic holds, in an order that does not depend on who was first."""
    found = read_topic(sides.topics.servers, topic, rows, PARTITIONS)
    return sorted(
        (
            each.partition if partitions else -1,
            each.key or b"",
            each.value or b"",
            each.key is None,
            each.value is None,
            repr(each.headers),
            each.stamped_by,
        )
        for each in found
    )


@pytest.mark.parametrize("case", CASES)
def test_both_write_the_same_records(case: str, sides: Sides) -> None:
    columns, options = CASES[case]
    rows = sides.spark.range(ROWS).selectExpr(*columns)
    found = []
    for side in BOTH:
        topic = made(sides, side)
        write(rows, sides, side, {"topic": topic, **options})
        found.append(landed(sides, topic, ROWS, partitions=case not in _KEYS_DO_NOT_DECIDE))
    assert found[1] == found[0]


def test_both_take_topics_from_a_column(sides: Sides) -> None:
    found = []
    for side in BOTH:
        one, other = made(sides, side), made(sides, side)
        rows = sides.spark.range(ROWS).selectExpr(*KEYED, f"if(id % 3 = 0, '{one}', '{other}') as topic")
        write(rows, sides, side, {})
        found.append((landed(sides, one, ROWS // 3), landed(sides, other, ROWS - ROWS // 3)))
    assert found[1] == found[0]


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_to_write_the_same(case: str, sides: Sides) -> None:
    columns, options, named = REFUSED[case]
    rows = sides.spark.range(2).selectExpr(*columns)
    with pytest.raises(Exception):  # noqa: B017 - Java's errors come in many classes
        write(rows, sides, THEIRS, options)
    with pytest.raises(Exception) as failure:
        write(rows, sides, OURS, options)
    assert named in str(failure.value)


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_both_refuse_the_mode(mode: str, sides: Sides) -> None:
    rows = sides.spark.sql("select 'v' as value")
    for side in BOTH:
        with pytest.raises(Exception, match=r"(?i)mode"):
            write(rows, sides, side, {"topic": "$empty"}, mode)


def test_ours_takes_the_time_from_a_column(sides: Sides) -> None:
    rows = sides.spark.sql("select 'v' as value, timestamp_millis(1234) as timestamp")
    times = []
    for side in BOTH:
        topic = made(sides, side)
        write(rows, sides, side, {"topic": topic})
        times.append(read_topic(sides.topics.servers, topic, 1, PARTITIONS)[0].timestamp)
    assert times[0] > times[1] == 1234


def test_ours_takes_the_names_of_columns_in_any_case(sides: Sides) -> None:
    rows, topic = sides.spark.sql("select 'v' as Value"), made(sides, OURS)
    with pytest.raises(Exception, match="'value' not found"):
        write(rows, sides, THEIRS, {"topic": topic})
    write(rows, sides, OURS, {"topic": topic})
    assert len(landed(sides, topic, 1)) == 1


def test_spark_lets_only_theirs_take_the_default_mode(sides: Sides) -> None:
    rows = sides.spark.sql("select 'v' as value")
    topic = made(sides, THEIRS)
    write(rows, sides, THEIRS, {"topic": topic}, "errorifexists")
    assert len(landed(sides, topic, 1)) == 1
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        write(rows, sides, OURS, {"topic": topic}, "errorifexists")


@pytest.fixture
def source(sides: Sides, tmp_path: Path) -> Any:
    """A stream of `ROWS` rows in three files."""
    files = str(tmp_path / "in")
    sides.spark.range(ROWS).repartition(3).write.parquet(files)
    return sides.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 2).parquet(files)


def run(writer: Any, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120), "the query did not end"


def written(stream: Any, sides: Sides, side: str, topic: str) -> Any:
    return stream.writeStream.format(side).options(**sides.topics.options({"topic": topic}))


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_both_write_a_stream_the_same(mode: str, sides: Sides, source: Any, tmp_path: Path) -> None:
    stream, expected = source.selectExpr(*KEYED), ROWS
    if mode == "complete":
        counted = source.selectExpr("id % 3 as key").groupBy("key").count()
        # Each of the two micro-batches writes the whole result.
        stream, expected = counted.selectExpr("cast(key as string) as key", "'v' as value"), 6
    found = []
    for side in BOTH:
        topic = made(sides, side)
        run(written(stream, sides, side, topic).outputMode(mode), tmp_path / side)
        found.append(landed(sides, topic, expected))
    assert found[1] == found[0]


def test_spark_lets_only_theirs_write_updates_but_ours_in_foreach_batch(
    sides: Sides, source: Any, tmp_path: Path
) -> None:
    counted = source.selectExpr("id % 3 as key").groupBy("key").count()
    stream = counted.selectExpr("cast(key as string) as key", "'v' as value")
    theirs, ours = made(sides, THEIRS), made(sides, OURS)
    run(written(stream, sides, THEIRS, theirs).outputMode("update"), tmp_path / THEIRS)
    with pytest.raises(Exception, match=r"(?i)update"):
        run(written(stream, sides, OURS, ours).outputMode("update"), tmp_path / "refused")

    def each(rows: Any, _: int) -> None:
        write(rows, sides, OURS, {"topic": ours})

    run(stream.writeStream.foreachBatch(each).outputMode("update"), tmp_path / OURS)
    assert landed(sides, ours, 6) == landed(sides, theirs, 6)
