"""Kafka's own tools and brokers on the files of the embedded broker's log: what was written is there, sound.

No server is involved: logs are written here, then read by `DumpLogSegments` and by a real broker that is
started on them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kclient.broker.log.checkpoints import read_partition_metadata, write_partition_metadata
from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.clock import SystemClock
from kclient.records import Codec, Stamp, encode_batch
from kclient.records.pieces import RecordTuple
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.versions import DEFAULT_VERSION
from tools.kafka.waiting import poll

Row = tuple[int, bytes | None, bytes | None, int]
PRODUCER = 4711


@pytest.fixture(scope="module")
def java_kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster() as cluster:
        yield cluster


def fill(log: PartitionLog, start: int, rounds: int) -> list[Row]:
    """Batches of every codec and many sizes, keys that come back, tombstones, an idempotent producer."""
    written: list[Row] = []
    sequence = 0
    for number in range(rounds):
        records: list[RecordTuple] = [
            (
                b"key %d" % (index * number % 230),
                None if (index + number) % 9 == 0 else b"%d" % number * (index * 37 % 200),
                start + number * 10 + index,
                (("trace", b"\x00"), ("none", None))[: index % 3],
            )
            for index in range(1 + number * 7 % 40)
        ]
        stamp = (
            Stamp(producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence) if number % 2 else Stamp()
        )
        sequence += len(records) if number % 2 else 0
        base = log.append(
            encode_batch(records, codec=Codec(number % 5), stamp=stamp), leader_epoch=number // 20
        ).base_offset
        written += [(base + index, row[0], row[1], row[2]) for index, row in enumerate(records)]
    return written


def small_segments(**more: object) -> LogConfig:
    settings = {"segment.bytes": "20000", "index.interval.bytes": "300"}
    return LogConfig.from_topic_config(settings | {name: str(value) for name, value in more.items()})


def dump(cluster: KafkaCluster, paths: list[Path], *options: str) -> str:
    output = cluster.run_tool("dump-log", ["--files", ",".join(map(str, paths)), *options])
    said = output.stdout + output.stderr
    assert not any(word in said for word in ("ismatch", "Exception", "Found", "isvalid: false")), said
    return said


def assert_sound(cluster: KafkaCluster, directory: Path) -> None:
    """Every file passes every check that Kafka has for it."""
    logs = sorted(directory.glob("*.log"))
    assert dump(cluster, logs, "--deep-iteration", "--print-data-log").count("isvalid: true") >= len(logs)
    indexes = [path.with_suffix(kind) for kind in (".index", ".timeindex") for path in logs]
    assert any(path.stat().st_size for path in indexes)
    dump(cluster, indexes)
    dump(cluster, indexes, "--verify-index-only")
    checked = dump(cluster, indexes, "--index-sanity-check")
    assert checked.count("passed sanity check") + checked.count("is empty") == len(indexes)


def test_kafkas_dump_finds_no_fault_in_any_file(java_kafka: KafkaCluster, tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path / "orders-0", small_segments(), SystemClock())
    written = fill(log, int(time.time() * 1000) - 60_000, 60)
    log.close()
    assert len(log.segments) > 2
    assert_sound(java_kafka, tmp_path / "orders-0")
    said = dump(java_kafka, sorted((tmp_path / "orders-0").glob("*.log")), "--print-data-log")
    offsets = [
        int(line.split("offset: ")[1].split()[0]) for line in said.splitlines() if line.startswith("| ")
    ]
    assert offsets == [offset for offset, _, _, _ in written]
    said = dump(java_kafka, sorted((tmp_path / "orders-0").glob("*.snapshot")))
    assert f"producerId: {PRODUCER} producerEpoch: 0" in said


def test_kafkas_dump_finds_no_fault_after_compaction_and_a_kill(
    java_kafka: KafkaCluster, tmp_path: Path
) -> None:
    directory = tmp_path / "table-0"
    config = small_segments(**{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    log = PartitionLog.open(directory, config, SystemClock())
    fill(log, int(time.time() * 1000) - 60_000, 40)
    log.roll()
    assert log.compact(log.now_ms()) is not None
    fill_after = encode_batch([(b"last", b"value", log.now_ms(), ())])
    log.append(fill_after, leader_epoch=9)
    last = log.active.store
    with (directory / f"{log.active.base_offset:020}.log").open("ab") as file:
        file.write(fill_after[:-3])
    again = PartitionLog.open(directory, config, SystemClock())
    assert again.active.size == last.size
    again.close()
    assert_sound(java_kafka, directory)


def consume(bootstrap: str, topic: str, until: int) -> list[Row]:
    """Every record of partition 0 up to an offset, as librdkafka reads it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "check.crcs": True})
    rows: list[Row] = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

        def attempt() -> bool:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                offset, stamped = message.offset(), message.timestamp()[1]
                assert offset is not None
                rows.append((offset, message.key(), message.value(), stamped))
            return bool(rows) and rows[-1][0] >= until

        poll(attempt, timeout=60, failure=lambda: f"read {len(rows)} records of {topic}")
    finally:
        consumer.close()
    return rows


