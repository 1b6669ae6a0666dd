"""The end of a client: begun once, and waited for by everyone who closes it.

A signal handler may close a client while its `async with` block ends. If the second call returned at once,
`asyncio.run` would cancel the first. So the work is a task of its own, and callers watch it.

Code that cancels all tasks cancels that one too, perhaps before its first step. Then everything is told to
end at once, without waiting, and callers that still wait, or come later, wait for what is left of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

log: logging.Logger = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

# Keeps the closing of clients alive that nobody waits for any more: the loop itself holds its tasks weakly.
_running: set[asyncio.Task[None]] = set()
# Whose end the present code is part of: a rebalance listener may close the consumer that calls it.
_part_of: ContextVar[Ending | None] = ContextVar("part_of", default=None)


class Ending:
    """The closing of one client. A caller that is cancelled, or whose time is up, does not end it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._work: Work
        self._release: Callable[[], object]

    def __repr__(self) -> str:
        state = "not begun" if self._task is None else "done" if self.done else "under way"
        return f"<Ending {state}>"

    @property
    def begun(self) -> bool:
        return self._task is not None

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def begin(self, work: Work, release: Callable[[], object]) -> None:
        """Do the work that closes the client, which brings its own deadline. Called once.

        `release` tells tasks and sockets to end, without waiting, should the work be cut short. Then the work
        is called again by those who still wait: it has to bear that.
        """
        self._work, self._release = work, release
        self._start()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for so long, or as long as it takes, until it is done, and raise what it raised."""
        if self._task is None or _part_of.get() is self:
            return
        loop = asyncio.get_running_loop()
        ends = None if seconds is None else loop.time() + seconds
        while True:
            task = self._task
            if not task.done():
                await asyncio.wait([task], timeout=None if ends is None else max(0.0, ends - loop.time()))
            if not task.cancelled() or task.get_loop() is not loop:
                break
            if task is self._task:  # else another caller has gone on with it
                self._start()
        if task.done() and not task.cancelled():
            task.result()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kclient closes a client")
        _running.add(self._task)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        _running.discard(task)
        if task.cancelled():
            log.warning(
                "closing a client was cut short: its task was cancelled by code that is not kclient's"
            )
            self._release()

    async def _run(self) -> None:
        _part_of.set(self)
        await self._work()
