"""The start of one consumer: its cluster is found once, for all calls that need it.

Each caller waits by its own deadline. Nobody owns the attempt: it ends with the last caller of `start` that
fails, unless another call needs the consumer. That one may be cancelled and come again, and finds what was
found meanwhile. Runs on the engine's event loop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kclient.cluster.client import Cluster
from kclient.consumer.buffer import FetchBuffer
from kclient.consumer.reader import Reader
from kclient.errors import ClientClosedError

if TYPE_CHECKING:
    from kclient.consumer.engine import Engine

# For a group that was joined in the moment in which the start was cancelled, in milliseconds.
_TO_LEAVE_MS = 1_000
# For tasks and for sockets, in seconds.
_TO_END = 0.1


class Opening:
    """How an engine gets from new to open, and back where nobody wants it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._starts = 0  # under way
        # Whether the metadata is of all topics, or will be.
        self.sees_all_topics: bool = False
        self._disconnected: Cluster | None = None
        self._used = False  # by calls other than `start`: who makes those has to close the consumer

    async def start(self, timeout_ms: float | None = None) -> None:
        """Find the cluster and begin to work; a start that fails leaves nothing behind."""
        engine = self._engine
        cluster = self._connect()
        self._starts += 1
        try:
            await self._found(timeout_ms)
        except BaseException:
            if engine.cluster is cluster and not self._used and self._starts == 1:
                await self._disconnect()
            raise
        finally:
            self._starts -= 1

    async def use(self, timeout_ms: float | None = None) -> None:
        """The same for a call that needs the consumer open: the attempt goes on if that call is cancelled."""
        self._used = True
        self._connect()
        await self._found(timeout_ms)

    async def take_back(self) -> None:
        """A caller of `start` on another thread was cancelled, perhaps just as it succeeded."""
        if not self._used and not self._starts:
            await self._disconnect()
        await self.end()  # the start may be about it: this thread's loop ends after that

    async def _found(self, timeout_ms: float | None) -> None:
        engine, cluster = self._engine, self._connect()
        if cluster.metadata.last_success is None:
            await cluster.metadata.refreshed(cluster.deadline(timeout_ms))
        if engine.closed:  # in this moment
            raise ClientClosedError("this consumer was closed")
        engine.begin()

    def _connect(self) -> Cluster:
        """Begin to look for the cluster, unless that was begun before."""
        engine = self._engine
        engine.check_process()
        if engine.closed:
            raise ClientClosedError("this consumer was closed")
        if engine.cluster is None:
            loop = asyncio.get_running_loop()
            if engine.loop is not loop:  # what was left on an earlier thread has ended with that
                self._disconnected = None
            engine.loop = loop
            engine.cluster = Cluster(engine.config)
            self.sees_all_topics = engine.subscription.pattern is not None
            if self.sees_all_topics:  # else the group would first be joined for no topics
                engine.cluster.metadata.follow_all()
            engine.cluster.metadata.start()
        engine.cluster.tasks.check()
        return engine.cluster

    async def _disconnect(self) -> None:
        """Be new again. All are told to end before anything is awaited: the caller may be cancelled again."""
        engine = self._engine
        cluster, reader, group = engine.cluster, engine.reader, engine.group
        if cluster is None:
            return
        engine.cluster = engine.reader = engine.group = engine.membership = None
        self._disconnected = cluster
        cluster.tasks.expect_end()
        try:
            if group is not None:
                await group.close(cluster.deadline(_TO_LEAVE_MS))
        finally:
            if group is not None:
                group.retire()
            await let_go(engine.buffer, cluster, reader, _TO_END)
            if engine.cluster is None:  # else another call has begun anew meanwhile
                engine.subscription.start_anew(in_group=group is not None)
        self._disconnected = None

    async def end(self) -> None:
        """Wait for what a start that was cancelled did not wait for."""
        if self._disconnected is not None and self._engine.loop is asyncio.get_running_loop():
            await let_go(self._engine.buffer, self._disconnected, None, _TO_END)


async def let_go(buffer: FetchBuffer, cluster: Cluster, reader: Reader | None, seconds: float) -> None:
    """End tasks, then sockets, with so many seconds for each.

    Both are told to end before they are awaited, so what takes longer ends by itself.
    """
    try:
        if reader is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await reader.close()
    finally:
        buffer.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await cluster.close()
