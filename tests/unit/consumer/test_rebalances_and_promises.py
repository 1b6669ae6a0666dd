"""What the page promises of rebalances: when offsets are committed, and what becomes of a pause."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from tests.unit.consumer.reading import Topic, World, live, parts, take

AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition_assignment_strategy": ["range"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_protocol": "consumer"},
}


def member(world: World, protocol: str, listener: object = None) -> AsyncConsumer[Any, Any]:
    consumer = world.consumer(group_id="billing", heartbeat_interval_ms=500, **PROTOCOLS[protocol])
    consumer.subscribe([Topic], listener=listener)
    return consumer


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("how", ["close", "unsubscribe", "rebalance"])
def test_offsets_are_committed_before_the_listener_is_told_of_what_goes(protocol: str, how: str) -> None:
    found: dict[TopicPartition, int | None] = {}

    async def story(world: World) -> None:
        world.fill_all(2)

        class Listener:
            async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
                async with world.consumer(group_id="billing") as other:
                    for partition in revoked:
                        place = await other.committed(partition)
                        found[partition] = None if place is None else place.offset

        consumer = member(world, protocol, Listener())
        await consumer.start()
        await take(consumer, 200)
        if how == "close":
            await consumer.close()
        elif how == "unsubscribe":
            consumer.unsubscribe()
            await until(lambda: bool(found), 60)
        else:
            async with member(world, protocol):
                reading = asyncio.create_task(consumer.getmany(timeout_ms=600_000))
                await until(lambda: bool(found), 120)
                reading.cancel()
        await consumer.close()

    live(story, config=AT_ONCE)
    assert found
    assert set(found.values()) == {100}


@pytest.mark.parametrize(("protocol", "kept"), [("range", False), ("cooperative", True), ("consumer", True)])
def test_a_pause_outlasts_a_rebalance_where_the_partition_does(protocol: str, kept: bool) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with member(world, protocol) as consumer:
            await take(consumer, 200)
            consumer.pause(*parts(2))
            reading = asyncio.create_task(consumer.getmany(timeout_ms=600_000))
            async with member(world, protocol) as other:
                await until(lambda: len(consumer.assignment()) == len(other.assignment()) == 1, 120)
                assert (consumer.paused() == consumer.assignment()) is kept
                assert other.paused() == frozenset()
            reading.cancel()

    live(story, config=AT_ONCE)
