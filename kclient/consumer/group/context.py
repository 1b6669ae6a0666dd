"""What both protocols of membership work with, and whether the application still asks for records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.consumer.group.coordinator import GroupCoordinator
from kclient.consumer.group.holdings import Holdings
from kclient.consumer.seam import GroupSettings, Positions
from kclient.errors import KafkaError

# Of the time that a rebalance waits for a member, what it keeps for committing and joining, in seconds.
_RESERVE = 3.0


async def due(heartbeat: asyncio.Event, interval: float) -> None:
    """Wait until the next heartbeat: for an interval, or until it is wanted before its time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(interval):
            await heartbeat.wait()
    heartbeat.clear()


class Liveness:
    """When the application asked for records last."""

    def __init__(self, positions: Positions, max_poll_interval_ms: int) -> None:
        self._positions = positions
        self._limit = max_poll_interval_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._late = False  # and somebody has been told so

    def polled(self) -> bool:
        """The application asks for records; says whether it had been found overdue before."""
        late, self._late = self._late, False
        self._last = self._loop.time()
        return late

    @property
    def age(self) -> float:
        return self._loop.time() - self._last

    def overdue(self) -> bool:
        """Whether the application has been busy with something else for longer than it may."""
        if self._positions.waiting():
            self._last = self._loop.time()
            return False
        self._late |= self.age > self._limit
        return self.age > self._limit


@dataclass(frozen=True)
class GroupContext:
    """One membership: its surroundings.

    `commits_answered` waits for the commit that is under way, `commits_before_joining` for those that the
    coordinator takes from no member only. `show` hands an error to the application, which
    is told once, and `fail` one that is final.
    """

    cluster: Cluster
    settings: GroupSettings
    positions: Positions
    coordinator: GroupCoordinator
    holdings: Holdings
    liveness: Liveness
    commits_answered: Callable[[Deadline], Awaitable[None]]
    commits_before_joining: Callable[[Deadline], Awaitable[None]]
    show: Callable[[KafkaError], None]
    fail: Callable[[KafkaError], None]

    def deadline(self, milliseconds: float) -> Deadline:
        return self.cluster.deadline(milliseconds)

    def patience(self, told_at: float) -> float | None:
        """Until when to wait for an application that works on what goes: so that the group keeps the member.

        The coordinator has counted since some time between the last two heartbeats before `told_at`.
        """
        settings = self.settings
        if settings.revoke_at_once:
            return None
        limit = settings.rebalance_timeout / 1000
        wait = max(limit / 2, limit - settings.heartbeat_interval_ms / 1000 - _RESERVE)
        return told_at + wait

    def revoke_deadline(self) -> Deadline:
        """By when offsets must have been committed before partitions go: the others wait for that."""
        return self.deadline(min(self.settings.rebalance_timeout, self.cluster.config.request_timeout_ms))
