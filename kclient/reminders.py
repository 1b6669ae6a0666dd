"""When to say again what is still the matter: after pauses that grow, so that nobody has to read a storm.

One place for all of it: what the log says of topics, partitions and brokers, and what calls of the
application raise. There is no clock and no timer here: callers pass the time of their event loop, and `next`
says when to ask again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Rhythm(NamedTuple):
    """Seconds: how long a thing lasts before it is said, the first pause after that, and the longest."""

    grace: float
    pause: float
    longest: float


# A topic that was just created, and a broker that restarts, are there in a moment.
IN_LOG = Rhythm(1.0, 60.0, 600.0)
IN_CALLS = Rhythm(0.0, 1.0, 60.0)


class Reminders:
    """Knows of each thing that is the matter when it is to be said next."""

    def __init__(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._next: dict[object, tuple[float, float]] = {}  # when, and the pause after that

    def __repr__(self) -> str:
        return f"<Reminders of {len(self._next)} things>"

    def due(self, about: object, now: float, since: float | None = None) -> bool:
        """Whether to say it now; who asks and is told so says it. `since` when it lasts, if not from now."""
        rhythm = self._rhythm
        begins = (now if since is None else since) + rhythm.grace
        at, pause = self._next.setdefault(about, (begins, rhythm.pause))
        if now < at:
            return False
        self._next[about] = (now + pause, min(2 * pause, rhythm.longest))
        return True

    def over(self, about: object) -> None:
        """It has passed: another time it is new."""
        self._next.pop(about, None)

    def keep(self, present: Collection[object]) -> None:
        """Everything else has passed."""
        for about in self._next.keys() - present:
            del self._next[about]

    def next(self) -> float | None:
        """When something is to be said, unless it passes before."""
        return min((at for at, _ in self._next.values()), default=None)
