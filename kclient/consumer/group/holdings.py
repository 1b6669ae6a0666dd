"""The partitions that a member holds: how they are taken over, given up and lost.

Whatever the protocol, the steps are the same, and one at a time under `lock`: first nothing of the partitions
is handed out any more, then offsets are committed, then the listener is told, then they are dropped. So an
application sees no record of a partition after it was told that it is gone, and none before it was told
that it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from kclient.clock import Deadline
from kclient.consumer.group.listeners import ASSIGNED, LOST, REVOKED, tell
from kclient.consumer.seam import Positions
from kclient.errors import KafkaError
from kclient.types import TopicPartition

CommitBefore = Callable[[Collection[TopicPartition], Deadline], Awaitable[None]]
Show = Callable[[KafkaError], None]


class Holdings:
    """What one member holds. `commit` commits positions where that is automatic and never raises."""

    def __init__(self, positions: Positions, commit: CommitBefore, show: Show) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.listener: object | None = None
        self.lock = asyncio.Lock()
        self._positions = positions
        self._commit = commit
        self._show = show

    def __repr__(self) -> str:
        return f"<Holdings of {len(self.owned)} partitions>"

    async def give_up(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Hand partitions back while they are still ours: offsets can be committed, until the deadline."""
        if not partitions:
            return
        self._positions.fence(partitions)
        await self._commit(partitions, deadline)
        await self._tell(REVOKED, partitions)
        self._drop(partitions)

    def stop(self) -> None:
        """Hand out nothing more: what is held will be lost in a moment."""
        self._positions.fence(self.owned)

    async def lose(self) -> None:
        """Everything is gone already: there is nothing to be committed."""
        if not self.owned:
            return
        self.stop()
        await self._tell(LOST, self.owned)
        self._drop(self.owned, lost=True)

    async def take_over(self, partitions: Collection[TopicPartition]) -> None:
        """Begin to read partitions. The listener is told also if there are none, as Java does: it is in."""
        self.owned |= frozenset(partitions)
        if partitions:
            self._positions.assign(partitions)
            self._positions.fence(partitions)
        await self._tell(ASSIGNED, partitions)
        if partitions:
            self._positions.release(partitions)

    def _drop(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        self.owned -= frozenset(partitions)
        self._positions.revoke(partitions, lost=lost)

    async def _tell(self, method: str, partitions: Collection[TopicPartition]) -> None:
        failure = await tell(self.listener, method, partitions)
        if failure is not None:
            self._show(failure)
