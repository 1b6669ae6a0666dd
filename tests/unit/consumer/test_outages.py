"""Outages seen by a whole consumer, on the embedded broker in virtual time.

It comes back by itself, says what is the matter meanwhile, and no call waits for longer than it was told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.errors import KafkaError
from tests.unit.consumer.reading import World, live, offsets, part, take

KINDS: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"group_id": "billing"},
    "modern": {"group_id": "billing", "group_protocol": "consumer"},
}

of_every_kind = pytest.mark.parametrize("kind", KINDS)


async def stop_all(world: World) -> None:
    for node in world.broker.nodes:
        await world.broker.stop_node(node)


async def start_all(world: World) -> None:
    for node in world.broker.nodes:
        await world.broker.start_node(node)


@of_every_kind
@pytest.mark.parametrize("minutes", [0.1, 10])
def test_a_consumer_reads_on_after_the_whole_cluster_was_down(
    kind: str, minutes: float, caplog: pytest.LogCaptureFixture
) -> None:
    """After ten minutes the broker has forgotten the member, and a group without members with it."""

    async def story(world: World) -> None:
        world.fill_all(1)
        consumer = world.consumer("orders", **KINDS[kind])
        async with consumer:
            assert offsets((await take(consumer, 100))[part()]) == list(range(100))
            await stop_all(world)
            assert await consumer.getmany(timeout_ms=minutes * 60_000) == {}
            health = consumer.health()
            assert not health.cluster.connected
            assert health.cluster.last_error is not None
            await start_all(world)
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))
            assert consumer.health().cluster.connected

    live(story, nodes=3)
    warnings = [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]
    assert len(warnings) <= 8, warnings  # one for each thing that goes wrong, not one for each time


@of_every_kind
def test_a_consumer_reads_on_after_its_broker_restarted(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        consumer = world.consumer("orders", **KINDS[kind])
        async with consumer:
            await take(consumer, 100)
            for node in world.broker.nodes:
                await world.broker.stop_node(node)
                assert await consumer.getmany(timeout_ms=20_000) == {}
                await world.broker.start_node(node)
                world.fill(part())
                await take(consumer, 100)

    live(story, nodes=3)


@of_every_kind
def test_no_call_outlives_its_time_when_kafka_is_gone(kind: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(1)
        consumer = world.consumer("orders", **KINDS[kind])
        await consumer.start()
        await take(consumer, 100)
        now = world.sim.loop.time
        world.broker.faults.drop(None, times=None)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "getmany": lambda: consumer.getmany(timeout_ms=3_000),
            "end_offsets": lambda: consumer.end_offsets([part()], timeout_ms=3_000),
            "offsets_for_times": lambda: consumer.offsets_for_times({part(): 0}, timeout_ms=3_000),
        }
        if "group_id" in KINDS[kind]:
            calls["commit"] = lambda: consumer.commit(timeout_ms=3_000)
            calls["committed"] = lambda: consumer.committed(part(), timeout_ms=3_000)
        for name, call in calls.items():
            began = now()
            try:
                await call()
            except KafkaError:
                assert name != "getmany"
            assert now() - began <= 3.2, name
        began = now()
        await consumer.close(timeout_ms=3_000)
        assert now() - began <= 3.2

    live(story, nodes=3)


def test_a_listener_hears_of_the_close_also_when_kafka_is_gone() -> None:
    """The automatic commit, which comes first, cannot succeed; it must not use up all the time."""
    told: list[object] = []

    class Listener:
        def on_partitions_revoked(self, revoked: object) -> None:
            told.append(revoked)

    async def story(world: World) -> None:
        world.fill_all(1)
        consumer = world.consumer(group_id="billing")
        consumer.subscribe(["orders"], listener=Listener())
        await consumer.start()
        await take(consumer, 100)
        world.broker.faults.drop(None, times=None)
        told.clear()
        await consumer.close(timeout_ms=3_000)

    live(story)
    assert told == [{part()}]
