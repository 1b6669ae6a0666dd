"""What a query waits for while brokers cannot be reached, said in the log of whoever waits.

Spark shows a micro-batch that is not planned yet, or a task that runs, and nothing else: without these lines
nobody knows that a query waits for Kafka and goes on by itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from kclient.errors import ClientClosedError

if TYPE_CHECKING:
    from kclient.producer import Producer

log: logging.Logger = logging.getLogger(__name__)

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


class RowsWaiting:
    """Tells, from a thread, of a task whose rows no broker takes: a producer waits without a word.

    Only `blocked` parts count: elsewhere the task waits for Spark. Rows that are acknowledged meanwhile show
    that brokers are there and slow. A wait that a failure ends is not said to be over: the failure says why.
    """

    def __init__(self, producer: Producer, servers: str) -> None:
        self._producer = producer
        self._servers = servers
        self._blocked_at: float | None = None
        self._over = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._watch, name="kclient: rows waiting", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._failed = kind is not None
        self._over.set()
        self._thread.join()

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """The task waits for brokers while this block runs."""
        self._blocked_at = time.monotonic()
        try:
            yield
        finally:
            self._blocked_at = None

    def _watch(self) -> None:
        written, came_at, told_at = -1, time.monotonic(), 0.0
        while not self._over.wait(_FIRST):
            with suppress(ClientClosedError):  # the task has failed, and tells why
                before, written = written, self._producer.metrics().records
                now, blocked_at = time.monotonic(), self._blocked_at
                if written != before != -1:
                    self._goes_on(now - came_at, bool(told_at))
                    came_at, told_at = now, 0.0
                    continue
                if blocked_at is None:
                    # Not yet over: rows that are given up let the task go on too, until it sees their errors.
                    came_at = came_at if told_at else now
                    continue
                waited = now - max(came_at, blocked_at)
                if waited >= max(_FIRST, min(2 * told_at, told_at + _LONGEST)):
                    self._tell(waited)
                    told_at = waited
        self._goes_on(time.monotonic() - came_at, bool(told_at) and not self._failed)

    def _goes_on(self, waited: float, told: bool) -> None:
        if told:
            log.warning("writing rows: the wait is over after %.0f s", waited)

    def _tell(self, waited: float) -> None:
        log.warning(
            "writing rows: waiting for brokers of %s for %.0f s, sending again (%s)",
            self._servers,
            waited,
            self._producer.health().last_error or "no answer yet",
        )
