"""A consumer group (KIP-848) on the embedded broker is balanced in a second, not in two heartbeats of 5 s."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kclient import AsyncConsumer
from kclient.broker import Broker
from kclient.testing import Simulation, simulate, until


async def _poll(consumer: AsyncConsumer) -> None:
    while True:
        await consumer.getmany(timeout_ms=100)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_two_members_share_the_partitions_soon_after_the_second_came_and_went() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.create_topic("orders", 6)

            def member() -> AsyncConsumer:
                return AsyncConsumer(
                    "orders",
                    bootstrap_servers=broker.bootstrap_servers,
                    group_id="billing",
                    group_protocol="consumer",
                )

            async with member() as first:
                polling = asyncio.create_task(_poll(first))
                await until(lambda: len(first.assignment()) == 6, within=1.0)
                async with member() as second:
                    also = asyncio.create_task(_poll(second))
                    await until(lambda: len(first.assignment()) == len(second.assignment()) == 3, within=2.0)
                    await _ended(also)
                await until(lambda: len(first.assignment()) == 6, within=2.0)
                await _ended(polling)

    simulate(main)
