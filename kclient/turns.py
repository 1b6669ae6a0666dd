"""When a loop over calls that need not wait owes the event loop a turn.

A call that finds what it wants at hand (a record in the buffer, room for one) ends without a turn of the
event loop, and so does a loop over such calls, however long the application works in between: no heartbeat,
no answer and no other task would have theirs. Reading the clock in every call would be felt. So a consumer
looks at it only after some records, of which there are as many as fit into the time that is left, by the pace
that the application had last. What is granted doubles at most, and is never more than some
records: a loop that slows down at once is late by one grant; one that keeps its pace never is. After a pause
nothing is known of what comes, and the first grant is one record again.

A producer looks at the clock for every record anyway, for its timestamp, and asks `Turns.due` once a
millisecond.

Both asyncio clients use it. It knows no event loop: the clients give the turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# Seconds in which the event loop gets a turn.
EVERY = 0.01
# The most records that are granted at once. A loop that slows down to milliseconds for each, after a burst,
# would keep the event loop waiting for seconds otherwise.
RECORDS = 128


class Turns:
    """When the loop had its last one. `now` is a clock that goes on while code runs."""

    __slots__ = ("_looked", "last", "now", "pauses")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now: Callable[[], float] = now
        self.last: float = now()
        self._looked = self.last
        self.pauses: int = 0

    def due(self, every: float) -> bool:
        """Whether the loop has to have its turn before the next look: that comes with the first record after
        `every` seconds, so in twice as many at most, or in the time since the last one for slow applications.
        """
        now = self.now()
        since, self._looked = now - self._looked, now
        return self.last + EVERY - now < max(since, 2 * every)

    def given(self) -> None:
        """It has just had one."""
        self.last = self._looked = self.now()

    def paused(self) -> None:
        """It has had some, and the application did something else meanwhile: no pace is known any more."""
        self.pauses += 1
        self.last = self._looked = self.now()


class Pace:
    """How fast the application works on one stream of records, and how much of it may be done without a look.

    `most` is the most that is granted at once; it is never more than `RECORDS`.
    """

    __slots__ = ("_each", "_granted", "_looked", "_most", "_pauses", "_turns")

    def __init__(self, turns: Turns, most: int) -> None:
        self._turns = turns
        self._most = most
        self._granted = 1
        self._each = 0.0  # seconds, for each of what was done last
        self._looked = turns.last
        self._pauses = turns.pauses

    def __repr__(self) -> str:
        return f"<Pace: {self._each:g} s each, {self._granted} granted>"

    def grant(self, done: int) -> int:
        """How much may be done before the next look; 0 when the loop has to have its turn.

        `done` is what was done since the last look, of what was granted then.
        """
        turns = self._turns
        now = turns.now()
        if self._pauses != turns.pauses:
            self._pauses = turns.pauses
            self._granted, self._each = 1, 0.0
        elif done:
            self._each = (now - self._looked) / done
            self._granted *= 2
        self._looked = now
        left = turns.last + EVERY - now
        return 0 if left <= 0 or left < self._each else self._within(left)

    def after_turn(self) -> int:
        """The same when the loop has just had one."""
        self._looked = self._turns.last
        return self._within(EVERY)

    def _within(self, seconds: float) -> int:
        amount = min(self._most, self._granted, RECORDS)
        if self._each * amount > seconds:
            amount = int(seconds / self._each)
        self._granted = amount = max(amount, 1)
        return amount
