"""The asyncio admin client: its life from start to close. What it can do is in `kclient.admin.verbs`."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from functools import partial
from typing import Final, Self

from kclient.admin.verbs.cluster import ClusterVerbs
from kclient.admin.verbs.configs import ConfigVerbs
from kclient.admin.verbs.group_offsets import GroupOffsetVerbs
from kclient.admin.verbs.groups import GroupVerbs
from kclient.admin.verbs.offsets import OffsetVerbs
from kclient.admin.verbs.topics import TopicVerbs
from kclient.cluster.client import Cluster, ClusterHealth
from kclient.config import ClientConfig, configured_by, shown_half_made
from kclient.ending import Ending
from kclient.errors import ClientClosedError

CLOSE_TIMEOUT_MS = 5_000
_NEVER_CONNECTED = ClusterHealth(
    connected=False, brokers=(), cluster_id=None, metadata_age=None, last_error=None
)
# Keeps the closing of abandoned clients alive: the loop itself holds its tasks weakly.
_closing: set[asyncio.Task[None]] = set()


class AsyncAdmin(TopicVerbs, ConfigVerbs, GroupVerbs, GroupOffsetVerbs, OffsetVerbs, ClusterVerbs):
    """Manages topics, settings, groups and offsets of a Kafka cluster.

        async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics(NewTopic("orders", num_partitions=6))
            print(await admin.list_topics())

    The options are those of `ClientConfig`. A verb about several things gives `Outcomes`, a mapping; the
    first error among them is raised, unless `raise_errors=False` leaves all of them in the mapping.
    `timeout_ms` is the time for one call with all its retries; if None, `default_api_timeout_ms`.

    `start` (or `async with`) connects and says at once if that fails; without it the first verb connects. A
    client belongs to the event loop on which it was first used.
    """

    _cluster: Cluster | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _closed = False
    # Calls of `start` under way; whether one has succeeded, or anything else needs the cluster.
    _starts = 0
    _used = False

    @configured_by(ClientConfig)
    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self.ending: Final = Ending()

    @shown_half_made
    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._cluster is None else "open"
        return f"<{type(self).__name__} {self._config.client_id} {state}>"

    async def start(self, timeout_ms: float | None = None) -> None:
        """Find the cluster. A start that fails leaves nothing behind and may be tried again."""
        cluster = self._open_cluster()
        self._starts += 1
        try:
            await cluster.metadata.refreshed(cluster.deadline(timeout_ms))
            self._used = True
        except BaseException:
            # A client stays open for those who use it, or wait for it with more time than this one.
            if self._cluster is cluster and not self._used and self._starts == 1:
                self._cluster = None
                cluster.tasks.expect_end()
                await cluster.close()
            raise
        finally:
            self._starts -= 1

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Close all connections; calls in flight fail with `ClientClosedError`. Ends within `timeout_ms`.

        Calls at the same time wait for the same end, and one that is cancelled does not stop it.
        """
        if self._cluster is not None or (self.ending.begun and not self.ending.done):
            self._check_loop()
        self._closed = True
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.tasks.expect_end()
            self.ending.begin(partial(_closed, cluster, timeout_ms / 1000), cluster.retire)
        await self.ending.wait(timeout_ms / 1000)

    @property
    def closed(self) -> bool:
        return self._closed

    def health(self) -> ClusterHealth:
        """Whether the client is in touch with its cluster; never waits."""
        return _NEVER_CONNECTED if self._cluster is None else self._cluster.health()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        cluster, loop = self._cluster, self._loop
        if cluster is None or loop is None:
            return
        warnings.warn(
            f"{self!r} was never closed: use `async with` or await close()", ResourceWarning, 2, self
        )
        if not loop.is_closed():
            loop.call_soon_threadsafe(_close_soon, cluster)

    def _open(self) -> Cluster:
        cluster = self._open_cluster()
        self._used = True
        return cluster

    def _open_cluster(self) -> Cluster:
        if self._closed:
            raise ClientClosedError(f"{self!r} was used after it had been closed")
        if self._cluster is None:
            self._cluster, self._loop = Cluster(self._config), asyncio.get_running_loop()
            self._used = False
            self._cluster.metadata.start()
        self._check_loop()
        self._cluster.tasks.check()
        return self._cluster

    def _check_loop(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError(
                f"{self!r} belongs to another event loop: every loop needs a client of its own"
            )


async def _closed(cluster: Cluster, seconds: float) -> None:
    # What is left after that was told to close; nobody needs to wait until it has.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cluster.close()


def _close_soon(cluster: Cluster) -> None:
    task = asyncio.get_running_loop().create_task(cluster.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
