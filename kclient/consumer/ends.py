"""Asks where partitions end of which nothing is fetched now, so that their lag does not stand still.

Those that are paused, and all while what was fetched waits for the application. Nothing depends on the
answers but numbers, so a failure is no trouble: it is asked again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kclient.cluster.operations import run
from kclient.consumer.cursor import LATEST, Cursor, State
from kclient.consumer.offsets import ListOffsets
from kclient.consumer.worker import FOREVER, Worker
from kclient.errors import KafkaError

if TYPE_CHECKING:
    from kclient.consumer.reader import Reader

log: logging.Logger = logging.getLogger(__name__)

# Seconds between two questions; and from a pause, or a full buffer, to the first.
_EVERY = 1.0


class Ends(Worker):
    """Woken when a partition may be paused, or the buffer is full."""

    def __init__(self, reader: Reader) -> None:
        self._due: float | None = None  # when to ask next
        super().__init__(reader, "asking where partitions end that are not fetched")

    async def _step(self) -> float:
        cursors = self._resting()
        if not cursors:
            self._due = None
            return FOREVER
        now = self._loop.time()
        if self._due is None:
            self._due = now + _EVERY
        if now < self._due:
            return self._due - now
        await self._ask(cursors)
        self._due = self._loop.time() + _EVERY
        return _EVERY

    def _resting(self) -> list[Cursor]:
        full = self._reader.buffer.full
        reading = self._reader.subscription.in_state(State.FETCHING, State.VALIDATING)
        return [cursor for cursor in reading if full or cursor.paused]

    async def _ask(self, cursors: list[Cursor]) -> None:
        cluster, committed_only = self._reader.cluster, self._reader.policy.committed_only
        targets = dict.fromkeys((cursor.partition for cursor in cursors), LATEST)
        try:
            operation = ListOffsets(targets, committed_only, {})
            # As long as any request may take: a connection whose deadline is missed is closed, for all.
            found = await run(cluster, operation, list(targets), cluster.deadline())
        except KafkaError as error:
            log.debug("%s: %s", self.name, error)
            return
        for cursor in cursors:
            outcome = found[cursor.partition]
            if not isinstance(outcome, KafkaError):
                cursor.ends_at(outcome.offset, committed_only)
