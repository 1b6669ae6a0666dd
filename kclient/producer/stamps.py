"""What time it is, for records that come without a timestamp of their own. Hot: asked for every record.

So there are two questions. `moment` is as cheap as a look at a clock can be, and says whether the time of
day that was read last, a `Tick`, still holds: as long as its millisecond has not passed. Only then is the
time of day read again, which follows a clock that is set forward or back.

Who sees that a tick is over also has the occasion to look at everything else that must be looked at in time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time_ns
from typing import NamedTuple, Protocol

from kclient.clock import Clock

# A tick holds for no longer than so many seconds.
LOOK = 0.001


class Tick(NamedTuple):
    """A time of day in milliseconds, and the moment from which on it is another."""

    ms: int
    until: float


class Stamps(Protocol):
    """Where an accumulator has its timestamps from."""

    @property
    def moment(self) -> Callable[[], float]:
        """A number that grows; at `Tick.until` or above that tick is over."""

    def tick(self) -> Tick:
        """What time it is."""


class SystemStamps:
    """The machine's clock."""

    moment: Callable[[], float] = staticmethod(monotonic)

    @staticmethod
    def tick() -> Tick:
        """Until the next millisecond of the wall clock begins."""
        moment = monotonic()  # first: a thread that is stopped in between has a tick too short, none too long
        ms, passed = divmod(time_ns(), 1_000_000)
        return Tick(ms, moment + LOOK - passed / 1e9)


class GivenStamps:
    """An application's clock, which goes as it likes, or stands still: it is read for every record.

    `now` is monotonic time.
    """

    def __init__(self, clock: Clock, now: Callable[[], float]) -> None:
        self._clock = clock
        self._now = now
        self._tick = Tick(-1, 0.0)
        self._changes = 0

    def moment(self) -> float:
        """How many ticks there were."""
        now, ms = self._now(), int(self._clock.wall() * 1000)
        if ms != self._tick.ms or now >= self._tick.until:
            self._tick = Tick(ms, now + LOOK)
            self._changes += 1
        return self._changes

    def tick(self) -> Tick:
        """Until the next one."""
        moment = self.moment()
        return Tick(self._tick.ms, moment + 0.5)
