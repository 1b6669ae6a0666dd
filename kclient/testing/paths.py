"""Places and what lies between them: how long bytes take from one to the other, and whether they get there.

Pure bookkeeping: who asks for a path and acts on the answer is `network`. A place is a host ("kafka-1"),
which means all of its ports, or one address (("kafka-1", 9092)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
Place: TypeAlias = "str | Address"
Latency: TypeAlias = "tuple[float, float] | Callable[[Random], float]"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a path does to bytes.

    `latency` is the time a packet takes, in seconds: a range to draw from evenly, or a function that draws.
    `bandwidth` is in bytes per second, of each connection in each direction. `segments` is the range of sizes
    in which bytes arrive, whatever the sizes were in which they were written; None delivers what has arrived.
    """

    latency: Latency = (0.0005, 0.002)
    bandwidth: float | None = None
    segments: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise ValueError(
                f"bandwidth={self.bandwidth}: nothing would ever arrive, use `partition` for that"
            )
        if self.segments is not None and not 1 <= self.segments[0] <= self.segments[1]:
            raise ValueError(f"segments={self.segments}: give a range of sizes from 1 byte on")

    def delay(self, random: Random) -> float:
        """Draw how long the next packet takes."""
        if callable(self.latency):
            return max(0.0, self.latency(random))
        return random.uniform(*self.latency)

    def piece(self, random: Random, available: int) -> int:
        """Draw how many of the bytes that are there are seen at once."""
        return available if self.segments is None else min(available, random.randint(*self.segments))


class Paths:
    """The conditions between places and the ways that are barred, each from one place to another."""

    def __init__(self) -> None:
        self.default: Conditions = Conditions()
        self._special: dict[tuple[Place | None, Place | None], Conditions] = {}
        self._barred: dict[tuple[Place | None, Place | None], None] = {}

    def set(self, source: Place | None, target: Place | None, conditions: Conditions) -> None:
        self._special[source, target] = conditions

    def conditions(self, source: Address, target: Address) -> Conditions:
        """What applies from one end of a connection to the other; of several rules the last that was set."""
        for rule in reversed(self._special):
            if _applies(rule, source, target):
                return self._special[rule]
        return self.default

    def bar(self, source: Place | None, target: Place | None) -> None:
        """Let nothing through from a place to another; None is every place."""
        self._barred[source, target] = None

    def clear(self, source: Place | None, target: Place | None) -> None:
        self._barred.pop((source, target), None)

    def clear_all(self) -> None:
        self._barred.clear()

    def barred(self, source: Address, target: Address) -> bool:
        return any(_applies(rule, source, target) for rule in self._barred)


def covers(place: Place | None, address: Address) -> bool:
    """Whether an address is at a place."""
    return place is None or place in (address, address[0])


def _applies(rule: tuple[Place | None, Place | None], source: Address, target: Address) -> bool:
    return covers(rule[0], source) and covers(rule[1], target)
