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

from kclient.clock import Deadline
from kclient.consumer.group.listeners import ASSIGNED, LOST, REVOKED, Announcer, Heard
from kclient.consumer.seam import Positions
from kclient.errors import KafkaError
from kclient.types import TopicPartition

CommitBefore = Callable[[Collection[TopicPartition], Deadline], Awaitable[None]]
Show = Callable[[KafkaError], None]

log: logging.Logger = logging.getLogger(__name__)


class Holdings:
    """What one member holds. `commit` commits positions where that is automatic and never raises.

    `inside` says that the member has its place in the group, and an application that lives: without them
    nobody is waited for, neither the application nor its listener, which hears what became of it later.
    """

    def __init__(
        self, positions: Positions, commit: CommitBefore, show: Show, inside: Callable[[], bool]
    ) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.listener: object | None = None
        self.lock: asyncio.Lock = asyncio.Lock()
        self._positions = positions
        self._commit = commit
        self._inside = inside
        self._announcer = Announcer(show)
        # Of what is owned, what the listener has not heard of to the end: that it came, and that it goes.
        self._coming: frozenset[TopicPartition] = frozenset()
        self._going: frozenset[TopicPartition] = frozenset()
        self._news = asyncio.Event()  # what giving up waits for may have happened
        self._hurry: float | None = None  # by when, in the loop's time
        self._committing: asyncio.Timeout | None = None

    def __repr__(self) -> str:
        return f"<Holdings of {len(self.owned)} partitions>"

    async def give_up(
        self,
        partitions: Collection[TopicPartition],
        deadline: Callable[[], Deadline],
        until: float | None = None,
    ) -> bool:
        """Hand partitions back while they are still ours, once the application has done with their records.

        It is waited for `until` a time of the event loop, without one not at all. `deadline` is asked then:
        by when offsets have to be committed. False if the member lost its place meanwhile: it holds them
        yet, and has to look why.
        """
        if not partitions:
            return True
        self._positions.fence(partitions)
        if until is not None and not await self._application_returns(partitions, until):
            return False
        await self._commit_in_time(partitions, deadline())
        if not await self._tell_of_leaving(frozenset(partitions) - self._going):
            return False
        self._drop(partitions)
        return True

    async def _tell_of_leaving(self, partitions: frozenset[TopicPartition]) -> bool:
        """Whether the listener has heard of it, and of what it was told when it was not waited for."""
        if not partitions:
            return await self._announcer.done(self._is_outside)
        heard = await self._announcer.tell(self.listener, REVOKED, partitions, self._is_outside)
        if heard is Heard.BEGUN:
            self._going |= partitions
        return heard is Heard.DONE

    async def _commit_in_time(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Commit before partitions go, by the deadline, or earlier if somebody is in a hurry."""
        try:
            async with asyncio.timeout_at(self._hurry) as self._committing:
                await self._commit(partitions, deadline)
        except TimeoutError:
            log.warning("what was processed before partitions went was not committed: there was no more time")
        finally:
            self._committing = None

    async def _application_returns(self, partitions: Collection[TopicPartition], until: float) -> bool:
        """Wait until nothing of these is worked on, or that has to be taken for so; False if it was lost."""
        self._positions.awaited = True  # before the look: what changes after it is news
        try:
            async with asyncio.timeout_at(until):
                while self._positions.in_hand(partitions) and self._hurry is None:
                    if self._is_outside():
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

    def _is_outside(self) -> bool:
        """Whether nobody is waited for. Closing has a deadline, and the listener is to hear of it."""
        return self._hurry is None and not self._inside()

    def look(self) -> None:
        """Something has happened that giving up and taking over may wait for."""
        self._news.set()
        self._announcer.look()

    def hurry(self, deadline: Deadline) -> None:
        """From now on the application is not waited for, and commits by the deadline only."""
        self._hurry = deadline.at
        if self._committing is not None and not self._committing.expired():
            self._committing.reschedule(deadline.at)
        self.look()

    def end(self) -> Collection[asyncio.Task[None]]:
        """Cancel what the listener is doing; returns what can be waited for."""
        return self._announcer.end()

    def stop(self) -> None:
        """Hand out nothing more: what is held will be lost in a moment."""
        self._positions.fence(self.owned)

    async def lose(self) -> None:
        """Everything is gone already: there is nothing to be committed."""
        if not self.owned:
            return
        self.stop()
        await self._announcer.done()
        lost = self.owned - self._going
        if lost:
            await self._announcer.tell(self.listener, LOST, lost)
        self._drop(self.owned, lost=True)

    async def take_over(self, partitions: Collection[TopicPartition]) -> bool:
        """Begin to read partitions. The listener is told also if there are none, as Java does: it is in.

        False if the member lost its place before the listener had done with it: it has to look why.
        """
        self.owned |= frozenset(partitions)
        if partitions:
            self._positions.assign(partitions)
            self._positions.fence(partitions)
            self._coming |= frozenset(partitions)
        heard = await self._announcer.tell(self.listener, ASSIGNED, partitions, self._is_outside)
        if heard is not Heard.DONE:
            if heard is Heard.NOT:  # so it need not hear that they are gone, either
                self._drop(partitions)
            return False
        coming, self._coming = self._coming, frozenset()
        if coming:
            self._positions.release(coming)
        return True

    def _drop(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        gone = frozenset(partitions)
        self.owned -= gone
        self._coming -= gone
        self._going -= gone
        if gone:
            self._positions.revoke(partitions, lost=lost)
