"""What code of users may do when a client calls it: functions that raise, for tests of every such place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# An error, what looks like a cancellation of ours, and the two that end a program.
RAISED: list[type[BaseException]] = [ValueError, asyncio.CancelledError, SystemExit, KeyboardInterrupt]
EXITS = (SystemExit, KeyboardInterrupt)


def raises(raised: type[BaseException]) -> Callable[[], object]:
    def function() -> object:
        raise raised

    return function


def raises_awaited(raised: type[BaseException]) -> Callable[[], Awaitable[object]]:
    async def function() -> object:
        await asyncio.sleep(0.1)  # of virtual time, or a moment
        raise raised

    return function


async def gathers_cancelled_workers() -> None:
    """What most asyncio programs do when partitions go: it raises `CancelledError`."""
    workers = [asyncio.create_task(asyncio.sleep(60)) for _ in range(3)]
    await asyncio.sleep(0)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers)
