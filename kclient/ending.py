"""The end of a client: begun once, and waited for by everyone who closes it.

A signal handler may close a client while its `async with` block ends. If the second call returned at once,
`asyncio.run` would cancel the first. So the work is a task of its own, and callers watch it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from kclient.errors import KafkaError

# Keeps the closing of clients alive that nobody waits for any more: the loop itself holds its tasks weakly.
_running: set[asyncio.Task[None]] = set()
# Whose end the present code is part of: a rebalance listener may close the consumer that calls it.
_part_of: ContextVar[Ending | None] = ContextVar("part_of", default=None)


class Ending:
    """The closing of one client. A caller that is cancelled, or whose time is up, does not end it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state = "not begun" if self._task is None else "done" if self.done else "under way"
        return f"<Ending {state}>"

    @property
    def begun(self) -> bool:
        return self._task is not None

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work that closes the client, which brings its own deadline. Called once."""
        self._task = asyncio.get_running_loop().create_task(self._run(work), name="kclient closes a client")
        _running.add(self._task)
        self._task.add_done_callback(_running.discard)

    async def wait(self, seconds: float) -> None:
        """Wait for so long until it is done, and raise what it raised."""
        task = self._task
        if task is None or _part_of.get() is self:
            return
        if not task.done():
            await asyncio.wait([task], timeout=seconds)
        if task.cancelled():
            raise KafkaError("closing was cut short: its task was cancelled by code that is not kclient's")
        if task.done():
            task.result()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        _part_of.set(self)
        await work
