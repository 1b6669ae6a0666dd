"""The lag of what is not fetched now: paused partitions, and all behind a full buffer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.records import ControlType
from kclient.wire.messages.fetch import ListOffsetsRequest
from tests.unit.consumer.reading import Topic, World, live, part, take
from tests.unit.consumer.test_hidden_batches import ended, in_transaction, plain, put


def lags(consumer: AsyncConsumer[Any, Any]) -> tuple[int | None, int | None, int | None]:
    return consumer.lag(part()), consumer.health().partitions[part()].lag, consumer.metrics().lag


def test_the_lag_of_a_paused_partition_goes_on() -> None:
    async def story(world: World) -> None:
        world.fill(part(), records=10)
        async with world.reader() as consumer:
            await take(consumer, 10)
            consumer.pause(part())
            for count in (30, 60):
                world.fill(part(), records=30)
                await asyncio.sleep(2)
                assert lags(consumer) == (count, count, count)
                assert consumer.highwater(part()) == 10 + count
            consumer.resume(part())
            await take(consumer, 60)
            assert lags(consumer) == (0, 0, 0)
            asked = world.requests.count("LIST_OFFSETS")
            await asyncio.sleep(10)
            assert world.requests.count("LIST_OFFSETS") == asked

    live(story)


def test_others_are_not_asked_about_and_go_on() -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        async with world.reader(2) as consumer:
            await take(consumer, 20)
            consumer.pause(part(1))
            world.fill(part(), records=5)
            world.fill(part(1), records=7)
            await asyncio.sleep(2)
            assert (consumer.lag(part()), consumer.lag(part(1))) == (5, 7)
            await take(consumer, 5)
            assert consumer.metrics().lag == 7

    live(story)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_it_counts_what_the_isolation_level_shows(isolation: str) -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, plain(0))
        async with world.reader(isolation_level=isolation) as consumer:
            await take(consumer, 3)
            consumer.pause(part())
            put(world, in_transaction(3), ended(6, ControlType.COMMIT), plain(7))
            await asyncio.sleep(2)
            assert consumer.lag(part()) == 7

    live(story)


def test_an_application_that_takes_nothing_sees_its_lag_grow() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=10, size=1_000)
        async with world.reader(prefetch_max_bytes=200_000, max_partition_fetch_bytes=100_000) as consumer:
            await asyncio.sleep(3)
            world.fill(part(), batches=10, size=1_000)
            await asyncio.sleep(3)
            assert consumer.lag(part()) == 2_000
            await take(consumer, 2_000)
            assert consumer.lag(part()) == 0

    live(story)


def test_brokers_that_do_not_answer_are_no_trouble() -> None:
    async def story(world: World) -> None:
        world.fill(part(), records=10)
        async with world.reader() as consumer:
            await take(consumer, 10)
            consumer.pause(part())
            see = world.broker.faults.hook
            assert see is not None
            world.broker.faults.hook = lambda context, request: (
                asyncio.get_running_loop().create_future()
                if isinstance(request, ListOffsetsRequest)
                else see(context, request)
            )
            await asyncio.sleep(20)
            assert consumer.health().last_error is None
            world.broker.faults.hook = see
            world.fill(part(), records=10)
            await asyncio.sleep(90)
            assert consumer.lag(part()) == 10

    live(story)
