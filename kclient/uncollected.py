"""Lists of many new objects, made without the garbage collector walking over them meanwhile.

On Python 3.11 it would run after every 700 objects, for a third of the time in which records are made; later
versions run it once at the end, for a twentieth. `records.objects` and `consumer.decode` call this; it adds a
microsecond, so small lists are made without.

Nothing of it can be seen from outside. Reading the threshold, raising it, making the objects and putting the
threshold back are one call of a function written in C: the interpreter changes threads, runs signal handlers
and forks between byte codes only, so nobody finds the higher threshold or changes it in between, and nothing
of it is left. `gc.disable` would not do: whether the collector is on is the application's choice, which may
change while its own code runs. This holds as long as there is one lock around the interpreter; without it
(free-threaded builds) lists are made as usual.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from itertools import starmap
from operator import call
from typing import Any, TypeVar

T = TypeVar("T")

# More objects than a record batch has: one that had more would be collected now and then, and no worse.
_THRESHOLD = 10_000_003
_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
_INDIVISIBLE = sys.implementation.name == "cpython" and _locked()


def list_uncollected(*items: Iterator[T]) -> list[T]:
    """One list of all items. None of them may run code written in Python: it would divide the call."""
    made: list[T] = []
    before: list[tuple[int, int, int]] = []
    steps: list[tuple[Any, ...]] = [(made.extend, each) for each in items]
    if _INDIVISIBLE:
        read = (before.extend, starmap(gc.get_threshold, ((),)))
        answers: list[None] = []
        put_back = (answers.extend, starmap(gc.set_threshold, before))  # reads the list when its turn comes
        steps = [read, (gc.set_threshold, _THRESHOLD), *steps, put_back]
    try:
        any(starmap(call, steps))  # each gives None, so all are done
    except BaseException:  # want of memory: the last step had no turn
        if before:
            gc.set_threshold(*before[0])
        raise
    return made
