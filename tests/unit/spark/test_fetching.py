"""What tasks read from an embedded broker, without Spark's Java: every codec, gaps, ends, losses."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, DoubleType, StringType, StructField, StructType

from kclient import Admin, Producer
from kclient.admin import NewTopic
from kclient.broker.log.partition_log import PartitionLog
from kclient.consumer import arrow
from kclient.errors import ConfigurationError, DecompressionLimitError, KafkaError
from kclient.spark import fetch, session
from kclient.spark.loss import DataLossError
from kclient.spark.offsets import LATEST
from kclient.spark.planning import Task
from kclient.spark.source import KafkaDataSource
from kclient.testing.running import RunningBroker


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with RunningBroker(config={"offsets.topic.num.partitions": "1"}) as broker:
        yield broker
        session.close_all()


def create(running: RunningBroker, topic: str = "t", partitions: int = 1, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.create_topics(NewTopic(topic, partitions, configs=named))


def write(running: RunningBroker, numbers: range, partitions: int = 1, **options: Any) -> None:
    with Producer(bootstrap_servers=running.bootstrap_servers, **options) as producer:
        for number in numbers:
            producer.send("t", b"%d" % number, key=b"k%d" % number, partition=number % partitions)


def source(running: RunningBroker, **options: str) -> KafkaDataSource:
    given = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t", **options}
    return KafkaDataSource({name.lower(): value for name, value in given.items()})


def tables(running: RunningBroker, *columns: str, **options: str) -> list[pa.RecordBatch]:
    """All Arrow batches of a batch read."""
    found = source(running, **options)
    schema = found.schema()
    if columns:
        schema = StructType([field for field in schema.fields if field.name in columns])
    reader = found.reader(schema)
    return [table for task in reader.partitions() for table in reader.read(task)]


def values(batches: list[pa.RecordBatch]) -> list[int]:
    found: list[Any] = [value for table in batches for value in table.column("value").to_pylist()]
    return list(map(int, found))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(running: RunningBroker, codec: str) -> None:
    create(running)
    write(running, range(500), compression_type=codec)

    assert values(tables(running)) == list(range(500))


def test_what_a_compressed_batch_may_become_is_an_option(running: RunningBroker) -> None:
    create(running)
    with Producer(bootstrap_servers=running.bootstrap_servers, compression_type="zstd") as producer:
        producer.send("t", bytes(900_000)).result(30)

    named = r"raise .*decompressed\.batch\.max\.bytes.* \(topic t, partition 0, offset 0\)"
    with pytest.raises(DecompressionLimitError, match=named):
        tables(running, **{"kafka.decompressed.batch.max.bytes": "800000"})
    [table] = tables(running, **{"kafka.decompressed.batch.max.bytes": "1000000"})
    assert table.column("value")[0].as_py() == bytes(900_000)


def test_a_range_ends_and_begins_in_the_middle_of_batches(running: RunningBroker) -> None:
    create(running)
    write(running, range(1000))
    bounds = {"startingOffsets": '{"t":{"0":123}}', "endingOffsets": '{"t":{"0":877}}'}

    assert values(tables(running, **bounds)) == list(range(123, 877))
    assert values(tables(running, "value", **bounds, minPartitions="7")) == list(range(123, 877))


def test_small_answers_and_small_batches_give_the_same_records(running: RunningBroker) -> None:
    create(running, partitions=3)
    write(running, range(3000), 3)
    limits = {"kafka.max.partition.fetch.bytes": "2000", "kafka.fetch.max.bytes": "3000"}

    found = tables(running, **limits, **{"kclient.batchBytes": "1000"})

    assert sorted(values(found)) == list(range(3000))
    assert max(table.nbytes for table in found) <= 4000
    for number in range(3):
        offsets = [
            row["offset"] for table in found for row in table.to_pylist() if row["partition"] == number
        ]
        assert offsets == sorted(offsets)


def test_records_that_shrink_to_nothing_are_not_gathered_beyond_what_tables_may_have(
    running: RunningBroker,
) -> None:
    create(running)
    for _ in range(20):  # 1 MB each, in less than 1 kB
        with Producer(bootstrap_servers=running.bootstrap_servers, compression_type="zstd") as producer:
            producer.send_many("t", [bytes(50_000)] * 19)

    found = tables(running, "value", "offset")

    assert [row for table in found for row in table.column("offset").to_pylist()] == list(range(380))
    assert max(table.nbytes for table in found) < 4_000_000


def test_small_partitions_share_an_arrow_batch_and_large_ones_have_their_own(running: RunningBroker) -> None:
    create(running, partitions=40)
    write(running, range(400), 40)
    (small,) = tables(running)
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        producer.send_many("t", [b"%06d" % number * 100 for number in range(1000)], partition=7)
    found = tables(running)

    assert sorted(values([small])) == list(range(400))
    assert small.schema == found[0].schema
    assert max(table.num_rows for table in found) >= 1000
    assert len(found) <= 3
    read = [(row["partition"], row["offset"]) for table in found for row in table.to_pylist()]
    assert sorted(read) == [(n, at) for n in range(40) for at in range(1010 if n == 7 else 10)]
    assert [at for number, at in read if number == 7] == list(range(1010))


def test_a_batch_that_columns_cannot_hold_becomes_several_tables(
    running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "COLUMN_BYTES", 30_000)
    monkeypatch.setattr("kclient.spark.tables._SMALL", 0)
    create(running)
    sizes: dict[str, Any] = {"compression_type": "zstd", "batch_size": 1_000_000}
    with Producer(bootstrap_servers=running.bootstrap_servers, **sizes) as producer:
        producer.send_many("t", [b"%05d" % number * 200 for number in range(900)])
    bounds = {"startingOffsets": '{"t":{"0":123}}', "endingOffsets": '{"t":{"0":877}}'}

    found = tables(running, **bounds)
    read: list[Any] = [value for table in found for value in table.column("value").to_pylist()]

    assert [int(value[:5]) for value in read] == list(range(123, 877))
    assert max(table.num_rows for table in found) <= 30


def test_only_the_columns_of_the_schema_are_made(running: RunningBroker) -> None:
    create(running)
    write(running, range(10))

    (table,) = tables(running, "value", "offset")

    assert table.schema.names == ["value", "offset"]
    assert table.schema.types == [pa.binary(), pa.int64()]


def test_columns_are_required_where_the_schema_says_so(running: RunningBroker) -> None:
    create(running)
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        producer.send("t", b"v", key=b"k")
        producer.send("t", None, key=b"k")
    key, value = StructField("key", BinaryType(), False), StructField("value", BinaryType(), False)

    reader = source(running).reader(StructType([key]))
    (table,) = (table for task in reader.partitions() for table in reader.read(task))
    assert table.schema == pa.schema([pa.field("key", pa.binary(), nullable=False)])

    reader = source(running).reader(StructType([key, value]))
    with pytest.raises(KafkaError, match="the value of a record is null") as failure:
        [list(reader.read(task)) for task in reader.partitions()]
    assert "offset 1" in str(failure.value)


def test_a_schema_that_kafka_cannot_fill_is_refused(running: RunningBroker) -> None:
    found = source(running)

    with pytest.raises(ConfigurationError, match="there is no column 'price'"):
        found.reader(StructType([StructField("price", DoubleType())]))
    with pytest.raises(ConfigurationError, match="or give valueFormat"):
        found.reader(StructType([StructField("value", StringType())]))


def test_a_schema_of_values_needs_to_know_what_they_are(running: RunningBroker) -> None:
    with pytest.raises(ConfigurationError, match="valueSchema is given without valueFormat"):
        source(running, valueSchema="id bigint").schema()


def test_records_stamped_by_the_broker_say_so(running: RunningBroker) -> None:
    create(running, message_timestamp_type="LogAppendTime")
    write(running, range(3))

    (table,) = tables(running, "timestampType")

    assert table.to_pylist() == [{"timestampType": 1}] * 3


def test_topics_are_chosen_by_name_by_pattern_and_by_partition(running: RunningBroker) -> None:
    create(running, partitions=2)
    write(running, range(10), 2)

    def chosen(**options: str) -> list[int]:
        found = KafkaDataSource({"kafka.bootstrap.servers": running.bootstrap_servers, **options})
        reader = found.reader(found.schema())
        return sorted(values([table for task in reader.partitions() for table in reader.read(task)]))

    assert chosen(subscribe="t") == chosen(subscribepattern="[st]") == list(range(10))
    assert chosen(assign='{"t":[1]}') == [1, 3, 5, 7, 9]
    assert chosen(subscribepattern="nothing.*") == []
    with pytest.raises(KafkaError, match="topic missing"):
        chosen(subscribe="missing")
    with pytest.raises(ConfigurationError, match="exactly one of"):
        chosen(subscribe="t", assign='{"t":[1]}')


def test_times_bound_a_batch(running: RunningBroker) -> None:
    create(running)
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        for number in range(100):
            producer.send("t", b"%d" % number, partition=0, timestamp_ms=1000 + number)

    assert values(tables(running, startingTimestamp="1040", endingTimestamp="1050")) == list(range(40, 50))
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":1090}}'}
    assert values(tables(running, **by_partition)) == list(range(90, 100))
    with pytest.raises(ConfigurationError, match="no record at 9999 ms"):
        tables(running, startingTimestamp="9999")
    late = {"startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"}
    assert tables(running, **late) == []


def planned(running: RunningBroker, **options: str) -> tuple[Any, list[Task]]:
    found = source(running, **options)
    reader = found.reader(found.schema())
    return reader, reader.partitions()


def log_of(running: RunningBroker) -> PartitionLog:
    """The log of the one partition, to which a test does what time does to others."""
    (found,) = [state.log for state in running.broker._partitions() if state.topic == "t"]
    return found


def on_broker(running: RunningBroker, work: Callable[[], object]) -> None:
    async def call() -> None:
        work()

    running.call(call())


def delete_records(running: RunningBroker, before: int) -> None:
    on_broker(running, lambda: log_of(running).delete_before(before))


def test_records_deleted_after_planning_are_a_loss_with_its_cause(
    running: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    create(running)
    write(running, range(100))
    strict, tasks = planned(running)
    lenient, _ = planned(running, failOnDataLoss="false")
    delete_records(running, 40)

    with pytest.raises(DataLossError, match=r"records before offset 40 were deleted.*partition 0, offset 0"):
        list(strict.read(tasks[0]))
    with caplog.at_level(logging.WARNING):
        found = values(list(lenient.read(tasks[0])))

    assert found == list(range(40, 100))
    assert "records before offset 40 were deleted" in caplog.text


def test_a_topic_made_again_after_planning_is_told_by_its_id(running: RunningBroker) -> None:
    create(running)
    write(running, range(100))
    strict, tasks = planned(running)
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.delete_topics("t")
    create(running)
    write(running, range(100))

    with pytest.raises(DataLossError, match="deleted and made again"):
        list(strict.read(tasks[0]))


def test_a_log_that_was_cut_is_called_cut(
    running: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_SETTLING", 0.0)
    create(running)
    write(running, range(100))
    options = {"kafka.fetch.max.wait.ms": "10"}
    strict, tasks = planned(running, **options)
    lenient, _ = planned(running, **options, failOnDataLoss="false")
    on_broker(running, lambda: log_of(running).truncate(0))
    write(running, range(60))

    with pytest.raises(DataLossError, match=r"the log ends at offset 60, where it had reached 100 before"):
        list(strict.read(tasks[0]))
    with caplog.at_level(logging.WARNING):
        assert values(list(lenient.read(tasks[0]))) == list(range(60))
    assert "the log ends at offset 60" in caplog.text


def test_a_deleted_topic_is_called_deleted(running: RunningBroker) -> None:
    create(running)
    write(running, range(100))
    strict, tasks = planned(running)
    lenient, _ = planned(running, failOnDataLoss="false")
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        admin.delete_topics("t")

    with pytest.raises(DataLossError, match="was deleted"):
        list(strict.read(tasks[0]))
    assert list(lenient.read(tasks[0])) == []


def test_ends_behind_the_end_of_the_log_are_a_loss(
    running: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    create(running)
    write(running, range(10))
    ends = {"endingOffsets": '{"t":{"0":15}}'}

    with pytest.raises(DataLossError, match="the log ends at offset 10, endingOffsets says 15"):
        tables(running, **ends)
    with caplog.at_level(logging.WARNING):
        assert values(tables(running, **ends, failOnDataLoss="false")) == list(range(10))
    assert "endingOffsets says 15" in caplog.text


def test_a_process_has_one_session_and_a_forked_child_its_own(running: RunningBroker) -> None:
    create(running)
    write(running, range(10))
    kafka = {"bootstrap.servers": running.bootstrap_servers}
    tables(running)

    mine = session.session_for(kafka)
    assert session.session_for(dict(kafka)) is mine
    child = os.fork()
    if child == 0:
        os._exit(0 if session.session_for(kafka) is not mine and values(tables(running)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert values(tables(running)) == list(range(10))


def test_gaps_of_compaction_are_no_loss(running: RunningBroker) -> None:
    create(running, cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        for number in range(200):
            producer.send("t", b"%d" % number, key=b"k%d" % (number % 10), partition=0)
    on_broker(running, lambda: log_of(running).roll())
    write(running, range(200, 201))
    on_broker(running, lambda: log_of(running).compact(log_of(running).now_ms()))

    assert values(tables(running)) == list(range(190, 201))


def without_records(monkeypatch: pytest.MonkeyPatch, answers: int) -> None:
    """Have so many answers to fetches lack their records, as those of a broker that finds none in time."""
    read, left = fetch.Reading._read_partitions, [answers]

    async def strip(self: Any, response: Any, asked: Any, now: float) -> Any:
        if left[0]:
            left[0] -= 1
            for topic in response.responses:
                for data in topic.partitions:
                    data.records = None
        return await read(self, response, asked, now)

    monkeypatch.setattr(fetch.Reading, "_read_partitions", strip)


def test_records_that_tiered_storage_brings_late_are_waited_for(
    running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(running)
    write(running, range(10))
    without_records(monkeypatch, 3)
    # A question to which the embedded broker, which has all on its disk, answers as if it had nothing.
    monkeypatch.setattr(fetch, "_EARLIEST_LOCAL", LATEST)

    assert values(tables(running)) == list(range(10))


def test_a_range_with_no_record_left_on_disk_ends(
    running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(running)
    write(running, range(10))
    without_records(monkeypatch, 1000)

    assert tables(running, **{"kafkaConsumer.pollTimeoutMs": "5000"}) == []


def test_a_broker_that_is_away_is_told_with_where_reading_stopped() -> None:
    with RunningBroker() as running:
        create(running)
        write(running, range(10))
        options = {"kafkaConsumer.pollTimeoutMs": "500", "startingOffsets": '{"t":{"0":3}}'}
        reader, (task,) = planned(running, **options)
    try:
        with pytest.raises(
            KafkaError, match="topic t, partition 0: nothing came from offset 3 on"
        ) as failure:
            list(reader.read(task))
    finally:
        session.close_all()
    assert str(failure.value).count("nothing came") == 1


def test_a_partition_that_kclient_did_not_plan_is_named(running: RunningBroker) -> None:
    create(running)
    found = source(running)
    with pytest.raises(TypeError, match="which is no partition that kclient planned"):
        list(found.reader(found.schema()).read(InputPartition(0)))
