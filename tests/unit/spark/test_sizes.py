"""How large records are, asked of an embedded broker, and what tasks become of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, Producer
from kclient.admin import NewTopic
from kclient.errors import ConfigurationError
from kclient.spark import session, sizes
from kclient.spark.directory import Directory
from kclient.spark.options import Use, parse
from kclient.spark.planning import Range
from kclient.spark.source import KafkaDataSource
from kclient.testing.running import RunningBroker


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with RunningBroker() as broker:
        yield broker
        session.close_all()


def create(
    running: RunningBroker, topic: str, partitions: int, count: int, size: int, **options: Any
) -> None:
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.create_topics(NewTopic(topic, partitions))
    with Producer(bootstrap_servers=running.bootstrap_servers, **options) as producer:
        for partition in range(partitions):
            producer.send_many(topic, [bytes(size)] * count, partition=partition)


def directory(running: RunningBroker) -> Directory:
    options = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "x"}
    return Directory(parse(options, Use.BATCH_READ))


def reader(running: RunningBroker, topic: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": topic, **options}
    source = KafkaDataSource({name.lower(): value for name, value in given.items()})
    return source.reader(source.schema())


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_size_of_records_is_found_whatever_it_is_and_however_compressed(
    codec: str, running: RunningBroker
) -> None:
    for topic, count, size in (("small", 50, 10), ("medium", 50, 3_000), ("large", 3, 300_000)):
        create(running, topic, 2, count, size, compression_type=codec)
    ranges = [Range(topic, number, 1, 50) for topic in ("small", "medium", "large") for number in (0, 1)]

    found = directory(running).record_sizes(ranges)

    assert 10 < found["small"] < 40
    assert 3_000 < found["medium"] < 3_050
    assert 300_000 < found["large"] < 300_100


def test_large_records_are_spread_over_tasks(running: RunningBroker) -> None:
    create(running, "t", 6, 20, 50_000)

    tasks = reader(running, "t", **{"kclient.bytesPerTask": "1m"}).partitions()

    assert [len(task.ranges) for task in tasks] == [1] * 6
    assert len(reader(running, "t", **{"kclient.bytesPerTask": "3m"}).partitions()) == 2
    assert len(reader(running, "t", **{"kclient.bytesPerTask": "0"}).partitions()) == 1
    with pytest.raises(ConfigurationError, match=r"bytesPerTask='-1' must be a size: .* or 0"):
        reader(running, "t", **{"kclient.bytesPerTask": "-1"})
    assert len(reader(running, "t").partitions()) == 1


def test_what_is_known_is_not_asked_again_until_it_is_old(
    running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(running, "t", 2, 5, 100)
    asked: list[Any] = []
    ask, now = sizes._ask, 1000.0

    def counted(starts: Any, *rest: Any) -> Any:
        asked.append(starts)
        return ask(starts, *rest)

    monkeypatch.setattr(sizes, "_ask", counted)
    monkeypatch.setattr(sizes, "monotonic", lambda: now)
    places, ranges = directory(running), [Range("t", 0, 0, 5), Range("t", 1, 0, 5)]
    first = places.record_sizes(ranges)["t"]
    assert places.record_sizes(ranges)["t"] == first
    assert len(asked) == 1
    now += sizes._LIFETIME
    assert places.record_sizes([Range("t", 1, 5, 9)])["t"] == first, "nothing new was found out"
    assert len(asked) == 2


def test_of_many_topics_some_are_asked_and_the_others_the_next_time(
    running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def nothing(starts: Any, *_: Any) -> dict[Any, Any]:
        asked.append(starts)
        return {}

    monkeypatch.setattr(sizes, "_ask", nothing)
    places = directory(running)
    ranges = [Range(f"t{number:02}", part, 0, 100 + part) for number in range(10) for part in range(4)]

    for _ in range(2):
        places.record_sizes(ranges)
    places.record_sizes([*ranges, *(Range(f"u{number:02}", 0, 0, 10) for number in range(20))])
    places.record_sizes([Range(f"u{number:02}", 0, 0, 10) for number in range(20)])

    assert [len(starts) for starts in asked] == [16, 16, 4]
    assert {key.topic for key in asked[0]} == {f"t{number:02}" for number in range(10)}
    assert {key.partition for key in asked[0]} == {3, 2}


def test_a_topic_that_cannot_be_looked_at_is_packed_by_records(
    running: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(running, "t", 2, 5, 100)
    monkeypatch.setattr(sizes, "_PATIENCE_MS", 50.0)
    with caplog.at_level(logging.DEBUG, logger="kclient.spark.sizes"):
        found = directory(running).record_sizes([Range("gone", 0, 0, 5), Range("t", 0, 999, 1005)])

    assert found == {}
    assert "the size of records is not known of gone-0" in caplog.text
    assert "the size of records is not known of t-0" in caplog.text
