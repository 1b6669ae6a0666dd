"""Time as it reaches kclient: a wall clock that a test can replace, and deadlines.

Monotonic time is the event loop's own (`loop.time()`), so a loop on virtual time moves everything with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kclient.errors import KafkaTimeoutError


class Clock(Protocol):
    """Says what the time of day is, in seconds since the epoch."""

    def wall(self) -> float: ...


class SystemClock:
    """The machine's clock."""

    def wall(self) -> float:
        return time.time()


class LoopTime(Protocol):
    """The part of an event loop that deadlines need."""

    def time(self) -> float: ...


def fine_time(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Monotonic time in much less than milliseconds: the loop's own, unless that is as coarse as uvloop's."""
    if not isinstance(loop, asyncio.BaseEventLoop):
        return time.monotonic
    # The loop's own, without the call around it.
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in loop time by which something must have ended. Computed once, then passed down."""

    at: float
    seconds: float

    @classmethod
    def after(cls, loop: LoopTime, seconds: float) -> Deadline:
        return cls(loop.time() + seconds, seconds)

    def remaining(self, loop: LoopTime) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - loop.time())

    def passed(self, loop: LoopTime) -> bool:
        return loop.time() >= self.at

    def earlier(self, loop: LoopTime, seconds: float) -> Deadline:
        """A deadline for one part of the work: `seconds` from now, but never after this one."""
        part = Deadline.after(loop, seconds)
        return part if part.at < self.at else self

    def expired(self, what: str) -> KafkaTimeoutError:
        """The error for work that did not end in time."""
        return KafkaTimeoutError(f"{what} did not end within {self.seconds:g} s")
