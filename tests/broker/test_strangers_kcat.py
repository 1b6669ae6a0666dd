"""kcat lists, produces to and consumes from the broker. `make test` tries to install it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.broker.conftest import Stage
from tests.broker.librdkafka import PATIENCE, produce_at

_KCAT = shutil.which("kcat") or shutil.which("kafkacat")

pytestmark = pytest.mark.skipif(_KCAT is None, reason="kcat is not installed: try `make kcat`")


def kcat(servers: str, *args: str, stdin: str = "") -> str:
    assert _KCAT is not None
    done = subprocess.run(
        [_KCAT, "-b", servers, *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout


def read(servers: str, topic: str, *args: str) -> list[dict[str, Any]]:
    """What is there, as kcat describes it."""
    printed = kcat(servers, "-C", "-t", topic, "-e", "-q", "-J", *args)
    return [json.loads(line) for line in printed.splitlines()]


def test_brokers_topics_and_partitions_are_listed(broker: Stage, servers: str) -> None:
    broker.create_topic("made", partitions=3)

    printed = kcat(servers, "-L", "-J")

    listed = json.loads(printed)
    assert [node["name"] for node in listed["brokers"]] == [servers]
    (topic,) = listed["topics"]
    assert topic["topic"] == "made"
    assert [(part["partition"], part["leader"]) for part in topic["partitions"]] == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("broker", ["memory"], indirect=True)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_keys_headers_and_values_come_back(servers: str, codec: str, acks: str) -> None:
    options = ["-K", ":", "-H", "from=kcat", "-H", "empty=", "-z", codec, "-X", f"acks={acks}"]
    kcat(servers, "-P", "-t", "lines", *options, stdin="a:one\nb:two\n")

    records = read(servers, "lines")

    assert [(record["key"], record["payload"]) for record in records] == [("a", "one"), ("b", "two")]
    assert [record["offset"] for record in records] == [0, 1]
    assert records[0]["headers"] == ["from", "kcat", "empty", ""]


def test_a_null_is_no_empty_value(servers: str) -> None:
    kcat(servers, "-P", "-t", "nulls", "-K", ":", "-Z", stdin="gone:\nhere:x\n")

    assert [record["payload"] for record in read(servers, "nulls")] == [None, "x"]


def test_records_are_found_by_offset_and_by_time(servers: str) -> None:
    times = {f"{number}": 1_700_000_000_000 + number * 1000 for number in range(10)}
    produce_at(servers, "timed", times)

    from_offset = read(servers, "timed", "-o", "7")
    from_end = read(servers, "timed", "-o", "-2")
    between = read(servers, "timed", "-o", "s@1700000003000", "-o", "e@1700000006000")
    queried = kcat(servers, "-Q", "-t", "timed:0:1700000004500")

    assert [record["payload"] for record in from_offset] == ["7", "8", "9"]
    assert [record["payload"] for record in from_end] == ["8", "9"]
    assert [record["payload"] for record in between] == ["3", "4", "5"]
    assert between[0]["ts"] == 1_700_000_003_000
    assert queried.split() == ["timed", "[0]", "offset", "5"]


def test_a_group_goes_on_where_it_stopped(broker: Stage, servers: str) -> None:
    broker.create_topic("grouped", partitions=3)
    group = ["-G", "strangers", "-e", "-q", "-X", "auto.offset.reset=earliest", "grouped"]

    kcat(servers, "-P", "-t", "grouped", "-K", ":", stdin="a:1\nb:2\nc:3\nd:4\n")
    first = kcat(servers, *group)
    kcat(servers, "-P", "-t", "grouped", "-K", ":", stdin="a:5\ne:6\n")
    second = kcat(servers, *group)

    assert sorted(first.split()) == ["1", "2", "3", "4"]
    assert sorted(second.split()) == ["5", "6"]
