"""Topics of every shape, filled once by librdkafka, so that neither of the two that are compared wrote them.

| topic | |
|---|---|
| plain | three partitions of 60, 30 and 7 records, one each second from `START` on; null and empty keys and values, headers |
| packed | a partition with 20 records of every codec |
| appended | the broker's times |
| committed | transactions: 5 records committed, 5 aborted, 5 committed, 3 of one that is still open |
| compacted | 40 records of four keys, of which the cleaner has left over `COMPACTED` |
| trimmed | two partitions of 20; the first 10 records of the first are deleted |
| empty | two partitions without records |
"""  # noqa: E501 - the table is easier to read than broken lines

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from string import Template
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tools.kafka.waiting import poll

START = 1_700_000_000_000
SIZES = (60, 30, 7)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE = 60.0
# What the cleaner cannot take: keys that come once, the last of the others, the open segment.
COMPACTED = [0, 20, 37, 38, 39]
_HEADERS: tuple[list[tuple[str, bytes | None]], ...] = (
    [],
    [("a", b"1")],
    [("a", b"1"), ("a", None), ("b", b"")],
)
_CLEANED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1",
    "max.compaction.lag.ms": "1",
}
_SHAPES: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (len(SIZES), {}),
    "packed": (1, {}),
    "appended": (1, {"message.timestamp.type": "LogAppendTime"}),
    "committed": (1, {}),
    "compacted": (1, _CLEANED),
    "trimmed": (2, {}),
    "empty": (2, {}),
}


@dataclass(frozen=True)
class Topics:
    """The names that topics have in this run, for `$plain` and its like in options."""

    servers: str
    prefix: str
    admin: Any

    def name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        names = {topic: self.name(topic) for topic in _SHAPES} | {"prefix": self.prefix}
        filled = {name: Template(value).substitute(names) for name, value in given.items()}
        return {"kafka.bootstrap.servers": self.servers, **filled}

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """A topic of a test's own; its whole name."""
        name = self.name(topic)
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])
        made[name].result(PATIENCE)
        return name

    def produce(self, topic: str, partition: int, count: int, **config: Any) -> None:
        """Records with all that a record can have or lack."""
        with self.producing(**config) as producer:
            for number in range(count):
                send(producer, self.name(topic), partition, number)

    @contextmanager
    def producing(self, **config: Any) -> Iterator[Any]:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **config})
        yield producer
        assert producer.flush(PATIENCE) == 0

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        deleted = self.admin.delete_records([TopicPartition(self.name(topic), partition, offset)])
        for each in deleted.values():
            each.result(PATIENCE)


def send(producer: Any, topic: str, partition: int, number: int) -> None:
    producer.produce(
        topic,
        None if number % 5 == 0 else f"value {number} of {partition}".encode(),
        None if number % 3 == 0 else b"" if number % 7 == 1 else f"key {number % 4}".encode(),
        partition,
        timestamp=START + 1000 * number,
        headers=_HEADERS[number % 3],
    )


@contextmanager
def filled(servers: str) -> Iterator[Topics]:
    """All topics; the open transaction is aborted at the end."""
    topics = Topics(servers, f"parity-{uuid4().hex[:8]}", AdminClient({"bootstrap.servers": servers}))
    for topic, (partitions, config) in _SHAPES.items():
        topics.create(topic, partitions, config)
    for partition, size in enumerate(SIZES):
        topics.produce("plain", partition, size)
    for codec in CODECS:
        topics.produce("packed", 0, 20, **{"compression.type": codec, "linger.ms": 100})
    topics.produce("appended", 0, 5)
    for partition in (0, 1):
        topics.produce("trimmed", partition, 20)
    topics.delete_before("trimmed", 0, 10)
    _compact(topics)
    with _transactions(topics):
        yield topics


@contextmanager
def _transactions(topics: Topics) -> Iterator[None]:
    config = {"transactional.id": topics.name("writer"), "linger.ms": 0, "transaction.timeout.ms": 900_000}
    with topics.producing(**config) as producer:
        producer.init_transactions(PATIENCE)
        for outcome, count in (("commit", 5), ("abort", 5), ("commit", 5), ("open", 3)):
            producer.begin_transaction()
            for number in range(count):
                send(producer, topics.name("committed"), 0, number)
            assert producer.flush(PATIENCE) == 0
            if outcome == "commit":
                producer.commit_transaction(PATIENCE)
            elif outcome == "abort":
                producer.abort_transaction(PATIENCE)
        yield
        producer.abort_transaction(PATIENCE)


def _compact(topics: Topics) -> None:
    """Have the cleaner look often, and wait until it has been there."""
    often = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    brokers = [
        ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[often])
        for number in topics.admin.list_topics(timeout=PATIENCE).brokers
    ]
    for each in topics.admin.incremental_alter_configs(brokers).values():
        each.result(PATIENCE)
    name = topics.name("compacted")
    with topics.producing() as producer:
        for number in range(40):
            key = f"only {number}" if number in (0, 20) else f"key {number % 2}"
            producer.produce(name, f"value {number}".encode(), key.encode(), 0)
            assert producer.flush(PATIENCE) == 0  # a segment each
    left: list[int] = []

    def cleaned() -> bool:
        left[:] = _offsets(topics, name, 39)
        return left == COMPACTED

    poll(cleaned, timeout=PATIENCE, failure=lambda: f"the cleaner has left over {left}, not {COMPACTED}")


def _offsets(topics: Topics, topic: str, last: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": topic, "fetch.wait.max.ms": 50})
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        until = time.monotonic() + PATIENCE
        while last not in found and time.monotonic() < until:
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None, message.error()
                found.append(message.offset() or 0)
    finally:
        consumer.close()
    return found
