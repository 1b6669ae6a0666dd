"""The partitions that a member holds: how they are taken over, given up and lost.

Whatever the protocol, the steps are the same, and one at a time under `lock`: first nothing of the partitions
is handed out any more, then the application comes back for more, then offsets are committed, then the
listener is told, then they are dropped. So an application sees no record of a partition after it was told
that it is gone, and none before it was told that it is there; and nobody else gets what it is working on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from kclient.clock import Deadline
from kclient.consumer.group.listeners import ASSIGNED, LOST, REVOKED, tell
from kclient.consumer.seam import Positions
from kclient.errors import KafkaError
from kclient.types import TopicPartition

CommitBefore = Callable[[Collection[TopicPartition], Deadline], Awaitable[None]]
Show = Callable[[KafkaError], None]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How long partitions that must go stay with an application that works on their records.

    `until` a time of the event loop, and while `inside` says that the member has its place in the group.
    """

    until: float
    inside: Callable[[], bool]


class Holdings:
    """What one member holds. `commit` commits positions where that is automatic and never raises."""

    def __init__(self, positions: Positions, commit: CommitBefore, show: Show) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.listener: object | None = None
        self.lock = asyncio.Lock()
        self._positions = positions
        self._commit = commit
        self._show = show
        self._news = asyncio.Event()  # what giving up waits for may have happened
        self._hurried = False

    def __repr__(self) -> str:
        return f"<Holdings of {len(self.owned)} partitions>"

    async def give_up(
        self,
        partitions: Collection[TopicPartition],
        deadline: Callable[[], Deadline],
        patience: Patience | None = None,
    ) -> bool:
        """Hand partitions back while they are still ours, once the application has done with their records.

        `deadline` is asked then: by when offsets have to be committed. Without patience nothing is waited
        for. False if the member lost its place meanwhile: it holds them yet, and has to look why.
        """
        if not partitions:
            return True
        self._positions.fence(partitions)
        if patience is not None and not await self._application_returns(partitions, patience):
            return False
        await self._commit(partitions, deadline())
        await self._tell(REVOKED, partitions)
        self._drop(partitions)
        return True

    async def _application_returns(self, partitions: Collection[TopicPartition], patience: Patience) -> bool:
        """Wait until nothing of these is worked on, or that has to be taken for so; False if it was lost."""
        self._positions.awaited = True  # before the look: what changes after it is news
        try:
            async with asyncio.timeout_at(patience.until):
                while self._positions.in_hand(partitions) and not self._hurried:
                    if not patience.inside():
                        return False
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            log.warning(
                "%d partitions go though the application may still work on their records, and others will do "
                "that again: it did not ask for more in time. Raise rebalance_timeout_ms, or take fewer",
                len(partitions),
            )
        finally:
            self._positions.awaited = False
        return True

    def look(self) -> None:
        """Something has happened that giving up may wait for."""
        self._news.set()

    def hurry(self) -> None:
        """From now on the application is not waited for."""
        self._hurried = True
        self._news.set()

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
