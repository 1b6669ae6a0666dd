"""How the application's side waits for the client's: a bell that either side may ring, from any thread.

The order is: `clear`, look, `wait`. What is put there after the look rings the bell, so nothing is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
from typing import Protocol


class Bell(Protocol):
    """Rung when there is something to look at."""

    def ring(self) -> None: ...


class LoopBell:
    """For an application on an event loop; `threads` if others than the loop's own thread ring it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = False

    def bind(self, loop: asyncio.AbstractEventLoop, *, threads: bool) -> None:
        """From now on somebody may wait on this loop."""
        self._loop, self._threads = loop, threads

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which somebody may wait."""
        return self._loop or asyncio.get_running_loop()

    def ring(self) -> None:
        if self._threads:
            self.ring_from_outside()
        else:
            self._event.set()

    def ring_from_outside(self) -> None:
        """The same from another thread, or from a signal handler."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float | None) -> None:
        """Until it rings, or the time is up."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return


class ThreadBell:
    """For an application that blocks its thread.

    A `SimpleQueue`, because that is the one thing of the standard library which a signal handler may use
    while the thread that it interrupted is in the middle of using it too.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._rung = False

    def ring(self) -> None:
        if not self._rung:
            self._rung = True
            self._queue.put(None)

    def clear(self) -> None:
        # First empty, then unrung: whoever rings in between may leave nothing in the queue, but the look is
        # still to come. The other way round, its ring would be taken out of the queue and the bell stay rung,
        # and every later ring be lost.
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        self._rung = False

    def wait(self, seconds: float | None) -> None:
        """Until it rings, or the time is up."""
        with contextlib.suppress(queue.Empty):
            self._queue.get(timeout=seconds)
