"""The timers of a consumer group's members, on the event loop.

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

    def start_if_absent(self, member_id: str, timeout_ms: int) -> None:
        if member_id not in self._handles:
            self.start(member_id, timeout_ms)

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


class GroupTimers:
    """All that members are waited for; whoever lets one of these run out is out.

    Everybody has to be heard of (`sessions`). A member that is told to let go of partitions does so in time
    (`revocations`); a classic one shows that by joining again (`joins`), and then asks for what it has now
    (`syncs`).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[str], None]) -> None:
        self.sessions: MemberTimers = MemberTimers(loop, expired)
        self.revocations: MemberTimers = MemberTimers(loop, expired)
        self.joins: MemberTimers = MemberTimers(loop, expired)
        self.syncs: MemberTimers = MemberTimers(loop, expired)
        self._all = (self.sessions, self.revocations, self.joins, self.syncs)

    def forget(self, member_id: str) -> None:
        for timers in self._all:
            timers.stop(member_id)

    def stop(self) -> None:
        for timers in self._all:
            timers.stop_all()
