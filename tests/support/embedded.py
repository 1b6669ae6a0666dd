"""Short ways to an embedded broker in a simulation, for tests that speak to it request by request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kclient.broker.broker import Broker
from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.net.connection import Connection
from kclient.net.dial import dial
from kclient.testing import Simulation, simulate
from kclient.wire.messages.metadata import FindCoordinatorRequest
from tests.support.connecting import settings


def within(seconds: float) -> Deadline:
    return Deadline.after(asyncio.get_running_loop(), seconds)


def find(key: str = "g") -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[key])


def address(broker: Broker, node: int = 1) -> tuple[str, int]:
    listener = next(iter(broker.nodes[node].listeners.values()))
    return listener.spec.host, listener.port


@asynccontextmanager
async def connected(broker: Broker, node: int = 1) -> AsyncIterator[Connection]:
    """A connection to one node."""
    connection = await dial(Endpoint(*address(broker, node)), settings(request_timeout=10_000.0), within(30))
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


def simulated(check: Callable[[Broker, Connection], Awaitable[None]], **options: Any) -> None:
    """Run a check on virtual time, with a broker and a connection to its first node."""

    async def main(sim: Simulation) -> None:
        async with (
            Broker(clock=sim.clock, seed=sim.seed, **options) as broker,
            connected(broker) as connection,
        ):
            await check(broker, connection)

    simulate(main)
