"""Loops whose own work on each record keeps the event loop for milliseconds, on real brokers."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from kclient import AsyncConsumer, AsyncProducer, TopicPartition
from tools.kafka.provider import PlainKafka

# The shortest session that a broker allows by default, in seconds.
SESSION = 6
WORK = 0.004


def work() -> None:
    """As a synchronous query would, this keeps the loop from everything else."""
    end = time.monotonic() + WORK
    while time.monotonic() < end:
        pass


def test_a_member_that_works_on_every_record_keeps_its_place_and_its_offsets_are_committed(
    kafka: PlainKafka,
) -> None:
    async def main(topic: str) -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap()) as producer:
            await producer.send_many(topic, [bytes(100)] * 9_000)  # one batch, in hand for half a minute
        async with AsyncConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap(),
            group_id=topic,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION * 1_000,
            heartbeat_interval_ms=500,
            auto_commit_interval_ms=500,
        ) as consumer:
            await consumer.getone()
            joined = consumer.health().group
            assert joined is not None
            end = time.monotonic() + SESSION + 2
            async for _ in consumer:
                work()
                if time.monotonic() > end:
                    break
            group = consumer.health().group
            assert group is not None
            assert (group.state, group.generation, group.member_id) == (
                "stable",
                joined.generation,
                joined.member_id,
            )
            committed = await consumer.committed(TopicPartition(topic, 0))
            assert committed is not None
            assert committed.offset > 0

    name = f"slow-{uuid4().hex[:8]}"
    kafka.create_topic(name)
    asyncio.run(main(name))


def test_records_leave_while_the_loop_that_sends_them_works(kafka: PlainKafka) -> None:
    async def main(topic: str) -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap()) as producer:
            await producer.send_and_wait(topic, b"first")
            sent = []
            for _ in range(500):
                sent.append(await producer.send(topic, bytes(100)))
                work()
            assert sent[0].done()

    name = f"slow-{uuid4().hex[:8]}"
    kafka.create_topic(name)
    asyncio.run(main(name))
