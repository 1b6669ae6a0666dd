"""Many new objects, made without the garbage collector walking over them again and again.

On Python 3.11 it would run after every 700 objects, for a third of the time in which records are made; later
versions run it once at the end, for a twentieth.

`list_uncollected` is for one list; `records.objects` and `consumer.decode` call it. It adds a microsecond, so
small lists are made without. Nothing of it can be seen from outside. Reading the threshold, raising it,
making the objects and putting the threshold back are one call of a function written in C: the interpreter
changes threads, runs signal handlers and forks between byte codes only, so nobody finds the higher threshold
or changes it in between, and nothing of it is left. `gc.disable` would not do: whether the collector is on is
the application's choice, which may change while its own code runs. This holds as long as there is one lock
around the interpreter; without it (free-threaded builds) lists are made as usual.

`collected_seldom` is for a call that makes many such lists, of which each would be walked over several times.
It raises the threshold while it runs, which others may see. So it is never out of reach, what somebody else
sets meanwhile stays, a forked child has what was there before, and if all else fails (a library that saved
our threshold and put it back later) the next such call puts it right.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import starmap
from operator import call
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# More objects than a record batch has: one that had more would be collected now and then, and no worse.
_THRESHOLD = 10_000_003
# More than the records of most calls, and few enough for what the application leaves behind meanwhile. That
# it is an odd number tells it from what others set.
_SELDOM = 50_021
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


def collected_seldom(work: Callable[P, T]) -> Callable[P, T]:
    """Have the collector run after more objects than usual while this function runs."""
    if not _INDIVISIBLE:
        return work

    @wraps(work)
    def working(*args: P.args, **kwargs: P.kwargs) -> T:
        before = gc.get_threshold()
        if 0 < before[0] < _SELDOM:
            _found[:] = [before]
            gc.set_threshold(_SELDOM, *before[1:])
        try:
            return work(*args, **kwargs)
        finally:
            _put_back()

    return working


# What was set before a function began that is running, or was interrupted as it began.
_found: list[tuple[int, int, int]] = []


def _put_back() -> None:
    """Of several threads the first to end puts it back; the others find that and leave it."""
    if gc.get_threshold()[0] == _SELDOM and _found:
        gc.set_threshold(*_found[0])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_put_back)
