"""What a broker does unasked: retention and compaction, syncing to the disk, checkpoints.

Every kind of work has a task and Kafka's interval. Syncing happens on a thread, beside appends: a disk may
take seconds for what it is asked to write down. Only `flush.messages` makes a producer wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from kclient.broker.log.config import FOREVER
from kclient.broker.log.partition_log import PartitionLog
from kclient.broker.log.storage import sync_files
from kclient.errors import KafkaStorageError

if TYPE_CHECKING:
    from kclient.broker.broker import Broker

log = logging.getLogger(__name__)


class Upkeep:
    """The tasks of one cluster; `start` and `stop` once."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._reconfigured = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Upkeep {', '.join(task.get_name() for task in self._tasks) or 'at rest'}>"

    def start(self) -> None:
        self._run(self._keep_house(), "housekeeping")
        if self._broker.on_disk:
            self._broker.topics.on_change.append(self._reconfigured.set)
            self._run(self._keep_synced(), "syncing")
            self._run(self._keep_marks(), "high watermarks")
            self._run(self._keep_recovery_points(), "recovery points")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    def _run(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=f"broker {name}"))

    async def _pause(self, setting: str) -> None:
        await asyncio.sleep(self._broker.settings.number(setting) / 1000)

    async def _keep_house(self) -> None:
        while True:
            await self._pause("log.retention.check.interval.ms")
            now = int(self._broker.clock.wall() * 1000)
            for kept in self._broker.topics.logs().values():
                kept.enforce_retention(now)
                kept.compact(now)
            self._broker.groups.expire_offsets()

    async def _keep_synced(self) -> None:
        """`flush.ms`: no record of a topic waits longer than that for the disk."""
        while True:
            logs = self._broker.topics.logs().values()
            shortest = min((kept.config.flush_ms for kept in logs), default=FOREVER)
            pause = max(shortest, 1)
            self._reconfigured.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._reconfigured.wait(), None if shortest == FOREVER else pause / 1000
                )
            # What would be late at the next round is written now.
            horizon = int(self._broker.clock.wall() * 1000) + pause
            for kept in list(self._broker.topics.logs().values()):
                since = kept.unsynced_since
                if since is not None and since + kept.config.flush_ms <= horizon:
                    await _sync(kept)

    async def _keep_marks(self) -> None:
        while True:
            await self._pause("replica.high.watermark.checkpoint.interval.ms")
            self._broker.storage.checkpoint_marks(self._broker.topics.logs())

    async def _keep_recovery_points(self) -> None:
        """Full segments are written down first, so that after a crash only the last ones are checked."""
        while True:
            await self._pause("log.flush.offset.checkpoint.interval.ms")
            for kept in list(self._broker.topics.logs().values()):
                if kept.recovery_point < kept.active.base_offset:
                    await _sync(kept)
            self._broker.storage.checkpoint_recovery(self._broker.topics.logs())


async def _sync(kept: PartitionLog) -> None:
    """As `PartitionLog.flush`, on a thread. What is appended meanwhile is left for the next time."""
    if kept.directory is None:
        return
    paths, end = kept.unsynced(), kept.end_offset
    try:
        await asyncio.to_thread(sync_files, paths, kept.directory)
    except KafkaStorageError:
        log.exception("records may not survive a power cut")
        return
    kept.synced(end)
