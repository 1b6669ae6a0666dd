"""The two timers of a consumer group's members, on the event loop: session and rebalance.

`modern` starts and stops them; they call back with the id of the member whose time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class MemberTimers:
    """At most one timer per member; starting it again starts it anew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[str], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def start(self, member_id: str, timeout_ms: int) -> None:
        self.stop(member_id)
        self._handles[member_id] = self._loop.call_later(timeout_ms / 1000, self._fire, member_id)

    def stop(self, member_id: str) -> None:
        handle = self._handles.pop(member_id, None)
        if handle is not None:
            handle.cancel()

    def stop_all(self) -> None:
        for member_id in list(self._handles):
            self.stop(member_id)

    def _fire(self, member_id: str) -> None:
        del self._handles[member_id]
        self._expired(member_id)
