"""Starts that are cancelled when they have succeeded, or of a consumer that works: nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.producer import Producer
from kclient.testing import RunningBroker
from tests.support.threads import wait_for_no_threads
from tests.unit.consumer.reading import Topic, World, live, offsets, part, take

ALL = list(range(100))


@pytest.mark.parametrize(
    "options",
    [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}],
    ids=["alone", "classic", "consumer"],
)
def test_what_was_fetched_before_a_start_was_taken_back_is_read_by_the_next(options: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer = world.consumer(Topic, **options)
        await consumer.start()
        await asyncio.sleep(10)
        assert consumer.metrics().bytes_buffered
        await consumer._engine.opening.take_back()
        assert not consumer._engine.begun
        assert offsets((await take(consumer, 100))[part()]) == ALL
        await consumer.close()

    live(story)


def test_a_second_start_that_is_cancelled_leaves_what_works(kafka_broker: RunningBroker) -> None:
    async def main() -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": kafka_broker.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "io_thread": True,
        }
        async with AsyncConsumer("t", **options) as consumer:
            assert (await consumer.getone()).offset == 0
            before = consumer.group_metadata()
            second = asyncio.create_task(consumer.start())
            await asyncio.sleep(0)
            second.cancel()
            await asyncio.wait([second])
            assert (await consumer.getone()).offset == 1
            assert consumer.group_metadata() == before

    kafka_broker.broker.create_topic("t")
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        producer.send_many("t", [b"first", b"second"])
    asyncio.run(main())
    wait_for_no_threads()
