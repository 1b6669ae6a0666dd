"""What a blocking client has left behind: threads."""

from __future__ import annotations

import threading

from kclient.threads import COMPRESSION, WAITING
from tools.kafka.waiting import poll

_SHARED = {COMPRESSION.name, WAITING.name}


def our_threads() -> list[str]:
    """Loop threads, and those that asyncio makes; not those that all clients share."""
    names = [each.name for each in threading.enumerate()]
    return [name for name in names if name.startswith(("kclient", "asyncio")) and name not in _SHARED]


def wait_for_no_threads() -> None:
    poll(lambda: not our_threads(), timeout=10, failure=lambda: f"left behind: {our_threads()}")
