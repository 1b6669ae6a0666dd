"""A partition that comes while the broker waits for records of others is not held up by their long poll."""

from __future__ import annotations

import asyncio

from tests.unit.consumer.reading import World, live, offsets, part, parts, take

LONG_MS = 30_000
# Far less than a long poll, far more than a fetch that has something to bring.
SOON = 0.5


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_seek_does_not_wait_for_the_poll_under_way() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2, fetch_max_wait_ms=LONG_MS) as consumer:
            await take(consumer, 200)
            await asyncio.sleep(1)
            for place in (70, 30):  # the second while the first connection still owes its answer
                began = now()
                consumer.seek(part(1), place)
                found = (await take(consumer, 100 - place))[part(1)]
                assert offsets(found) == list(range(place, 100))
                assert place == 30 or now() - began < SOON
            world.fill(part(0))
            assert offsets((await take(consumer, 100))[part(0)]) == list(range(100, 200))

    live(story)


def test_a_partition_that_is_assigned_later_does_not_wait_for_the_others() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(1, fetch_max_wait_ms=LONG_MS) as consumer:
            await take(consumer, 100)
            await asyncio.sleep(1)
            began = now()
            consumer.assign(parts(2))
            assert set(await take(consumer, 100)) == {part(1)}
            assert now() - began < SOON

    live(story)


def test_a_poll_is_left_alone_while_nobody_needs_another() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.reader(2, fetch_max_wait_ms=LONG_MS) as consumer:
            await take(consumer, 200)
            await asyncio.sleep(1)
            before = len(world.fetches)
            consumer.pause(part(1))
            await consumer.topics()
            await asyncio.sleep(LONG_MS / 2000)
            assert len(world.fetches) == before

    live(story)
