"""Closing ends in time and leaves nothing behind, whatever the brokers do and whoever cancels it.

On virtual time: tasks, timers and sockets that outlive a story fail it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from kclient.admin import AsyncAdmin
from kclient.broker import Broker
from kclient.consumer import AsyncConsumer
from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.producer import AsyncProducer
from kclient.testing import Simulation, simulate
from kclient.types import TopicPartition

CONSUMERS: dict[str, dict[str, Any]] = {
    "assigned": {},
    "assigned in a group": {"group_id": "billing"},
    "classic": {"group_id": "billing"},
    "consumer": {"group_id": "billing", "group_protocol": "consumer"},
}
IMPATIENT: dict[str, Any] = {"request_timeout_ms": 1_000, "socket_connection_setup_timeout_ms": 1_000}
# Beyond the time that the caller gives: ending tasks and closing sockets, and the turns of the loop.
GRACE = 0.25

of_every_kind = pytest.mark.parametrize("kind", CONSUMERS)
cancelled_after = pytest.mark.parametrize("seconds", [0.0005, 0.3, 1.2, 2.72])


class World:
    def __init__(self, sim: Simulation, broker: Broker) -> None:
        self.sim = sim
        self.broker = broker
        self.options = {"bootstrap_servers": broker.bootstrap_servers, **IMPATIENT}

    def freeze(self) -> None:
        """Have every broker fall silent; connections stay open, and new ones can be made."""
        self.broker.faults.drop(None, handled=False, times=None)

    async def reading(self, kind: str, **options: Any) -> AsyncConsumer[Any, Any]:
        """A consumer that has got a record and has yet to commit it."""
        consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
            auto_offset_reset="earliest", **self.options, **CONSUMERS[kind], **options
        )
        if kind.startswith("assigned"):
            consumer.assign([TopicPartition("orders", 0)])
        else:
            consumer.subscribe(["orders"])
        await consumer.start()
        await consumer.getone()
        return consumer


async def given_up(closing: Coroutine[Any, Any, None], seconds: float, loop_ends: bool) -> None:
    """Cancel the caller of a close; the close goes on by itself, unless the loop ends and cancels it, too."""
    task = asyncio.create_task(closing)
    await asyncio.sleep(seconds)
    ours = {task, *(each for each in asyncio.all_tasks() if each.get_name() == "kclient closes a client")}
    for each in ours if loop_ends else [task]:
        each.cancel()
    await asyncio.wait(ours)


def live(story: Callable[[World], Awaitable[None]]) -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker:
            broker.create_topic("orders", replication_factor=3)
            servers = broker.bootstrap_servers
            async with AsyncProducer(bootstrap_servers=servers, clock=sim.clock) as producer:
                await producer.send_and_wait("orders", b"first")
            await story(World(sim, broker))

    simulate(main)


@of_every_kind
@pytest.mark.parametrize("timeout_ms", [3_000, 1_000, 0])
@pytest.mark.parametrize("frozen_for", [0, 3])
def test_a_consumer_of_frozen_brokers_closes_in_time_and_leaves_nothing(
    kind: str, frozen_for: float, timeout_ms: float
) -> None:
    async def story(world: World) -> None:
        consumers = [await world.reading(kind) for _ in range(1 if "group" in kind else 3)]
        world.freeze()
        await asyncio.sleep(frozen_for)
        for consumer in consumers:
            began = world.sim.loop.time()
            await consumer.close(timeout_ms=timeout_ms)
            assert world.sim.loop.time() - began <= timeout_ms / 1000 + GRACE

    live(story)


@of_every_kind
@cancelled_after
@pytest.mark.parametrize(("frozen", "loop_ends"), [(True, False), (True, True), (False, True)])
def test_a_close_of_a_consumer_that_is_cancelled_leaves_nothing(
    kind: str, seconds: float, frozen: bool, loop_ends: bool
) -> None:
    async def story(world: World) -> None:
        consumer = await world.reading(kind)
        if frozen:
            world.freeze()
            await asyncio.sleep(2)
        await given_up(consumer.close(timeout_ms=3_000), seconds, loop_ends)

    live(story)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_listener_that_never_returns_does_not_keep_a_consumer_from_closing(kind: str) -> None:
    class Listener:
        async def on_partitions_revoked(self, _: object) -> None:
            await asyncio.Event().wait()

    async def story(world: World) -> None:
        consumer = await world.reading(kind)
        consumer.subscribe(["orders"], listener=Listener())
        began = world.sim.loop.time()
        await consumer.close(timeout_ms=3_000)
        assert world.sim.loop.time() - began <= 3 + GRACE

    live(story)


@pytest.mark.parametrize("frozen_for", [0, 3])
def test_a_producer_of_frozen_brokers_closes_in_time_and_leaves_nothing(frozen_for: float) -> None:
    async def story(world: World) -> None:
        producer = AsyncProducer(**world.options, clock=world.sim.clock)
        await producer.send_and_wait("orders", b"x")
        world.freeze()
        delivery = await producer.send("orders", b"y")
        await asyncio.sleep(frozen_for)
        began = world.sim.loop.time()
        with pytest.raises(KafkaTimeoutError, match="1 of topic orders"):
            await producer.close(timeout_ms=3_000)
        assert world.sim.loop.time() - began <= 3 + GRACE
        with pytest.raises(KafkaError):
            await delivery

    live(story)


@cancelled_after
@pytest.mark.parametrize(("frozen", "loop_ends"), [(True, False), (True, True), (False, True)])
def test_a_close_of_a_producer_that_is_cancelled_leaves_nothing(
    seconds: float, frozen: bool, loop_ends: bool
) -> None:
    async def story(world: World) -> None:
        producer = AsyncProducer(**world.options, clock=world.sim.clock)
        await producer.send_and_wait("orders", b"x")
        if frozen:
            world.freeze()
        delivery = await producer.send("orders", b"y")
        await given_up(producer.close(timeout_ms=3_000), seconds, loop_ends)
        with suppress(KafkaError):
            await delivery

    live(story)


@pytest.mark.parametrize("seconds", [None, 0.0005, 0.3])
def test_an_admin_of_frozen_brokers_closes_and_leaves_nothing(seconds: float | None) -> None:
    async def story(world: World) -> None:
        admin = AsyncAdmin(**world.options)
        await admin.list_topics()
        world.freeze()
        asking = asyncio.create_task(admin.list_topics(timeout_ms=60_000))
        await asyncio.sleep(3)
        if seconds is None:
            await admin.close(timeout_ms=3_000)
        else:
            await given_up(admin.close(timeout_ms=3_000), seconds, loop_ends=True)
        with pytest.raises(KafkaError):
            await asking

    live(story)
