"""Option by option, a stream through `format("kclient")` has the rows and batches of `format("kafka")`.

Most queries read what is there and end; a few run on while records, partitions and topics are added.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from confluent_kafka.cimpl import NewPartitions

from tests.spark.parity.sides import BOTH, OURS, THEIRS, Sides
from tests.spark.parity.topics import PATIENCE, SIZES, START, Topics
from tools.kafka.waiting import poll

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

ALL = sum(SIZES)
PLAIN = {"subscribe": "$plain", "startingOffsets": "earliest"}
BY_TIME = f'{{"$plain":{{"0":{START + 50_000},"1":{START},"2":{START + 5_500}}}}}'
# What is read, the number of rows.
CASES: dict[str, tuple[dict[str, str], int]] = {
    "startingOffsets, the default": ({"subscribe": "$plain"}, 0),
    "startingOffsets, by partition": (
        {"assign": '{"$plain":[0,1,2]}', "startingOffsets": '{"$plain":{"0":50,"1":-1,"2":-2}}'},
        10 + 7,
    ),
    "startingTimestamp": (
        {
            "subscribePattern": "$prefix-pl.*",
            "startingTimestamp": str(START + 20_000),
            "startingOffsetsByTimestampStrategy": "latest",
            "includeHeaders": "true",
        },
        40 + 10,
    ),
    "startingOffsetsByTimestamp": (
        {
            **PLAIN,
            "startingOffsetsByTimestamp": BY_TIME,
        },
        10 + 30 + 1,
    ),
    "maxOffsetsPerTrigger": ({**PLAIN, "maxOffsetsPerTrigger": "40", "minPartitions": "4"}, ALL),
    "minOffsetsPerTrigger": ({**PLAIN, "minOffsetsPerTrigger": "200", "maxTriggerDelay": "1h"}, ALL),
    "kafka.isolation.level": (
        {**PLAIN, "subscribe": "$committed", "kafka.isolation.level": "read_committed"},
        10,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_both_read_the_same_rows_in_the_same_batches(case: str, sides: Sides, tmp_path: Path) -> None:
    options, count = CASES[case]
    theirs, ours = (sides.streamed(side, options, tmp_path / side) for side in BOTH)
    assert ours == theirs
    assert len(ours.rows) == sum(ours.batches) == count


@pytest.mark.parametrize("fail", ["true", "false"])
def test_both_meet_lost_records_the_same_way(fail: str, sides: Sides, tmp_path: Path) -> None:
    topic = sides.topics.create(f"loses-{fail}", 1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": fail}
    sides.topics.produce(f"loses-{fail}", 0, 10)
    for side in BOTH:
        assert len(sides.streamed(side, options, tmp_path / side).rows) == 10
    sides.topics.produce(f"loses-{fail}", 0, 10)
    sides.topics.delete_before(f"loses-{fail}", 0, 15)
    if fail == "true":
        for side in BOTH:
            with pytest.raises(Exception):  # noqa: B017 - each has errors of its own
                sides.streamed(side, options, tmp_path / side)
    else:
        theirs, ours = (sides.streamed(side, options, tmp_path / side) for side in BOTH)
        assert ours == theirs
        assert len(ours.rows) == 5


def test_ours_goes_on_from_a_checkpoint_of_theirs(sides: Sides, tmp_path: Path) -> None:
    topic = sides.topics.create("moves", 2)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    for partition in (0, 1):
        sides.topics.produce("moves", partition, 5)
    before = sides.streamed(THEIRS, options, tmp_path)
    sides.topics.produce("moves", 1, 3)
    after = sides.streamed(OURS, options, tmp_path)
    assert (len(before.rows), before.batches) == (10, [10])
    assert [row[3:5] for row in after.rows] == [(1, 5), (1, 6), (1, 7)]


@pytest.mark.parametrize("new", [3, 0])
def test_theirs_goes_on_from_a_checkpoint_of_ours_without_topic_ids(
    new: int, sides: Sides, tmp_path: Path
) -> None:
    """One micro-batch takes the ids out of a checkpoint, also where there is nothing to read."""
    name, checkpoint, copy = f"moves-back-{new}", tmp_path / "checkpoint", tmp_path / "copy"
    options = {"subscribe": sides.topics.create(name, 2), "startingOffsets": "earliest"}
    for partition in (0, 1):
        sides.topics.produce(name, partition, 5)
    before = sides.streamed(OURS, options, checkpoint)
    copytree(checkpoint, copy)
    if new:
        sides.topics.produce(name, 1, new)
    after = sides.streamed(OURS, {**options, "kclient.topicIds": "false"}, checkpoint)
    sides.topics.produce(name, 0, 2)
    last = sides.streamed(THEIRS, options, checkpoint)

    assert (len(before.rows), len(after.rows)) == (10, new)
    assert [row[3:5] for row in last.rows] == [(0, 5), (0, 6)]
    with pytest.raises(Exception):  # noqa: B017 - theirs cannot read the ids
        sides.streamed(THEIRS, options, copy)


def test_both_see_what_comes_while_they_run(sides: Sides, tmp_path: Path) -> None:
    """Too few records for a batch wait for the delay; new partitions and topics begin at the start."""
    topics = sides.topics
    topics.create("live-a", 1)
    topics.produce("live-a", 0, 5)
    options = {
        "subscribePattern": "$prefix-live-.*",
        "minOffsetsPerTrigger": "1000",
        "maxTriggerDelay": "200ms",
    }
    queries = [sides.start(side, options, tmp_path / side, processingTime="50 milliseconds") for side in BOTH]
    try:
        for query in queries:
            query.processAllAvailable()  # begins behind what is there
        topics.produce("live-a", 0, 4)
        grown = topics.admin.create_partitions([NewPartitions(topics.name("live-a"), 2)])
        grown[topics.name("live-a")].result(PATIENCE)
        topics.produce("live-a", 1, 3)
        topics.create("live-b", 1)
        topics.produce("live-b", 0, 2)
        theirs, ours = (_seen(sides, query, 9) for query in queries)
    finally:
        for query in queries:
            query.stop()
    assert ours == theirs
    assert {row[2:4] for row in ours} == _partitions(topics)


def _seen(sides: Sides, query: Any, count: int) -> list[Any]:
    rows: list[Any] = []

    def attempt() -> bool:
        assert query.exception() is None, str(query.exception())
        rows[:] = sides.seen(query)
        return len(rows) >= count

    poll(attempt, timeout=PATIENCE, failure=lambda: f"saw {len(rows)} of {count} rows")
    return rows


def _partitions(topics: Topics) -> set[tuple[str, int]]:
    return {(topics.name("live-a"), 0), (topics.name("live-a"), 1), (topics.name("live-b"), 0)}
