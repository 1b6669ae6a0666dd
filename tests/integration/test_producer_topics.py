"""Topics that come, grow, go and come again while a producer sends to them, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from kclient.admin import AsyncAdmin
from kclient.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.producer import AsyncProducer, Delivery
from tests.support.readers import read_topic
from tools.kafka.fixtures import StartCluster
from tools.kafka.provider import PlainKafka

pytestmark = pytest.mark.kafka

PATIENCE = 60


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


@asynccontextmanager
async def clients(bootstrap: str) -> AsyncIterator[tuple[AsyncProducer, AsyncAdmin]]:
    """A producer that looks often whether topics have changed, and somebody who changes them."""
    async with (
        AsyncProducer(bootstrap_servers=bootstrap, metadata_max_age_ms=500) as producer,
        AsyncAdmin(bootstrap_servers=bootstrap) as admin,
    ):
        yield producer, admin


def test_a_topic_that_is_not_there_is_made_by_the_broker(kafka: PlainKafka, topic: str) -> None:
    async def scenario() -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap()) as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(10)]
            assert [(await delivery).offset for delivery in deliveries] == list(range(10))

    asyncio.run(scenario())
    assert [seen.value for seen in read_topic(kafka.bootstrap(), topic, 10)] == [b"%d" % n for n in range(10)]


def test_a_topic_that_nobody_makes_is_named_when_the_time_is_over(
    kafka_cluster: StartCluster, topic: str
) -> None:
    broker = kafka_cluster(config={"auto.create.topics.enable": "false"})

    async def scenario() -> None:
        async with AsyncProducer(
            bootstrap_servers=broker.bootstrap(), max_block_ms=1_000, delivery_timeout_ms=1_000
        ) as producer:
            with pytest.raises(KafkaTimeoutError, match=f"topic {topic} was not known") as waited:
                await producer.send(topic, b"value")
            assert isinstance(waited.value.__cause__, UnknownTopicOrPartitionError)
            with pytest.raises(KafkaTimeoutError, match=f"topic {topic} were not delivered"):
                await producer.send_nowait(topic, b"value")
            # It comes into being while a record waits for it.
            waiting = producer.send_nowait(topic, b"in time")
            broker.create_topic(topic)
            assert (await waiting).offset == 0

    asyncio.run(scenario())


def test_partitions_that_are_added_get_records_without_a_restart(kafka: PlainKafka, topic: str) -> None:
    kafka.create_topic(topic, 1)

    async def scenario() -> int:
        sent = 0
        used: set[int] = set()
        async with clients(kafka.bootstrap()) as (producer, admin), asyncio.timeout(PATIENCE):
            while used < {0, 1, 2}:
                deliveries = [await producer.send(topic, b"value", b"%d" % key) for key in range(50)]
                used |= {(await delivery).partition for delivery in deliveries}
                if not sent:
                    assert used == {0}
                    await admin.create_partitions({topic: 3})
                sent += len(deliveries)
        return sent

    sent = asyncio.run(scenario())
    assert len(read_topic(kafka.bootstrap(), topic, sent, partitions=3)) == sent


async def make_anew(admin: AsyncAdmin, topic: str) -> None:
    await admin.delete_topics(topic)
    made = False
    while not made:  # the old one may take a moment to go, and the producer asks for the topic as well
        outcomes = await admin.create_topics(topic, raise_errors=False)
        made = not outcomes.errors or topic in await admin.list_topics()


def test_a_topic_that_is_deleted_and_made_anew_while_sending_is_sent_to_again(
    kafka: PlainKafka, topic: str
) -> None:
    kafka.create_topic(topic)

    async def scenario() -> tuple[int, int]:
        deliveries: list[Delivery] = []
        async with clients(kafka.bootstrap()) as (producer, admin), asyncio.timeout(PATIENCE):

            async def send(count: int) -> None:
                for _ in range(count):
                    deliveries.append(await producer.send(topic, b"%d" % len(deliveries), b"key"))

            await send(100)
            await producer.flush()
            change = asyncio.create_task(make_anew(admin, topic))
            while not change.done():
                await send(10)
                await asyncio.wait([change], timeout=0.01)
            await change
            first_after = len(deliveries)
            await send(100)
            written = [await delivery for delivery in deliveries]
            return first_after, written[-1].offset

    first_after, last_offset = asyncio.run(scenario())
    records = read_topic(kafka.bootstrap(), topic, last_offset + 1)
    read = [int(record.value or b"-1") for record in records]
    assert read == sorted(set(read))
    assert 0 not in read
    assert read[-100:] == list(range(first_after, first_after + 100))
