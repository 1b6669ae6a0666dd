"""What Spark's own connector refuses is refused by kclient too, and what only kclient does is pinned here.

Messages differ: ours has to name the option, or the thing, that is wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.parity.sides import BOTH, OURS, THEIRS, Sides
from tests.spark.parity.topics import SIZES, START

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

PLAIN = {"subscribe": "$plain"}
FUTURE = str(START + 10**9)
# What is given, and what our message names.
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no servers": ({**PLAIN, "kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers"),
    "nothing to read": ({}, "exactly one of assign, subscribe, subscribePattern"),
    "two ways to say what to read": (
        {**PLAIN, "subscribePattern": ".*"},
        "exactly one of assign, subscribe, subscribePattern",
    ),
    "assign, malformed": ({"assign": "$plain"}, "assign="),
    "subscribe, empty": ({"subscribe": " "}, "names no topic"),
    "subscribe, no such topic": ({"subscribe": "$prefix-none"}, "none"),
    "subscribePattern, blank": ({"subscribePattern": " "}, "is blank"),
    "subscribePattern, malformed": ({"subscribePattern": "("}, "no regular expression"),
    "startingOffsets, latest": ({**PLAIN, "startingOffsets": "latest"}, "startingOffsets cannot be latest"),
    "startingOffsets, -1": (
        {**PLAIN, "startingOffsets": '{"$plain":{"0":-1,"1":0,"2":0}}'},
        "startingOffsets cannot be latest",
    ),
    "startingOffsets, malformed": ({**PLAIN, "startingOffsets": "first"}, "startingOffsets='first'"),
    "startingOffsets, a partition that is not read": (
        {**PLAIN, "startingOffsets": '{"$plain":{"0":0,"1":0,"2":0,"3":0}}'},
        "names partition 3",
    ),
    "startingOffsets behind endingOffsets": (
        {
            **PLAIN,
            "startingOffsets": '{"$plain":{"0":50,"1":10,"2":3}}',
            "endingOffsets": '{"$plain":{"0":9,"1":20,"2":3}}',
        },
        "startingOffsets comes to offset 50, which lies behind 9",
    ),
    "endingOffsets, earliest": ({**PLAIN, "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
    "endingOffsets, -2": (
        {**PLAIN, "endingOffsets": '{"$plain":{"0":-2,"1":5,"2":5}}'},
        "endingOffsets cannot be earliest",
    ),
    "startingTimestamp, malformed": ({**PLAIN, "startingTimestamp": "noon"}, "startingTimestamp='noon'"),
    "endingTimestamp, malformed": ({**PLAIN, "endingTimestamp": "noon"}, "endingTimestamp='noon'"),
    "startingOffsetsByTimestampStrategy, error": (
        {**PLAIN, "startingTimestamp": FUTURE, "startingOffsetsByTimestampStrategy": "error"},
        "has no record at",
    ),
    "startingOffsetsByTimestampStrategy, the default": (
        {
            **PLAIN,
            "startingOffsetsByTimestamp": f'{{"$plain":{{"0":{START},"1":{START},"2":{FUTURE}}}}}',
        },
        "has no record at",
    ),
    "startingOffsetsByTimestampStrategy, neither": (
        {**PLAIN, "startingTimestamp": FUTURE, "startingOffsetsByTimestampStrategy": "first"},
        "startingOffsetsByTimestampStrategy='first'",
    ),
    "failOnDataLoss": (
        {"subscribe": "$trimmed", "startingOffsets": '{"$trimmed":{"0":3,"1":15}}'},
        "records before offset 10 were deleted",
    ),
    "failOnDataLoss, malformed": ({**PLAIN, "failOnDataLoss": "perhaps"}, "failOnDataLoss='perhaps'"),
    "includeHeaders, malformed": ({**PLAIN, "includeHeaders": "perhaps"}, "includeHeaders='perhaps'"),
    "kafkaConsumer.pollTimeoutMs": (
        {
            **PLAIN,
            "endingOffsets": '{"$plain":{"0":60,"1":30,"2":8}}',
            "kafkaConsumer.pollTimeoutMs": "300",
        },
        "the log ends at offset 7, endingOffsets says 8",
    ),
    "minPartitions, none": ({**PLAIN, "minPartitions": "0"}, "minPartitions='0'"),
    "maxRecordsPerPartition, none": ({**PLAIN, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition='0'"),
    **{
        name: ({**PLAIN, f"kafka.{name}": value}, f"kafka.{name}")
        for name, value in {
            "auto.offset.reset": "earliest",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "enable.auto.commit": "true",
            "interceptor.classes": "some.Interceptor",
        }.items()
    },
}
STREAMS_REFUSE: dict[str, tuple[dict[str, str], str]] = {
    "endingOffsets": ({**PLAIN, "endingOffsets": "latest"}, "'endingOffsets' is for a batch read"),
    "endingOffsetsByTimestamp": (
        {**PLAIN, "endingOffsetsByTimestamp": f'{{"$plain":{{"0":{FUTURE}}}}}'},
        "'endingOffsetsByTimestamp' is for a batch read",
    ),
    "startingOffsetsByTimestampStrategy, error": (
        {**PLAIN, "startingTimestamp": FUTURE},
        "has no record at",
    ),
    "maxOffsetsPerTrigger below minOffsetsPerTrigger": (
        {**PLAIN, "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"},
        "minOffsetsPerTrigger",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_the_same(case: str, sides: Sides) -> None:
    options, named = REFUSED[case]
    with pytest.raises(Exception):  # noqa: B017 - Java's errors come in many classes
        sides.rows(THEIRS, options)
    with pytest.raises(Exception) as failure:
        sides.rows(OURS, options)
    assert named in str(failure.value)


@pytest.mark.parametrize("case", STREAMS_REFUSE)
def test_both_refuse_the_same_for_a_stream(case: str, sides: Sides, tmp_path: Path) -> None:
    options, named = STREAMS_REFUSE[case]
    with pytest.raises(Exception):  # noqa: B017 - as above
        sides.streamed(THEIRS, options, tmp_path / THEIRS)
    with pytest.raises(Exception) as failure:
        sides.streamed(OURS, options, tmp_path / OURS)
    assert named in str(failure.value)


# Where ours differs on purpose: docs/spark.md has the list.
MORE: dict[str, tuple[dict[str, str], int]] = {
    "startingOffsets of some partitions": ({"startingOffsets": '{"$plain":{"0":50}}'}, 10 + 30 + 7),
    "endingOffsets of some partitions": ({"endingOffsets": '{"$plain":{"0":5}}'}, 5 + 30 + 7),
    "times of some partitions": (
        {"startingOffsetsByTimestamp": f'{{"$plain":{{"0":{START + 50_000}}}}}'},
        10 + 30 + 7,
    ),
}


@pytest.mark.parametrize("case", MORE)
def test_ours_takes_what_theirs_refuses(case: str, sides: Sides) -> None:
    options, count = MORE[case]
    with pytest.raises(Exception):  # noqa: B017 - as above
        sides.rows(THEIRS, {**PLAIN, **options})
    assert len(sides.rows(OURS, {**PLAIN, **options})) == count


def test_ours_takes_a_schema(sides: Sides) -> None:
    options = sides.topics.options(PLAIN)
    theirs, ours = (
        sides.spark.read.format(side).options(**options).schema("offset bigint, partition int")
        for side in BOTH
    )
    with pytest.raises(Exception, match="USER_SPECIFIED_AND_ACTUAL_SCHEMA_MISMATCH"):
        theirs.load()
    assert ours.load().columns == ["offset", "partition"]
    assert ours.load().where("partition = 1").count() == SIZES[1]


@pytest.mark.parametrize(
    ("options", "rows", "named"),
    [
        ({"assign": '{"$plain":[0,9]}'}, SIZES[0], "partition 9"),
        ({**PLAIN, "startingOffset": "latest"}, sum(SIZES), "did you mean 'startingOffsets'"),
    ],
    ids=["assign, no such partition", "no such option"],
)
def test_ours_refuses_what_theirs_skips(options: dict[str, str], rows: int, named: str, sides: Sides) -> None:
    assert len(sides.rows(THEIRS, options)) == rows
    with pytest.raises(Exception) as failure:
        sides.rows(OURS, options)
    assert named in str(failure.value)


def test_ours_refuses_an_end_of_a_stream_by_time(sides: Sides, tmp_path: Path) -> None:
    options = {**PLAIN, "endingTimestamp": FUTURE}
    assert sides.streamed(THEIRS, options, tmp_path / THEIRS).rows == []
    with pytest.raises(Exception, match="'endingTimestamp' is for a batch read"):
        sides.streamed(OURS, options, tmp_path / OURS)


def test_ours_splits_by_size_alone_in_a_batch(sides: Sides) -> None:
    options = {**PLAIN, "maxRecordsPerPartition": "25"}
    assert (sides.tasks(THEIRS, options), sides.tasks(OURS, options)) == (3, 3 + 2 + 1)
    assert sides.rows(OURS, options) == sides.rows(THEIRS, options)
