"""Timers by name: starting one again replaces it, as groups put all their timers off again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """The timers of one group on the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, asyncio.TimerHandle] = {}

    def start(self, name: str, milliseconds: int, callback: Callable[[], None]) -> None:
        """Call back after so long, instead of when this name was to be called."""
        self.cancel(name)
        self._running[name] = self._loop.call_later(milliseconds / 1000, self._fire, name, callback)

    def cancel(self, name: str) -> None:
        handle = self._running.pop(name, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        for name in list(self._running):
            self.cancel(name)

    def _fire(self, name: str, callback: Callable[[], None]) -> None:
        del self._running[name]
        callback()
