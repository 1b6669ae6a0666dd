"""The time of day in a simulation: it moves with the loop, from an instant that the test chooses."""

from __future__ import annotations

from kclient.clock import LoopTime

# Somewhere in a Tuesday afternoon (2026-03-10 15:06:40 UTC): no midnight, no end of a month, no change to
# summer time comes up by accident.
DEFAULT_START = 1_773_155_200.0


class VirtualClock:
    """A `kclient.clock.Clock` on loop time: `wall()` is `start` plus the loop's time.

    >>> from kclient.testing import VirtualClock, VirtualLoop
    >>> VirtualClock(VirtualLoop(), start=1000.0).wall()
    1000.0
    """

    def __init__(self, loop: LoopTime, start: float = DEFAULT_START) -> None:
        self._loop = loop
        self._start = start

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.wall():.6f}>"

    def wall(self) -> float:
        return self._start + self._loop.time()

    def shift(self, seconds: float) -> None:
        """Set the clock forward, or back, as an administrator or NTP does; timers do not notice."""
        self._start += seconds
