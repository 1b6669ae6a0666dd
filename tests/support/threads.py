"""What a blocking client has left behind: threads."""

from __future__ import annotations

import threading

from tools.kafka.waiting import poll


def our_threads() -> list[str]:
    """Loop threads, and the threads in which asyncio resolves names."""
    return [each.name for each in threading.enumerate() if each.name.startswith(("kclient", "asyncio"))]


def wait_for_no_threads() -> None:
    poll(lambda: not our_threads(), timeout=10, failure=lambda: f"left behind: {our_threads()}")
