"""Calls of a whole consumer that are given up, made at the wrong moment or with the wrong values."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import ConfigurationError, KafkaError
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata
from tests.unit.consumer.reading import World, live, offsets, part, parts, take


async def by_one(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return [(await consumer.getone()).offset]


async def by_many(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    got = await consumer.getmany(timeout_ms=1_000, max_records=7)
    return [record.offset for records in got.values() for record in records]


async def by_iteration(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return [(await anext(consumer)).offset]


@pytest.mark.parametrize("call", [by_one, by_many, by_iteration])
@pytest.mark.parametrize("steps", range(6))
def test_a_call_that_is_cancelled_at_any_step_loses_and_repeats_nothing(call: Any, steps: int) -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=10, records=20)
        async with world.reader() as consumer:
            seen: list[int] = []
            while len(seen) < 200:
                calling = asyncio.create_task(call(consumer))
                for _ in range(steps):
                    await asyncio.sleep(0)
                calling.cancel()
                try:
                    seen += await calling
                except asyncio.CancelledError:
                    seen += await call(consumer)
            assert seen == list(range(200))

    live(story)


def test_offsets_to_commit_and_to_seek_may_be_numbers_or_tuples_and_nothing_else() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.consumer("orders", group_id="billing", enable_auto_commit=False) as consumer:
            await take(consumer, 100)
            told: list[tuple[Any, KafkaError | None]] = []
            consumer.commit_nowait({part(): 10}, lambda *outcome: told.append(outcome))
            await until(lambda: bool(told))
            assert told == [({part(): OffsetAndMetadata(10)}, None)]
            assert await consumer.committed(part()) == OffsetAndMetadata(10)
            await consumer.commit({part(): (11, "half way")})
            assert await consumer.committed(part()) == OffsetAndMetadata(11, "half way")
            wrong: list[Any] = ["10", None, -1, OffsetAndMetadata(-1), (1,), ("1", ""), (1, "", 2)]
            for offset in wrong:
                with pytest.raises(ConfigurationError, match="must"):
                    await consumer.commit({part(): offset})
                with pytest.raises(ConfigurationError, match="must"):
                    consumer.commit_nowait({part(): offset})
                with pytest.raises(ConfigurationError, match="must"):
                    consumer.seek(part(), offset)

    live(story)


def test_what_was_fetched_before_a_pause_is_not_fetched_again() -> None:
    async def story(world: World) -> None:
        world.fill_all(2, batches=3)
        async with world.reader(2) as consumer:
            await until(lambda: consumer.metrics().bytes_buffered > 0)
            await asyncio.sleep(1)
            consumer.pause(part(0))
            assert set(await take(consumer, 300)) == {part(1)}
            assert await consumer.getmany(timeout_ms=5_000) == {}
            before = consumer.metrics().bytes_fetched
            consumer.resume(part(0))
            assert offsets((await take(consumer, 300))[part(0)]) == list(range(300))
            assert consumer.metrics().bytes_fetched == before
            assert consumer.assignment() == set(parts(2))

    live(story)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.assign(["orders"]),
        lambda consumer: consumer.assign([("orders", -1)]),
        lambda consumer: consumer.pause("orders"),
        lambda consumer: consumer.seek("orders", 5),
        lambda consumer: consumer.lag([part()]),
        lambda consumer: consumer.getmany("orders"),
        lambda consumer: consumer.position("orders"),
        lambda consumer: consumer.committed("orders"),
        lambda consumer: consumer.commit({"orders": 5}),
        lambda consumer: consumer.beginning_offsets(part()),
        lambda consumer: consumer.seek_to_end("orders"),
    ],
)
def test_what_is_no_partition_is_refused_with_an_example(call: Any) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader(group_id="billing") as consumer:
            with pytest.raises(ConfigurationError, match="is no partition: give TopicPartition"):
                await call(consumer)

    live(story)


@pytest.mark.parametrize("timestamp", [-2, 1.5, "today"])
def test_what_is_no_time_is_refused(timestamp: Any) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            with pytest.raises(ConfigurationError, match="milliseconds since 1970"):
                await consumer.seek_to_timestamp(timestamp)
            with pytest.raises(ConfigurationError, match="milliseconds since 1970"):
                await consumer.offsets_for_times({part(): timestamp})

    live(story)


@pytest.mark.parametrize("name", [None, ["orders"]])
def test_what_is_no_topic_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a name"):
        AsyncConsumer(name)
