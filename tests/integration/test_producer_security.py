"""Producers at secured listeners of a real broker: who has the right password gets in, others are told so."""

from __future__ import annotations

import asyncio

import pytest

from kclient.errors import AuthenticationError
from kclient.producer import AsyncProducer, Producer
from tests.support.readers import read_topic
from tests.support.secured import WRONG, Visitor
from tools.kafka import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.uvloop]

TOPIC = "secured-records"
PATIENCE = 30  # a quarter of delivery_timeout_ms


@pytest.fixture
def topic(secured_kafka: KafkaCluster) -> str:
    """A topic to which alice may write."""
    if not secured_kafka.in_sync(TOPIC):
        secured_kafka.create_topic(TOPIC)
    grant = ["--add", "--allow-principal", "User:alice", "--operation", "Write", "--topic", TOPIC]
    secured_kafka.run_tool("acls", grant)
    return TOPIC


def test_records_are_written_through_tls_and_scram(
    secured_kafka: KafkaCluster, visitor: Visitor, topic: str
) -> None:
    with Producer(**visitor.password("SASL_SSL", "SCRAM-SHA-512")) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(1_000)]
        first, *others = [delivery.result(PATIENCE).offset for delivery in deliveries]
    assert others == list(range(first + 1, first + 1_000))
    read = read_topic(secured_kafka.bootstrap(), topic, first + 1_000)[first:]
    assert [seen.value for seen in read] == [b"%d" % number for number in range(1_000)]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_fails_the_start(visitor: Visitor, mechanism: str) -> None:
    options = visitor.password("SASL_SSL", mechanism, password=WRONG)

    async def scenario() -> None:
        producer = AsyncProducer(**options)
        with pytest.raises(AuthenticationError) as caught:
            await producer.start()
        visitor.hear(caught.value)

    asyncio.run(scenario())
    with pytest.raises(AuthenticationError) as caught, Producer(**options):
        pass
    visitor.hear(caught.value)


@pytest.mark.parametrize("way", ["send", "send_nowait"])
def test_a_wrong_password_fails_the_first_records_of_a_producer_that_was_not_started(
    visitor: Visitor, way: str
) -> None:
    async def attempt(producer: AsyncProducer) -> None:
        delivery = producer.send_nowait(TOPIC) if way == "send_nowait" else await producer.send(TOPIC)
        await delivery

    async def scenario() -> None:
        producer = AsyncProducer(**visitor.password("SASL_SSL", "SCRAM-SHA-512", password=WRONG))
        try:
            for _ in range(2):
                with pytest.raises(AuthenticationError) as caught:
                    await asyncio.wait_for(attempt(producer), PATIENCE)
                visitor.hear(caught.value)
        finally:
            await producer.close()

    asyncio.run(scenario())
