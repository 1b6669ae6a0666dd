"""The way of one process to one cluster: an event loop that runs while somebody waits, and its connections.

There is no thread: Spark's callers block anyway, and while they work on what came, the next answer gathers in
the socket. Sessions are kept for the life of the process, by configuration, because workers live for many
tasks. A forked child has none of its parent's: two processes on one socket would read each other's answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from kclient.cluster.client import Cluster
from kclient.consumer.config import ConsumerConfig
from kclient.errors import KafkaError
from kclient.spark import properties
from kclient.spark.outages import Outage

T = TypeVar("T")

Key = tuple[tuple[str, str], ...]

# One answer of so much per partition keeps broker, socket and decoder busy at once.
_DEFAULTS = {"max.partition.fetch.bytes": str(4 << 20)}


class Session:
    """A cluster and the loop that it lives in."""

    def __init__(self, config: ConsumerConfig, kafka: Mapping[str, str]) -> None:
        self.config = config
        self._kafka = kafka
        self._loop = asyncio.new_event_loop()
        self._cluster: Cluster | None = None

    def __repr__(self) -> str:
        return f"<Session {self.config.bootstrap_servers} {'open' if self._cluster else 'not used yet'}>"

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def run(self, work: Coroutine[Any, Any, T], outage: Outage, timeout_ms: float | None = None) -> T:
        """Run a coroutine to its end; connects first, within `timeout_ms`, where nothing is connected yet.

        `outage` tells of it in the log while it waits.
        """
        try:
            return self._loop.run_until_complete(self._run(work, outage, timeout_ms))
        except KafkaError as error:
            properties.as_given(error, ConsumerConfig, self._kafka)
            raise

    async def _run(self, work: Coroutine[Any, Any, T], outage: Outage, timeout_ms: float | None) -> T:
        try:
            cluster = self._cluster or Cluster(self.config)
            with outage.told(lambda: cluster.metadata.last_error):
                if self._cluster is None:
                    await _start(cluster, timeout_ms)
                    self._cluster = cluster
                return await work
        finally:
            work.close()

    def close(self) -> None:
        """Close every connection and the loop."""
        if self._cluster is not None:
            self._loop.run_until_complete(self._cluster.close())
            self._cluster = None
        self._loop.close()


async def _start(cluster: Cluster, timeout_ms: float | None) -> None:
    try:
        await cluster.start(cluster.deadline(timeout_ms))
    except BaseException:
        await cluster.close()
        raise


_sessions: dict[Key, Session] = {}
# Kept, so that nothing of a parent's loop and sockets is ever closed or touched in a child.
_inherited: list[dict[Key, Session]] = []


def session_for(kafka: Mapping[str, str]) -> Session:
    """The session of this process for these properties, made on the first call."""
    key = tuple(sorted(kafka.items()))
    session = _sessions.get(key)
    if session is None:
        session = _sessions[key] = Session(consumer_config(kafka), kafka)
    return session


def consumer_config(kafka: Mapping[str, str]) -> ConsumerConfig:
    """The configuration of a reader, with what suits reading in bulk where nothing was said."""
    # A reader is no member of its group: it only commits in its name.
    return properties.config(ConsumerConfig, {**_DEFAULTS, **kafka})


def close_all() -> None:
    """Close the sessions of this process: for tests, which must leave nothing behind."""
    while _sessions:
        _sessions.popitem()[1].close()


def _forked() -> None:
    global _sessions  # noqa: PLW0603 - one per process, and this is another process
    _inherited.append(_sessions)
    _sessions = {}


os.register_at_fork(after_in_child=_forked)
