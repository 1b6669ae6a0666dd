"""Threads of blocking clients: what is left of them, and one whose loop is busy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kclient.runtime import LoopThread
from kclient.threads import COMPRESSION, WAITING
from tools.kafka.waiting import poll

_SHARED = {COMPRESSION.name, WAITING.name}


def our_threads() -> list[str]:
    """Loop threads, and those that asyncio makes; not those that all clients share."""
    names = [each.name for each in threading.enumerate()]
    return [name for name in names if name.startswith(("kclient", "asyncio")) and name not in _SHARED]


def wait_for_no_threads() -> None:
    poll(lambda: not our_threads(), timeout=10, failure=lambda: f"left behind: {our_threads()}")


@contextmanager
def busy(thread: LoopThread) -> Iterator[None]:
    """The loop does nothing else meanwhile."""
    working, may_end = threading.Event(), threading.Event()

    async def work() -> None:
        working.set()
        may_end.wait()

    result = thread.submit(work())
    working.wait(30)
    try:
        yield
    finally:
        may_end.set()
        result.result()
