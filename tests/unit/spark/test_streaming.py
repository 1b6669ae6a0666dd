"""The stream reader as Spark calls it on the driver, against an embedded broker and without Java."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from kclient import Admin, Producer, TopicPartition
from kclient.admin import NewTopic
from kclient.errors import ConfigurationError
from kclient.spark import session
from kclient.spark.loss import DataLossError
from kclient.spark.offsets import IDS
from kclient.spark.source import KafkaDataSource
from kclient.testing.running import RunningBroker

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with RunningBroker(config={"offsets.topic.num.partitions": "1"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t", 2))
        yield broker
        session.close_all()


def write(running: RunningBroker, count: int, partition: int = 0) -> None:
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("t", b"%d" % number, partition=partition)


def reader(running: RunningBroker, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t", **options}
    source = KafkaDataSource({name.lower(): value for name, value in given.items() if value})
    return source.streamReader(source.schema())


def offsets(mark: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = mark["t"]
    return found


def test_a_stream_begins_at_the_end_and_asks_once(running: RunningBroker) -> None:
    write(running, 5)
    stream = reader(running)
    first = stream.initialOffset()
    write(running, 5)

    assert stream.initialOffset() == first
    assert offsets(first) == {"0": 5, "1": 0}
    assert list(first[IDS]) == ["t"]


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(8), ReadMinRows(1)])
def test_offsets_without_topic_ids_are_those_of_sparks_own_source(
    limit: ReadLimit, running: RunningBroker
) -> None:
    write(running, 5)
    limits = (
        {"maxOffsetsPerTrigger": "8"} if isinstance(limit, ReadMaxRows) else {"minOffsetsPerTrigger": "1"}
    )
    with_ids = reader(running, startingOffsets="earliest").initialOffset()
    stream = reader(running, startingOffsets="earliest", **limits, **{"kclient.topicIds": "false"})
    first = stream.initialOffset()
    end = stream.latestOffset(first, limit)

    assert IDS in with_ids
    assert (first, end) == ({"t": {"0": 0, "1": 0}}, {"t": {"0": 5, "1": 0}})
    assert stream.latestOffset(end, limit) == stream.reportLatestOffset() == end
    assert stream.latestOffset(end | {IDS: with_ids[IDS]}, limit) == end, "ids have to leave the checkpoint"
    assert [task.ranges[0].topic_id for task in stream.partitions(with_ids, end)] == [""]
    assert stream.partitions(end | {IDS: with_ids[IDS]}, end) == []


def test_limits_end_micro_batches_and_everything_is_read_at_last(running: RunningBroker) -> None:
    write(running, 30, 0)
    write(running, 10, 1)
    stream = reader(running, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    start = stream.initialOffset()
    assert stream.getDefaultReadLimit() == ReadMaxRows(8)

    ends = [start]
    for _ in range(10):
        ends.append(stream.latestOffset(ends[-1], ReadMaxRows(8)))

    assert offsets(ends[1]) == {"0": 6, "1": 2}
    assert offsets(stream.reportLatestOffset()) == {"0": 30, "1": 10}
    assert offsets(ends[-1]) == {"0": 30, "1": 10}
    assert json.dumps(ends[-1]) == json.dumps(ends[-2])  # by which Spark knows that there is nothing new
    assert offsets(stream.latestOffset(start, ReadAllAvailable())) == {"0": 30, "1": 10}


def test_too_few_records_are_not_a_micro_batch(running: RunningBroker) -> None:
    stream = reader(running, startingOffsets="earliest", minOffsetsPerTrigger="10")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    start = stream.initialOffset()
    stream.latestOffset(start, limit)
    write(running, 9)

    assert stream.latestOffset(start, limit) == start
    write(running, 1)
    assert offsets(stream.latestOffset(start, limit)) == {"0": 10, "1": 0}


def test_available_now_ends_where_the_log_ended_when_it_began(running: RunningBroker) -> None:
    write(running, 10)
    stream = reader(running, startingOffsets="earliest", minOffsetsPerTrigger="100")
    stream.prepareForTriggerAvailableNow()
    write(running, 10)
    start = stream.initialOffset()

    assert offsets(stream.latestOffset(start, ReadMinRows(100))) == {"0": 10, "1": 0}


def test_available_now_from_the_end_loses_nothing_that_comes_meanwhile(running: RunningBroker) -> None:
    write(running, 10)
    options = {"kafka.group.id": "g", "kclient.durableInitialOffsets": "true"}
    stream = reader(running, **options)
    stream.prepareForTriggerAvailableNow()
    write(running, 5)
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.create_partitions({"t": 3})
    start = stream.initialOffset()

    assert offsets(start) == {"0": 10, "1": 0}
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert stream.partitions(start, end) == []
    assert offsets(reader(running, **options).initialOffset()) == {"0": 10, "1": 0, "2": 0}


def test_tasks_get_their_ranges_from_a_copy_of_the_reader(running: RunningBroker) -> None:
    write(running, 10)
    stream = reader(running, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    (task,) = stream.partitions(start, end)

    (table,) = pickle.loads(pickle.dumps(stream)).read(task)

    assert table.num_rows == 10
    assert stream.partitions(end, end) == []


def test_partitions_that_are_new_begin_at_their_start(running: RunningBroker) -> None:
    stream = reader(running)
    start = stream.initialOffset()
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.create_partitions({"t": 3})
    write(running, 4, 2)
    end = stream.latestOffset(start, stream.getDefaultReadLimit())

    (task,) = stream.partitions(start, end)

    assert [(each.partition, each.start, each.end) for each in task.ranges] == [(2, 0, 4)]


def test_a_topic_made_again_ends_a_query_or_is_read_from_its_start(
    running: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    write(running, 10)
    strict, lenient = reader(running), reader(running, failOnDataLoss="false")
    start = strict.initialOffset()
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.delete_topics("t")
        admin.create_topics(NewTopic("t", 2))
    write(running, 3)
    end = strict.latestOffset(start, strict.getDefaultReadLimit())

    with pytest.raises(DataLossError, match="deleted and made again"):
        strict.partitions(start, end)
    with caplog.at_level(logging.WARNING):
        (task,) = lenient.partitions(start, end)
    assert [(each.start, each.end) for each in task.ranges] == [(0, 3)]


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_do_not_hide_a_topic_made_again_with_as_many_records(
    running: RunningBroker, limit: str
) -> None:
    write(running, 10)
    stream = reader(running, **{limit: "100"})
    start = stream.initialOffset()
    assert stream.latestOffset(start, stream.getDefaultReadLimit()) == start
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.delete_topics("t")
        admin.create_topics(NewTopic("t", 2))
    write(running, 10)

    end = stream.latestOffset(start, stream.getDefaultReadLimit())

    with pytest.raises(DataLossError, match="deleted and made again"):
        stream.partitions(start, end)


def test_limits_do_not_hide_that_a_topic_is_gone(running: RunningBroker) -> None:
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("t-more", 1))
        options = {"subscribe": "", "subscribePattern": "t.*", "maxOffsetsPerTrigger": "100"}
        stream = reader(running, **options)
        start = stream.initialOffset()
        admin.delete_topics("t-more")

    end = stream.latestOffset(start, stream.getDefaultReadLimit())

    with pytest.raises(DataLossError, match="deleted"):
        stream.partitions(start, end)


def test_initial_offsets_outlive_a_query_that_died(running: RunningBroker) -> None:
    options = {"kafka.group.id": "g", "kclient.durableInitialOffsets": "true"}
    write(running, 5)
    first = reader(running, **options).initialOffset()
    write(running, 5)

    assert reader(running, **options).initialOffset() == first
    assert offsets(reader(running).initialOffset()) == {"0": 10, "1": 0}


def test_what_spark_has_is_committed_for_the_group(running: RunningBroker) -> None:
    write(running, 5)
    options = {"kafka.group.id": "g", "kclient.commitOffsets": "true", "startingOffsets": "earliest"}
    stream = reader(running, **options)
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    stream.commit(end)

    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        committed = admin.list_consumer_group_offsets("g")
    assert {key: at.offset for key, at in committed.items() if at is not None} == {A: 5, B: 0}


@pytest.mark.parametrize("name", ["kclient.commitOffsets", "kclient.durableInitialOffsets"])
def test_committing_needs_a_group(running: RunningBroker, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"needs kafka\.group\.id"):
        reader(running, **{name: "true"})
