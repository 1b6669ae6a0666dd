"""Seeks that name no partitions, made before the group has assigned any: they wait, or say why not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import IllegalStateError, KafkaTimeoutError, TopicAuthorizationFailedError
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import Topic, World, live, part, parts, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill

RESETS = (("seek_to_beginning", 0), ("seek_to_end", 100))
KINDS: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"group_id": "g"},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
}
in_groups = pytest.mark.parametrize("kind", ["classic", "consumer"])


async def committed(world: World) -> None:
    world.fill_all(3)
    async with world.consumer(group_id="g") as consumer:
        await consumer.commit(dict.fromkeys(parts(3), 40))


@pytest.mark.parametrize(
    ("kind", "seek", "place"),
    [
        (kind, seek, place)
        for kind in KINDS
        for seek, place in (("seek_to_beginning", 0), ("seek_to_end", 100))
    ]
    + [(kind, "seek_to_committed", 40) for kind in ("classic", "consumer")],
)
@pytest.mark.parametrize("started", [True, False])
def test_a_seek_right_after_the_start_moves_what_will_be_assigned(
    kind: str, seek: str, place: int, started: bool
) -> None:
    async def story(world: World) -> None:
        await committed(world)
        consumer = world.consumer(Topic, **KINDS[kind])
        if started:
            await consumer.start()
        await getattr(consumer, seek)()
        assert consumer.assignment() == frozenset(parts(3))
        assert [await consumer.position(each) for each in parts(3)] == [place] * 3
        await consumer.close()

    live(story)


@in_groups
def test_a_member_that_gets_no_partition_seeks_nothing(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.consumer(Topic, **KINDS[kind]) as first:
            await take(first, 100)
            async with world.consumer(Topic, **KINDS[kind]) as second:
                reading = asyncio.ensure_future(first.getmany(timeout_ms=60_000))
                async with asyncio.timeout(20):
                    await second.seek_to_end()
                assert len(first.assignment() | second.assignment()) == 1
                reading.cancel()

    live(story)


@in_groups
def test_a_seek_says_what_keeps_the_partitions_from_it(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with world.consumer(Topic, default_api_timeout_ms=3_000, **KINDS[kind]) as consumer:
            world.broker.faults.drop(ApiKey.FIND_COORDINATOR, times=None)
            with pytest.raises(KafkaTimeoutError, match=r"no partition was assigned within 3 s: .+"):
                await consumer.seek_to_end()

    live(story)


def test_a_seek_of_what_may_not_be_read_says_so_at_once() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        world.broker.faults.answer_with(ApiKey.METADATA, TopicAuthorizationFailedError, times=None)
        consumer = world.consumer(Topic, group_id="g")
        with pytest.raises(TopicAuthorizationFailedError):
            await consumer.seek_to_end()
        world.broker.faults.clear()
        await consumer.close()

    live(story)


def test_a_consumer_of_nothing_cannot_seek() -> None:
    async def story(world: World) -> None:
        async with world.consumer(group_id="g") as consumer:
            with pytest.raises(IllegalStateError, match="nothing is assigned to this consumer"):
                await consumer.seek_to_beginning()

    live(story)


@pytest.mark.parametrize("io_thread", [False, True])
def test_a_listener_that_seeks_waits_for_nothing(io_thread: bool) -> None:
    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:

        async def story() -> None:
            told: list[int] = []

            class Listener:
                async def on_partitions_assigned(self, assigned: frozenset[Any]) -> None:
                    await consumer.seek_to_end()
                    told.append(len(assigned))

            options: dict[str, Any] = {"bootstrap_servers": running.bootstrap_servers, "group_id": "g"}
            consumer: AsyncConsumer[Any, Any] = AsyncConsumer(io_thread=io_thread, **options)
            consumer.subscribe(["missing"], listener=Listener())  # so it is told of no partition
            async with consumer:
                await until(lambda: bool(told), 30)
            assert told[0] == 0

        asyncio.run(story())


def test_a_blocking_consumer_seeks_right_after_its_start() -> None:
    class Listener:
        def on_partitions_assigned(self, assigned: frozenset[Any]) -> None:
            """Is called by the next call for records, for which the seek does not wait."""

    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        running.broker.create_topic(Topic, 1)
        fill(running, part())
        with consumer_of(running, group_id="g", auto_offset_reset="latest") as consumer:
            consumer.subscribe([Topic], listener=Listener())
            consumer.seek_to_beginning()
            assert consumer.poll(timeout_ms=PATIENCE_MS)[part()][0].offset == 0
