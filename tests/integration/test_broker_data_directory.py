"""The embedded broker and a real one meet in one directory: no record is touched, and each is locked out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import Consumer, Producer
from kclient.broker.directory_lock import DirectoryLock
from kclient.errors import DataDirectoryError
from tools.kafka import KafkaCluster
from tools.kafka.errors import KafkaToolError
from tools.kafka.fixtures import BrokerPool
from tools.kafka.versions import DEFAULT_VERSION


@pytest.fixture(scope="module")
def kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """A broker with a topic and a group, running until a test ends it."""
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=cluster.bootstrap()) as producer:
            for number in range(100):
                producer.send("orders", b"%d" % number, partition=number % 2)
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap(), "auto_offset_reset": "earliest"}
        with Consumer("orders", group_id="readers", **settings) as consumer:
            assert consumer.poll(timeout_ms=30_000)
            consumer.commit()
        yield cluster


def tree(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def test_a_directory_that_a_real_broker_has_locked_is_not_locked_again(kafka: KafkaCluster) -> None:
    with pytest.raises(DataDirectoryError, match=f"is in use by process {kafka.process_ids()[0]}, "):
        DirectoryLock.take(kafka.node(1).data)


def test_the_directory_of_a_stopped_real_broker_is_refused_and_every_byte_stays(kafka: KafkaCluster) -> None:
    kafka.shut_down(1, timeout=60)
    data = kafka.node(1).data
    before = tree(data)
    assert {"orders-0", "orders-1", "__cluster_metadata-0", "__consumer_offsets-0"} <= before.keys()
    command = [sys.executable, "-m", "kclient.cli.main", "broker", "--port", "0", "--data", str(data)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{data} is the log directory of a Kafka broker (cluster.id " in ended.stderr
    assert tree(data) == before


def test_a_real_broker_does_not_start_where_an_embedded_one_has_the_lock(kafka: KafkaCluster) -> None:
    if kafka.node(1).is_running():
        kafka.shut_down(1, timeout=60)
    lock = DirectoryLock.take(kafka.node(1).data)
    try:
        with pytest.raises(KafkaToolError, match="ended with exit code 1"):
            kafka.restart(1)
        process = kafka.node(1).process
        assert process is not None
        assert "Failed to acquire lock on file .lock" in process.output()
    finally:
        lock.release()
