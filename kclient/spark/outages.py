"""What a query waits for while brokers cannot be reached, said in the log of whoever waits.

Spark shows a micro-batch that is not planned yet, or a task that runs, and nothing else: without these lines
nobody knows that a query waits for Kafka and goes on by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

# Seconds after which a wait is worth a line, and the longest pause until the next one.
_FIRST = 2.0
_LONGEST = 60.0


class Outage:
    """One wait, over all attempts of a question: `what` is asked, `servers` are those who should answer."""

    def __init__(self, what: str, servers: str) -> None:
        self._what = what
        self._servers = servers
        self._began: float | None = None
        self._due = 0.0
        self._told = False

    @contextmanager
    def told(self, reason: Callable[[], object]) -> Iterator[None]:
        """Tell of the wait while this block runs, and that it is over if it ends without an error."""
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time()
            self._due = self._began + _FIRST
        began = self._began
        timer: asyncio.TimerHandle

        def tell() -> None:
            nonlocal timer
            waited = loop.time() - began
            log.warning(
                "%s: waiting for brokers of %s for %.0f s, asking again (%s)",
                self._what,
                self._servers,
                waited,
                reason() or "no answer yet",
            )
            self._told = True
            self._due = loop.time() + min(_LONGEST, max(_FIRST, 2 * waited))
            timer = loop.call_at(self._due, tell)

        timer = loop.call_at(self._due, tell)
        try:
            yield
            if self._told:
                self._told = False
                log.warning("%s: answered after %.0f s", self._what, loop.time() - began)
        finally:
            timer.cancel()
