"""Waiting with a deadline: the only place of this package that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def poll(
    attempt: Callable[[], T | None], *, timeout: float, failure: Callable[[], str], every: float = 0.05
) -> T:
    """Call `attempt` until it returns more than None or False; `failure` words the TimeoutError."""
    deadline = time.monotonic() + timeout
    while True:
        result = attempt()
        if result is not None and result is not False:
            return result
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{failure()} (waited {timeout:g} s)")
        time.sleep(every)
