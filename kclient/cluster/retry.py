"""Waiting between attempts: exponential, jittered, with the randomness handed in."""

from __future__ import annotations

from random import Random

# Failures in a row after which a new leader is no reason any more to try again without a pause: brokers that
# keep naming each other would be asked hundreds of times a second.
LEADERS_AT_ONCE = 10
_JITTER = 0.2


class Backoff:
    """Growing waits for one thing that keeps failing; `reset` once it has worked."""

    __slots__ = ("_first", "_most", "_random", "attempts")

    def __init__(self, first_ms: int, most_ms: int, random: Random) -> None:
        self._first = first_ms / 1000
        self._most = max(first_ms, most_ms) / 1000
        self._random = random
        self.attempts: int = 0

    @property
    def longest(self) -> float:
        """The wait that it grows to, in seconds, without jitter."""
        return self._most

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        wait = min(self._most, self._first * (1 << min(self.attempts, 32)))
        self.attempts += 1
        return wait * self._random.uniform(1 - _JITTER, 1 + _JITTER)

    def reset(self) -> None:
        self.attempts = 0
