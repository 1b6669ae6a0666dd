"""What a broker does unasked: retention and compaction, syncing to the disk, checkpoints.

Every kind of work has a task and Kafka's interval. Syncing happens on a thread, beside appends: a disk may
take seconds for what it is asked to write down. Only `flush.messages` makes a producer wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kclient.broker.log.config import FOREVER
from kclient.broker.log.partition_log import PartitionLog
from kclient.broker.log.storage import sync_files
from kclient.errors import KafkaStorageError
from kclient.threads import WAITING

if TYPE_CHECKING:
    from kclient.broker.broker import Broker

logger: logging.Logger = logging.getLogger(__name__)


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
        self._run(self._keep_clean(), "log cleaner")
        self._run(self._keep_offsets(), "expiry of offsets")
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
        task = asyncio.get_running_loop().create_task(work, name=f"broker {name}")
        task.add_done_callback(_report)
        self._tasks.append(task)

    async def _pause(self, setting: str) -> None:
        await asyncio.sleep(self._broker.settings.number(setting) / 1000)

    async def _keep_house(self) -> None:
        while True:
            await self._pause("log.retention.check.interval.ms")
            self.keep_house()

    def keep_house(self) -> None:
        """One round of retention; a log that fails does not end it for the others."""
        now = int(self._broker.clock.wall() * 1000)
        for log in self._broker.topics.logs().values():
            with self._going_on():
                log.enforce_retention(now)

    async def _keep_clean(self) -> None:
        while True:
            await self._pause("log.cleaner.backoff.ms")
            if self._broker.settings.flag("log.cleaner.enable"):
                self.clean()

    def clean(self) -> None:
        """One round of compaction; a log that fails does not end it for the others."""
        now = int(self._broker.clock.wall() * 1000)
        for log in self._broker.topics.logs().values():
            with self._going_on():
                log.compact(now)

    async def _keep_offsets(self) -> None:
        while True:
            await self._pause("offsets.retention.check.interval.ms")
            with suppress(KafkaStorageError):  # said where it is written
                self._broker.groups.expire_offsets()

    async def _keep_synced(self) -> None:
        """`flush.ms`: no record of a topic waits longer than that for the disk."""
        while True:
            timed = [log for log in self._broker.topics.logs().values() if log.config.flush_ms < FOREVER]
            pause = max(1, min((log.config.flush_ms for log in timed), default=1))
            # What would be late at the next round is written in this one.
            horizon = int(self._broker.clock.wall() * 1000) + pause
            for log in timed:
                if log.unsynced_since is not None and log.unsynced_since + log.config.flush_ms <= horizon:
                    await _sync(log)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reconfigured.wait(), pause / 1000 if timed else None)
            self._reconfigured.clear()

    async def _keep_marks(self) -> None:
        while True:
            await self._pause("replica.high.watermark.checkpoint.interval.ms")
            with self._going_on():
                self._broker.storage.checkpoint_marks(self._broker.topics.logs())
            await self._write_indexes()

    async def _write_indexes(self) -> None:
        """Show readers of the disk the entries that wait for more; clients are served in between."""
        for log in self._broker.topics.logs().values():
            if log.write_indexes():
                await asyncio.sleep(0)

    async def _keep_recovery_points(self) -> None:
        """Full segments are written down first, so that after a crash only the last ones are checked."""
        while True:
            await self._pause("log.flush.offset.checkpoint.interval.ms")
            for log in list(self._broker.topics.logs().values()):
                if log.recovery_point < log.active.base_offset:
                    await _sync(log)
            with self._going_on():
                self._broker.storage.checkpoint_recovery(self._broker.topics.logs())

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """A disk that refuses, as a full one does, may take what is written the next time."""
        try:
            yield
        except KafkaStorageError as error:
            self._broker.disk.refused(error)


def _report(task: asyncio.Task[None]) -> None:
    """What nobody expects ends the work; the broker goes on without it, but not silently."""
    if not task.cancelled() and task.exception() is not None:
        logger.error("%s has ended", task.get_name(), exc_info=task.exception())


async def _sync(log: PartitionLog) -> None:
    """As `PartitionLog.flush`, on a thread. What is appended meanwhile is left for the next time."""
    if log.directory is None:
        return
    paths, end = log.unsynced(), log.end_offset
    try:
        await asyncio.get_running_loop().run_in_executor(WAITING, sync_files, paths, log.directory)
    except KafkaStorageError:
        logger.exception("records may not survive a power cut")
        return
    log.synced(end)