def test_a_real_broker_serves_the_records_of_our_files(broker_pool: BrokerPool, tmp_path: Path) -> None:
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster() as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("table", configs={"cleanup.policy": "compact"})
        cluster.shut_down(1, timeout=60)
        written: dict[str, list[Row]] = {}
        for topic, more in (
            ("orders", {}),
            ("table", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
        ):
            theirs = cluster.node(1).data / f"{topic}-0"
            topic_id = read_partition_metadata(theirs)
            assert topic_id is not None
            ours = tmp_path / f"{topic}-0"
            write_partition_metadata(ours, topic_id)
            log = PartitionLog.open(ours, small_segments(**more), SystemClock())
            written[topic] = fill(log, log.now_ms() - 60_000, 50)
            if more:
                log.roll()
                assert log.compact(log.now_ms()) is not None
                latest = {row[1]: row for row in written[topic]}
                written[topic] = sorted(latest.values())
            log.close()
            shutil.rmtree(theirs)
            shutil.copytree(ours, theirs)
        _set_high_watermarks(
            cluster.node(1).data, {topic: rows[-1][0] + 1 for topic, rows in written.items()}
        )
        cluster.restart(1, timeout=120)
        for topic, rows in written.items():
            cluster.leader(topic)
            assert consume(cluster.bootstrap(), topic, rows[-1][0]) == rows
        _goes_on(cluster, "orders", written["orders"][-1][0])
        assert "Found invalid messages" not in _server_log(cluster)


def test_what_we_make_of_a_real_brokers_segments_is_what_it_made_itself(
    broker_pool: BrokerPool, tmp_path: Path
) -> None:
    broker_pool.require_jars(DEFAULT_VERSION)
    config = {"index.interval.bytes": "300", "segment.bytes": "1048576"}
    with KafkaCluster() as cluster:
        cluster.create_topic("theirs", configs=config)
        settings = {"bootstrap.servers": cluster.bootstrap(), "enable.idempotence": True, "linger.ms": 1}
        producer = Producer(settings)
        for number in range(4000):
            producer.produce("theirs", b"%d" % number * (number % 200), b"key")
            producer.poll(0)
        assert producer.flush(60) == 0
        cluster.shut_down(1, timeout=60)
        theirs = cluster.node(1).data / "theirs-0"
        ours = tmp_path / "theirs-0"
        ours.mkdir()
        for path in theirs.glob("*.log"):
            shutil.copy(path, ours)
        log = PartitionLog.open(ours, LogConfig.from_topic_config(config), SystemClock())
        log.close()
        assert (log.end_offset, len(log.segments)) == (4000, 2)
        made = {path.name: path.read_bytes() for path in ours.iterdir()}
        expected = {path.name: path.read_bytes() for path in theirs.iterdir() if path.name in made}
        assert made == expected
        assert {path.suffix for path in ours.iterdir()} == {".log", ".index", ".timeindex", ".snapshot", ""}


def _set_high_watermarks(data: Path, ends: dict[str, int]) -> None:
    """What the broker wrote when it ended is about its own files, not about ours."""
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = data / name
        lines = path.read_text().splitlines()
        rows = [line.split() for line in lines[2:]]
        text = "".join(f"{topic} {index} {ends.get(topic, int(offset))}\n" for topic, index, offset in rows)
        path.write_text(f"0\n{len(rows)}\n{text}")


def _goes_on(cluster: KafkaCluster, topic: str, last: int) -> None:
    """The broker appends behind our records."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all"})
    offsets: list[int | None] = []
    producer.produce(topic, b"theirs", on_delivery=lambda _, message: offsets.append(message.offset()))
    assert producer.flush(30) == 0
    assert offsets == [last + 1]


def _server_log(cluster: KafkaCluster) -> str:
    process = cluster.node(1).process
    assert process is not None
    return process.output()
