"""Topics that end with what nobody sees, on a real broker: consumers and commands come to the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kclient.consumer import AsyncConsumer, Consumer
from kclient.types import TopicPartition
from tests.integration.test_consumer import PATIENCE_MS, new_topic
from tests.unit.cli.calling import ok
from tools.kafka.provider import PlainKafka

pytestmark = pytest.mark.timeout(120)

COMMITTED = ["-X", "isolation.level=read_committed"]


class Transactions:
    """One producer's transactions, a record each in partition 0 of a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid4().hex})
        self._producer.init_transactions(60)

    def write(self, value: str) -> None:
        """Begin a transaction and leave it open."""
        self._producer.begin_transaction()
        self._producer.produce(self._topic, value.encode(), partition=0)
        assert self._producer.flush(60) == 0

    def commit(self, value: str) -> None:
        self.write(value)
        self._producer.commit_transaction(60)

    def abort(self, value: str) -> None:
        self.write(value)
        self._producer.abort_transaction(60)

    def end(self) -> None:
        with contextlib.suppress(Exception):  # there is none
            self._producer.abort_transaction(60)


@pytest.fixture
def topic(kafka: PlainKafka, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KCLIENT_BOOTSTRAP_SERVERS", kafka.bootstrap())
    return new_topic(kafka)


@pytest.fixture
def transactions(kafka: PlainKafka, topic: str) -> Iterator[Transactions]:
    found = Transactions(kafka.bootstrap(), topic)
    yield found
    found.end()


def at_the_end(bootstrap: str, topic: str, end: int, **options: Any) -> None:
    """Both clients come there, alone and in a group of either protocol, and a group has it committed."""
    partition = TopicPartition(topic, 0)
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", **options}
    with Consumer(**options) as consumer:
        consumer.assign([partition])
        for _ in range(PATIENCE_MS // 100):
            consumer.poll(timeout_ms=100)
            if consumer.position(partition) == end and consumer.lag(partition) == 0:
                break  # brokers write markers behind their answer to who commits
        assert (consumer.position(partition), consumer.lag(partition)) == (end, 0)
        assert consumer.end_offsets([partition]) == {partition: end}

    async def in_a_group(protocol: str) -> None:
        group: dict[str, Any] = {"group_id": f"{protocol} {uuid4().hex}", "group_protocol": protocol}
        async with (
            AsyncConsumer(
                topic, **options, **group, auto_commit_interval_ms=50, consumer_timeout_ms=500
            ) as consumer,
            asyncio.timeout(PATIENCE_MS / 1000),
        ):
            place = None
            while place is None or place.offset < end:
                async for _ in consumer:
                    pass
                place = await consumer.committed(partition)
            assert place.offset == end
            assert consumer.health().partitions[partition].lag == consumer.metrics().lag == 0

    for protocol in ("classic", "consumer"):
        asyncio.run(in_a_group(protocol))


def test_a_topic_that_ends_with_a_marker_is_read_to_its_end(
    kafka: PlainKafka, topic: str, transactions: Transactions
) -> None:
    transactions.commit("one")
    at_the_end(kafka.bootstrap(), topic, 2)
    assert ok("consume", topic, "-e").lines == ["one"]
    assert ok("consume", topic, "--offset", "-1", "-e").lines == []
    group = uuid4().hex
    assert ok("consume", topic, "-g", group, "-e").lines == ["one"]
    assert ok("lag", group, "-o", "json").json[0]["lag"] == 0


def test_a_tail_of_aborted_transactions_is_read_to_its_end(
    kafka: PlainKafka, topic: str, transactions: Transactions
) -> None:
    transactions.commit("one")
    for number in range(3):
        transactions.abort(f"not {number}")
    at_the_end(kafka.bootstrap(), topic, 8, isolation_level="read_committed")
    at_the_end(kafka.bootstrap(), topic, 8)
    assert ok("consume", topic, "-e", *COMMITTED).lines == ["one"]
    assert ok("consume", topic, "--offset", "-1", "-e", *COMMITTED).lines == []
    assert ok("consume", topic, "--offset", "-2", "-e").lines == ["not 2"]


def test_while_a_transaction_is_open_committed_records_end_where_it_begins(
    kafka: PlainKafka, topic: str, transactions: Transactions
) -> None:
    transactions.commit("one")
    transactions.write("undecided")
    at_the_end(kafka.bootstrap(), topic, 2, isolation_level="read_committed")
    at_the_end(kafka.bootstrap(), topic, 3)
    assert ok("consume", topic, "-e", *COMMITTED).lines == ["one"]
    assert ok("consume", topic, "--offset", "-2", "-e", *COMMITTED).lines == ["one"]
    assert ok("consume", topic, "-e").lines == ["one", "undecided"]
    group = uuid4().hex
    assert ok("consume", topic, "-g", group, "-e", *COMMITTED).lines == ["one"]
    for words in (["lag", group, "--partitions"], ["groups", "describe", group]):
        assert ok(*words, "-o", "json").json[0]["lag"] == 1
        row = ok(*words, "-o", "json", *COMMITTED).json[0]
        assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (2, 2, 0)
    for words, offset in (([], 3), (COMMITTED, 2)):
        row = ok("groups", "reset", group, "--topic", topic, "--to-latest", "-o", "json", *words).json[0]
        assert row["new_offset"] == offset
    ok("groups", "reset", group, "--topic", topic, "--to-offset", "3", "--execute", *COMMITTED)
    for way in (["--to-current"], ["--shift-by", "0"], ["--to-offset", "3"]):
        row = ok("groups", "reset", group, "--topic", topic, *way, "-o", "json", *COMMITTED).json[0]
        assert (row["current_offset"], row["new_offset"]) == (3, 3)
