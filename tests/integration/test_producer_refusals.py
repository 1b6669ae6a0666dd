"""What a real broker refuses or slows down: records get their typed error, and the producer goes on."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from kclient.errors import InvalidRecordError, KafkaError, MessageTooLargeError, TopicAuthorizationFailedError
from kclient.producer import AsyncProducer
from tests.support.readers import read_topic
from tests.support.secured import Visitor
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.versions import DEFAULT_VERSION

pytestmark = pytest.mark.kafka

PATIENCE = 60


@pytest.fixture
def broker(broker_pool: BrokerPool) -> KafkaCluster:
    """The session's broker, with Kafka's own tools."""
    broker_pool.require_jars(DEFAULT_VERSION)
    broker = broker_pool.broker(DEFAULT_VERSION)
    assert isinstance(broker, KafkaCluster)
    return broker


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def test_batches_that_are_too_large_for_the_topic_are_split(broker: KafkaCluster, topic: str) -> None:
    broker.create_topic(topic, configs={"max.message.bytes": "10000"})
    values = [b"%03d" % number + b"x" * 1_000 for number in range(300)]

    async def scenario() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap(), linger_ms=50) as producer:
            deliveries = [await producer.send(topic, value) for value in values]
            assert [(await delivery).offset for delivery in deliveries] == list(range(300))
            assert producer.metrics().retries > 0

    asyncio.run(scenario())
    assert [seen.value for seen in read_topic(broker.bootstrap(), topic, 300)] == values


def test_one_record_that_is_too_large_fails_alone(broker: KafkaCluster, topic: str) -> None:
    broker.create_topic(topic, configs={"max.message.bytes": "10000"})

    async def scenario() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap(), linger_ms=50) as producer:
            values = [b"before", b"x" * 20_000, b"after"]
            before, large, after = [await producer.send(topic, value) for value in values]
            with pytest.raises(MessageTooLargeError, match=f"{topic}, partition 0, a record of 20,072 bytes"):
                await large
            assert (await before).offset == 0
            assert (await after).offset == 1
            assert (await producer.send_and_wait(topic, b"later")).offset == 2

    asyncio.run(scenario())
    assert [seen.value for seen in read_topic(broker.bootstrap(), topic, 3)] == [
        b"before",
        b"after",
        b"later",
    ]


def test_an_invalid_record_is_named_and_the_next_batch_is_written(broker: KafkaCluster, topic: str) -> None:
    broker.create_topic(topic, configs={"cleanup.policy": "compact"})

    async def scenario() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap(), linger_ms=50) as producer:
            keys = [b"first", None, b"third"]
            deliveries = [await producer.send(topic, b"value", key) for key in keys]
            errors: list[KafkaError] = []
            for delivery in deliveries:
                with pytest.raises(InvalidRecordError) as caught:
                    await delivery
                errors.append(caught.value)
            of_others, own, _ = map(str, errors)
            assert "cannot accept message without key" in own
            assert "records have been rejected" not in own
            assert "records have been rejected" in of_others
            assert "batchIndex=1" in of_others
            assert topic in own
            assert (await producer.send_and_wait(topic, b"value", b"first")).offset == 0

    asyncio.run(scenario())


def test_a_quota_slows_the_producer_down_and_fails_nothing(broker: KafkaCluster, topic: str) -> None:
    broker.create_topic(topic)
    client_id = f"slow-{topic}"
    quota = ["--alter", "--add-config", "producer_byte_rate=20000"]
    broker.run_tool("configs", [*quota, "--entity-type", "clients", "--entity-name", client_id])
    # The broker lets a burst pass, ten seconds' worth.
    values = [b"%03d" % number + b"x" * 1_000 for number in range(280)]
    throttled: list[float] = []

    async def scenario() -> None:
        async with AsyncProducer(
            bootstrap_servers=broker.bootstrap(), client_id=client_id, batch_size=20_000
        ) as producer:
            deliveries = []
            for value in values:
                deliveries.append(await producer.send(topic, value))
                deliveries[-1].add_done_callback(
                    lambda _: throttled.extend(one.throttled_for for one in producer.health().brokers)
                )
            assert [(await delivery).offset for delivery in deliveries] == list(range(len(values)))
            assert producer.metrics().errors == 0

    asyncio.run(scenario())
    assert max(throttled) > 0
    assert [seen.value for seen in read_topic(broker.bootstrap(), topic, len(values))] == values


def test_a_producer_that_loses_its_permission_is_told_and_may_get_it_back(
    secured_kafka: KafkaCluster, visitor: Visitor, topic: str
) -> None:
    secured_kafka.create_topic(topic)
    may = ["--allow-principal", "User:alice", "--topic", topic, "--operation"]
    secured_kafka.run_tool("acls", ["--add", *may, "Describe"])

    def allow() -> None:
        secured_kafka.run_tool("acls", ["--add", *may, "Write"])

    def forbid() -> None:
        secured_kafka.run_tool("acls", ["--remove", "--force", *may, "Write"])

    async def scenario() -> list[bytes]:
        written: list[bytes] = []
        options = visitor.password("SASL_SSL", "SCRAM-SHA-512")
        async with AsyncProducer(**options) as producer, asyncio.timeout(PATIENCE):

            async def is_allowed() -> bool:
                value = b"%d" % len(written)
                try:
                    await producer.send_and_wait(topic, value)
                except TopicAuthorizationFailedError:
                    return False
                written.append(value)
                return True

            for change, allowed in [(allow, True), (forbid, False), (allow, True)]:
                await asyncio.to_thread(change)
                # The broker hears of it a moment later.
                while await is_allowed() is not allowed:
                    continue
        return written

    written = asyncio.run(scenario())
    assert len(written) > 1
    read = read_topic(secured_kafka.bootstrap(), topic, len(written))
    assert [seen.value for seen in read] == written
