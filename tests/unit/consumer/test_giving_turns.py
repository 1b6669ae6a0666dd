"""Loops over records that are there already give the event loop its turns, however long the work on them.

The application's work is time that passes on the virtual clock while nothing else runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import WakeupError
from kclient.turns import EVERY
from tests.support.ticker import Ticker
from tests.unit.consumer.reading import World, live, part

_AT_ONCE = 128
Consumer = AsyncConsumer[Any, Any]
Way = Callable[[Consumer, int, Callable[[], None]], Coroutine[Any, Any, None]]


async def by_iteration(consumer: Consumer, count: int, work: Callable[[], None]) -> None:
    async for _ in consumer:
        work()
        count -= 1
        if not count:
            break


async def by_one(consumer: Consumer, count: int, work: Callable[[], None]) -> None:
    for _ in range(count):
        await consumer.getone()
        work()


async def by_one_of_a_partition(consumer: Consumer, count: int, work: Callable[[], None]) -> None:
    for _ in range(count):
        await consumer.getone(part())
        work()


async def by_many(consumer: Consumer, count: int, work: Callable[[], None]) -> None:
    for _ in range(count):
        assert await consumer.getmany(max_records=1)
        work()


async def by_arrow(consumer: Consumer, count: int, work: Callable[[], None]) -> None:
    for _ in range(count):
        assert (await consumer.getarrow(max_records=1)).num_rows
        work()


async def fetched(consumer: Consumer) -> None:
    """Take the first record, and wait until the others are in the buffer."""
    assert await consumer.getmany(timeout_ms=60_000, max_records=1)
    await asyncio.sleep(60)


@pytest.mark.parametrize("way", [by_iteration, by_one, by_one_of_a_partition, by_many, by_arrow])
@pytest.mark.parametrize("seconds", [0.0003, 0.001, 0.004, 0.0099])
@pytest.mark.parametrize("batches", [1, 100])
def test_the_loop_has_a_turn_at_least_every_10_ms(way: Way, seconds: float, batches: int) -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches, 1_000 // batches)
        async with world.reader() as consumer:
            await fetched(consumer)
            with Ticker() as ticker:
                await way(consumer, 600, lambda: world.sim.loop.block(seconds))
            assert ticker.longest <= EVERY + 1e-9
            assert ticker.turns >= 600 * seconds / EVERY - 1

    live(story)


def test_a_loop_that_catches_errors_and_calls_again_gives_turns_too() -> None:
    async def story(world: World) -> None:
        async with world.reader() as consumer:
            with Ticker() as ticker:
                for _ in range(200):
                    consumer.wakeup()
                    with pytest.raises(WakeupError):
                        await consumer.getmany()
                    world.sim.loop.block(0.001)
            assert ticker.longest <= EVERY + 0.001 + 1e-9

    live(story)


@pytest.mark.parametrize("way", [by_iteration, by_one])
def test_records_that_take_longer_than_that_are_each_followed_by_a_turn(way: Way) -> None:
    async def story(world: World) -> None:
        world.fill(part(), 1, 100)
        async with world.reader() as consumer:
            await fetched(consumer)
            with Ticker() as ticker:
                await way(consumer, 50, lambda: world.sim.loop.block(0.3))
            assert ticker.longest == pytest.approx(0.3)
            assert ticker.turns >= 49

    live(story)


def test_a_loop_that_slows_down_at_once_is_late_once() -> None:
    async def story(world: World) -> None:
        world.fill(part(), 1, 3_000)
        async with world.reader() as consumer:
            await fetched(consumer)
            await by_iteration(consumer, 1_500, lambda: None)
            with Ticker() as ticker:
                await by_iteration(consumer, _AT_ONCE, lambda: world.sim.loop.block(0.004))
            assert ticker.longest <= _AT_ONCE * 0.004 + EVERY
            with Ticker() as ticker:
                await by_iteration(consumer, 500, lambda: world.sim.loop.block(0.004))
            assert ticker.longest <= EVERY + 1e-9

    live(story)


@pytest.mark.parametrize("way", [by_iteration, by_one])
def test_a_loop_that_waited_for_records_and_is_slow_then_is_never_late(way: Way) -> None:
    """What it was like before says nothing."""

    async def story(world: World) -> None:
        world.fill(part(), 1, 1_001)
        async with world.reader() as consumer:
            await fetched(consumer)
            await way(consumer, 1_000, lambda: None)
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(1)
            world.fill(part(), 1, 500)
            await waiting
            await asyncio.sleep(1)  # the others are there too
            with Ticker() as ticker:
                await way(consumer, 300, lambda: world.sim.loop.block(0.004))
            assert ticker.longest <= EVERY + 1e-9

    live(story)


@pytest.mark.parametrize("way", [by_iteration, by_one])
def test_position_and_commits_are_exact_after_every_record(way: Way) -> None:
    async def story(world: World) -> None:
        world.fill(part(), 1, 400)
        async with world.consumer("orders", group_id="g", enable_auto_commit=False) as consumer:
            await consumer.getmany(timeout_ms=60_000, max_records=1)
            offset = 1
            for _ in range(300):
                await way(consumer, 1, lambda: world.sim.loop.block(0.003))
                offset += 1
                assert await consumer.position(part()) == offset
                if offset % 50 == 0:
                    await consumer.commit()
                    committed = await consumer.committed(part())
                    assert committed is not None
                    assert committed.offset == offset

    live(story)


@pytest.mark.parametrize("after", [1, 2, 3, 100, 200])
def test_a_wakeup_between_two_records_is_met_by_the_next_call(after: int) -> None:
    async def story(world: World) -> None:
        world.fill(part(), 1, 400)
        async with world.reader() as consumer:
            await fetched(consumer)
            await by_iteration(consumer, after, lambda: None)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await consumer.getone()
            assert (await consumer.getone()).offset == 1 + after

    live(story)


@pytest.mark.parametrize("seek", [0, 17, 350])
def test_a_seek_between_two_records_moves_the_next_one(seek: int) -> None:
    async def story(world: World) -> None:
        world.fill(part(), 1, 400)
        async with world.reader() as consumer:
            await fetched(consumer)
            await by_iteration(consumer, 200, lambda: world.sim.loop.block(0.0002))
            consumer.seek(part(), seek)
            assert (await consumer.getone()).offset == seek

    live(story)


def test_heartbeats_and_automatic_commits_go_on_while_records_take_their_time() -> None:
    async def story(world: World) -> None:
        world.fill(part(), 1, 10_000)
        options = {
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 2_000,
            "auto_commit_interval_ms": 1_000,
        }
        async with world.consumer("orders", group_id="g", **options) as consumer:
            handled = 0
            async for _ in consumer:
                world.sim.loop.block(0.004)
                handled += 1
                if handled == 9_000:
                    break
            committed = await consumer.committed(part())
            assert committed is not None
            assert committed.offset > 8_000
            assert world.requests.count("HEARTBEAT") >= 10
            assert world.requests.count("JOIN_GROUP") <= 2

    live(story)
