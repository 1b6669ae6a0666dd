"""Records meant for a partition that metadata does not name: it may have been added a moment ago.

Metadata is asked for once, and they wait for the answer: then they go their way, or fail, alone. Records of
their topic that have a place do not wait for them. All on the loop.

Not here: calls that can wait before they append; those ask by themselves (`Core.find_partition`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.metadata import Metadata
from kclient.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.producer.part import Part


class Sought:
    """What waits, by topic. `found` takes a part that has its place, `fail` those that get none."""

    def __init__(
        self,
        cluster: Cluster,
        delivery_timeout: float,
        found: Callable[[Part], None],
        fail: Callable[[list[Part], KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._patience = delivery_timeout
        self._found = found
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, list[Part]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, part: Part) -> None:
        """Ask for its partition, behind what waits already."""
        topic = part.topic
        self._waiting.setdefault(topic, []).append(part)
        task = self._tasks.get(topic)
        if task is None or task.done():
            name = f"kclient partitions of {topic}"
            self._tasks[topic] = self._cluster.tasks.start(self._seek(topic), name, returns=True)

    def follow(self, snapshot: Metadata) -> None:
        """Let those go whose partition is there now: before others come for it, which would overtake."""
        for topic, parts in list(self._waiting.items()):
            count = _count(snapshot, topic)
            self._waiting[topic] = [part for part in parts if part.partition >= count]
            for part in parts:
                if part.partition < count:
                    self._found(part)

    def close(self, error: KafkaError) -> list[asyncio.Task[None]]:
        """Fail what is left; the tasks that are returned are being cancelled."""
        waiting, self._waiting = self._waiting, {}
        for parts in waiting.values():
            self._fail(parts, error)
        tasks = [task for task in self._tasks.values() if not task.done()]
        for task in tasks:
            self._cluster.tasks.end(task)
        return tasks

    async def _seek(self, topic: str) -> None:
        while asked := list(self._waiting.get(topic, ())):
            await self._ask(topic, asked)
        self._waiting.pop(topic, None)

    async def _ask(self, topic: str, asked: list[Part]) -> None:
        """Fail those that still have no partition after an answer to a question that came behind them."""
        metadata = self._cluster.metadata
        until = Deadline(min(part.chunk.deadline for part in asked), self._patience)
        try:
            await metadata.refreshed(until, topic)
        except KafkaTimeoutError:
            now = self._loop.time()
            for part in self._take(topic, [part for part in asked if part.chunk.deadline <= now]):
                self._fail([part], self._too_late(part, metadata.last_error))
        except KafkaError as error:
            self._fail(self._take(topic, asked), error)
        else:
            count = _count(metadata.snapshot, topic)
            for part in self._take(topic, asked):
                self._fail([part], no_such_partition(topic, part.partition, count))

    def _take(self, topic: str, parts: list[Part]) -> list[Part]:
        """Those of them that still wait, which they do no longer."""
        gone = set(map(id, parts))
        waiting = self._waiting.get(topic, [])
        self._waiting[topic] = [part for part in waiting if id(part) not in gone]
        return [part for part in waiting if id(part) in gone]

    def _too_late(self, part: Part, reason: KafkaError | None) -> KafkaTimeoutError:
        error = KafkaTimeoutError(
            f"records for topic {part.topic}, partition {part.partition} were not delivered within "
            f"{self._patience:g} s (delivery_timeout_ms): {reason or 'nothing is known of that partition'}"
        )
        error.__cause__ = reason
        return error


def no_such_partition(topic: str, partition: int, count: int) -> UnknownTopicOrPartitionError:
    has = f"topic {topic} has the partitions 0 to {count - 1}" if count else f"there is no topic {topic}"
    return UnknownTopicOrPartitionError(has, about=f"partition {partition}")


def _count(snapshot: Metadata, topic: str) -> int:
    known = snapshot.topics.get(topic)
    return max(known.partitions) + 1 if known is not None and known.partitions else 0
