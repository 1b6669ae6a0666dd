"""The module `time` on virtual time, for libraries that ask it rather than the loop.

What such a library waits for, or calls old, moves with the simulation then, and comes out the same each time.
Only this thread is told virtual time: others in the process are not part of the simulation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kclient.clock import LoopTime
from kclient.testing.clock import VirtualClock

T = TypeVar("T", int, float)


@contextmanager
def virtual_time(loop: LoopTime, clock: VirtualClock) -> Iterator[None]:
    """Have `time.time`, `time.monotonic` and their `_ns` give the time of a loop to this thread."""
    before = {name: getattr(time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns")}
    inside = {
        "time": clock.wall,
        "time_ns": lambda: round(clock.wall() * 1_000_000_000),
        "monotonic": loop.time,
        "monotonic_ns": lambda: round(loop.time() * 1_000_000_000),
    }
    try:
        for name, virtual in inside.items():
            setattr(time, name, _for_this_thread(virtual, before[name]))
        yield
    finally:
        for name, real in before.items():
            setattr(time, name, real)


def _for_this_thread(virtual: Callable[[], T], real: Callable[[], T]) -> Callable[[], T]:
    own = threading.get_ident()

    def now() -> T:
        return virtual() if threading.get_ident() == own else real()

    return now
