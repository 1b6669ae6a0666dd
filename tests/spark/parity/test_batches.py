"""Option by option, a batch through `format("kclient")` has the rows that it has through `format("kafka")`.

The rows of docs/spark.md's table of options that a batch takes; `test_options` sees to it that none is
missing.
"""

from __future__ import annotations

import pytest

from tests.spark.parity.sides import BOTH, OURS, THEIRS, Sides
from tests.spark.parity.topics import COMPACTED, SIZES, START

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

ALL = sum(SIZES)
LATE = str(START + 5_500)
LATER = str(START + 20_000)  # the smallest partition has nothing as late
PLAIN = {"subscribe": "$plain"}
BY_TIME = f'{{"$plain":{{"0":{START + 50_000},"1":{START},"2":{START + 5_500}}}}}'
# What is read, the number of rows.
CASES: dict[str, tuple[dict[str, str], int]] = {
    "subscribe": (PLAIN, ALL),
    "subscribe, several": ({"subscribe": " $plain, $packed,"}, ALL + 100),
    "assign": ({"assign": '{"$plain":[2,0],"$packed":[0]}'}, 67 + 100),
    "subscribePattern": ({"subscribePattern": "$prefix-p.+"}, ALL + 100),
    "subscribePattern, not of internal topics": ({"subscribePattern": "__.*|$plain"}, ALL),
    "subscribePattern, of parts of names": ({"subscribePattern": "x*$prefix-p"}, ALL + 100),
    "names in any case": ({"SUBSCRIBE": "$plain", "endingoffsets": "LATEST"}, ALL),
    "startingOffsets, earliest": ({**PLAIN, "startingOffsets": "earliest"}, ALL),
    "startingOffsets, by partition": (
        {**PLAIN, "startingOffsets": '{"$plain":{"0":50,"1":-2,"2":5}}'},
        10 + 30 + 2,
    ),
    "endingOffsets, latest": ({**PLAIN, "endingOffsets": "latest"}, ALL),
    "endingOffsets, by partition": (
        {**PLAIN, "endingOffsets": '{"$plain":{"0":5,"1":-1,"2":0}}'},
        5 + 30,
    ),
    "startingOffsets and endingOffsets": (
        {
            **PLAIN,
            "startingOffsets": '{"$plain":{"0":50,"1":10,"2":3}}',
            "endingOffsets": '{"$plain":{"0":59,"1":20,"2":3}}',
        },
        9 + 10,
    ),
    "startingOffsetsByTimestamp": ({**PLAIN, "startingOffsetsByTimestamp": BY_TIME}, 10 + 30 + 1),
    "startingTimestamp": ({**PLAIN, "startingTimestamp": LATE}, 54 + 24 + 1),
    "startingOffsetsByTimestampStrategy, latest": (
        {**PLAIN, "startingTimestamp": LATER, "startingOffsetsByTimestampStrategy": "latest"},
        40 + 10,
    ),
    "startingOffsetsByTimestampStrategy, latest, by partition": (
        {
            **PLAIN,
            "startingOffsetsByTimestamp": f'{{"$plain":{{"0":{START},"1":{LATER},"2":{LATER}}}}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
        60 + 10,
    ),
    "endingOffsetsByTimestamp": ({**PLAIN, "endingOffsetsByTimestamp": BY_TIME}, 50 + 0 + 6),
    "endingTimestamp": ({**PLAIN, "endingTimestamp": LATER}, 20 + 20 + 7),
    "precedence of starts": (
        {
            **PLAIN,
            "startingTimestamp": LATE,
            "startingOffsetsByTimestamp": BY_TIME,
            "startingOffsets": "earliest",
        },
        54 + 24 + 1,
    ),
    "precedence of times by partition": (
        {**PLAIN, "startingOffsetsByTimestamp": BY_TIME, "startingOffsets": "earliest"},
        10 + 30 + 1,
    ),
    "precedence of ends": (
        {
            **PLAIN,
            "endingTimestamp": LATER,
            "endingOffsetsByTimestamp": BY_TIME,
            "endingOffsets": "latest",
        },
        20 + 20 + 7,
    ),
    "failOnDataLoss, false": (
        {
            "subscribe": "$trimmed",
            "startingOffsets": '{"$trimmed":{"0":3,"1":15}}',
            "failOnDataLoss": "false",
        },
        10 + 5,
    ),
    "failOnDataLoss, false, an end behind the log's": (
        {
            **PLAIN,
            "endingOffsets": '{"$plain":{"0":60,"1":30,"2":8}}',
            "failOnDataLoss": "false",
            "kafkaConsumer.pollTimeoutMs": "300",
        },
        ALL,
    ),
    "failOnDataLoss, nothing lost": ({"subscribe": "$trimmed", "failOnDataLoss": "true"}, 10 + 20),
    "includeHeaders": ({**PLAIN, "includeHeaders": "true"}, ALL),
    "includeHeaders, from the middle": (
        {**PLAIN, "includeHeaders": "true", "startingOffsets": '{"$plain":{"0":7,"1":8,"2":4}}'},
        53 + 22 + 3,
    ),
    "includeHeaders, false": ({**PLAIN, "includeHeaders": "false"}, ALL),
    "kafka.isolation.level, read_committed": (
        {"subscribe": "$committed", "kafka.isolation.level": "read_committed"},
        10,
    ),
    "kafka.isolation.level, read_uncommitted": (
        {"subscribe": "$committed", "kafka.isolation.level": "read_uncommitted"},
        18,
    ),
    "groupIdPrefix": ({**PLAIN, "groupIdPrefix": "parity"}, ALL),
    "kafka.group.id": ({**PLAIN, "kafka.group.id": "parity"}, ALL),
    "kafkaConsumer.pollTimeoutMs": ({**PLAIN, "kafkaConsumer.pollTimeoutMs": "20000"}, ALL),
    "fetchOffset.numRetries": ({**PLAIN, "fetchOffset.numRetries": "1"}, ALL),
    "fetchOffset.retryIntervalMs": ({**PLAIN, "fetchOffset.retryIntervalMs": "1"}, ALL),
    "partition.metadata.cache.ttl.ms": ({**PLAIN, "partition.metadata.cache.ttl.ms": "1000"}, ALL),
    "properties of a consumer": (
        {**PLAIN, "kafka.max.partition.fetch.bytes": "300", "kafka.client.id": "parity"},
        ALL,
    ),
    "limits of a stream": (
        {**PLAIN, "maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1s"},
        ALL,
    ),
    "every codec": ({"subscribe": "$packed"}, 100),
    "times of the broker": ({"subscribe": "$appended"}, 5),
    "compacted": ({"subscribe": "$compacted"}, len(COMPACTED)),
    "compacted, from a gap to a gap": (
        {
            "subscribe": "$compacted",
            "startingOffsets": '{"$compacted":{"0":5}}',
            "endingOffsets": '{"$compacted":{"0":30}}',
        },
        1,
    ),
    "empty": ({"subscribe": "$empty"}, 0),
    "empty beside others": ({"subscribe": "$empty,$plain"}, ALL),
}
SPLIT: dict[str, dict[str, str]] = {
    "minPartitions": {**PLAIN, "minPartitions": "10"},
    "minPartitions, fewer than there are": {**PLAIN, "minPartitions": "2"},
    "minPartitions and maxRecordsPerPartition": {
        **PLAIN,
        "minPartitions": "7",
        "maxRecordsPerPartition": "40",
    },
}


@pytest.mark.parametrize("case", CASES)
def test_both_read_the_same_rows(case: str, sides: Sides) -> None:
    options, count = CASES[case]
    theirs, ours = (sides.rows(side, options) for side in BOTH)
    assert ours == theirs
    assert len(ours) == count


@pytest.mark.parametrize("case", SPLIT)
def test_both_split_partitions_the_same(case: str, sides: Sides) -> None:
    assert sides.tasks(OURS, SPLIT[case]) == sides.tasks(THEIRS, SPLIT[case])
    assert sides.rows(OURS, SPLIT[case]) == sides.rows(THEIRS, PLAIN)


@pytest.mark.parametrize("headers", ["true", "false"])
@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_both_have_the_same_schema(headers: str, streaming: bool, sides: Sides) -> None:
    options = {**PLAIN, "includeHeaders": headers}
    theirs, ours = (sides.load(side, options, streaming=streaming) for side in BOTH)
    assert ours.schema == theirs.schema
    assert len(ours.schema) == (8 if headers == "true" else 7)
