"""Counts the turns of an event loop beside code that gives hardly any; measures how far they lie apart."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Ticker:
    """Has the loop call it in every turn while the `with` block runs.

    On virtual time nothing else passes meanwhile: what is to come over the network has to be there before.
    """

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self.turns = 0
        # The longest time without a turn, in seconds.
        self.longest = 0.0
        self._next = self._loop.call_soon(self._tick)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next.cancel()
        self._see()

    def _tick(self) -> None:
        self.turns += 1
        self._see()
        self._next = self._loop.call_soon(self._tick)

    def _see(self) -> None:
        now = self._loop.time()
        self.longest, self._last = max(self.longest, now - self._last), now
