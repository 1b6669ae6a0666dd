"""Producers that are never closed: what they have is delivered at the end of the program, or said to be lost.

A blocking producer has a thread, which goes on for as long as the interpreter waits for it: what is dropped
delivers its records and ends, and at exit those that are still open do so, within `EXIT_SECONDS` for all
together. An asyncio producer can deliver nothing without its event loop; so it only says what is lost.

On standard error: a program that does not close its clients has hardly set up a log. In a forked child, and
after `os._exit`, nothing of this happens.
"""

from __future__ import annotations

import atexit
import sys
import warnings
from contextlib import suppress
from time import monotonic
from typing import Protocol
from weakref import WeakSet

from kclient.clock import Deadline
from kclient.errors import KafkaTimeoutError
from kclient.producer.core import Core
from kclient.runtime import LoopThread

# How long the interpreter's exit may take because of us, in seconds.
EXIT_SECONDS = 5.0
# For a loop that has much to do to say what it has to.
_GRACE = 1.0


class Unclosed(Protocol):
    """A producer, open or not."""

    def _let_go(self, seconds: float) -> bool:
        """Begin to end, or say what is lost; whether there was anything to do."""


_producers: WeakSet[Unclosed] = WeakSet()
# Threads that deliver what their producers had, and what to say should they not come to an end.
_leaving: dict[LoopThread, tuple[Core, str]] = {}


def see_to(producer: Unclosed) -> None:
    """Think of it when the interpreter exits."""
    _producers.add(producer)


def leave(thread: LoopThread, core: Core, name: str, seconds: float) -> None:
    """Deliver what a producer has and end its thread; waits for nothing, so finalizers may call it."""
    _leaving[thread] = core, name
    thread.finish(_last(thread, core, name, seconds))


def say_lost(core: Core, name: str) -> None:
    """Say, once, that what a producer has will never be delivered, if it has anything."""
    left = core.undelivered()
    if not left or core.said_lost:
        return
    core.said_lost = True
    why = core.cluster.metadata.last_error
    _say(f"{name} was never closed, and {_records(left)} given up{f': {why}' if why else ''}")


async def _last(thread: LoopThread, core: Core, name: str, seconds: float) -> None:
    errors = core.dispatcher.counters.errors
    before, late = errors.total, ""
    try:
        await core.close(Deadline.after(core.loop, seconds))
    except KafkaTimeoutError as error:
        late = str(error)
    finally:
        _leaving.pop(thread, None)
        lost = int(errors.total - before)
        if (lost or late) and not core.said_lost:
            core.said_lost = True
            why = core.cluster.metadata.last_error or core.dispatcher.last_failure or late
            _say(f"{name} was never closed, and {_records(lost)} lost: {why}")


def _records(count: int) -> str:
    return "a record of it was" if count == 1 else f"{count} records of it were"


def _say(text: str) -> None:
    if sys.stderr is not None:  # as under pythonw
        with suppress(OSError, ValueError):  # closed by now
            sys.stderr.write(f"kclient: {text}\n")


def _at_exit() -> None:
    late = [producer for producer in list(_producers) if producer._let_go(EXIT_SECONDS)]
    ends = monotonic() + EXIT_SECONDS + _GRACE
    try:
        for thread in list(_leaving):
            thread.ended_within(max(0.0, ends - monotonic()))
    except KeyboardInterrupt:
        _say("interrupted before all records were delivered")
    for thread, (core, name) in list(_leaving.items()):
        if thread.running:  # not in a forked child
            say_lost(core, name)
    for producer in late:
        warnings.warn(f"{producer!r} was never closed", ResourceWarning, 1, producer)


atexit.register(_at_exit)
