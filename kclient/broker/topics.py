"""The topics of an embedded cluster: who leads what, their settings, their logs.

All nodes run in one process and share these objects, so a replica is a claim and not a copy: moving a
leader is changing a number. Topic names, ids and settings are kept in one JSON file next to the partitions'
directories.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.clock import Clock
from kclient.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
_LONGEST_NAME = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FILE = "kclient-topics.json"


class PartitionState:
    """One partition. `waiting` are fetches that wait for more records."""

    def __init__(self, topic: str, index: int, replicas: tuple[int, ...], log: PartitionLog) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.leader = replicas[0]
        self.leader_epoch = 0
        self.log = log
        self.waiting: set[asyncio.Event] = set()

    def __repr__(self) -> str:
        return f"<PartitionState {self.topic}-{self.index} led by {self.leader}, epoch {self.leader_epoch}>"

    def lead_by(self, node_id: int) -> None:
        """Make another node the leader; -1 leaves the partition without one."""
        if node_id != self.leader:
            self.leader = node_id
            self.leader_epoch += 1
        self.wake()

    def wake(self) -> None:
        """Have waiting fetches look again."""
        for event in self.waiting:
            event.set()


@dataclass
class TopicState:
    """One topic."""

    name: str
    topic_id: uuid.UUID
    partitions: list[PartitionState]
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def check_name(name: str) -> None:
    """Raise Kafka's words for a name that no topic can have."""
    if not name:
        raise InvalidTopicError("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicError(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > _LONGEST_NAME:
        raise InvalidTopicError(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{_LONGEST_NAME}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )


class TopicCatalogue:
    """Every topic of the cluster; created, grown, deleted, found by name or id."""

    def __init__(self, data: Path | None, clock: Clock, random: Random, defaults: Mapping[str, str]) -> None:
        self.by_name: dict[str, TopicState] = {}
        self.by_id: dict[uuid.UUID, TopicState] = {}
        self.on_change: list[Callable[[], None]] = []
        self._data = data
        self._clock = clock
        self._random = random
        self._defaults = defaults

    def load(self, nodes: list[int]) -> None:
        """Open what an earlier run left in the data directory."""
        if self._data is None or not (self._data / _FILE).exists():
            return
        for saved in json.loads((self._data / _FILE).read_text()):
            topic_id = uuid.UUID(saved["id"])
            alive = [
                tuple(node for node in replicas if node in nodes) or (nodes[0],)
                for replicas in saved["replicas"]
            ]
            self._add(saved["name"], topic_id, alive, saved["configs"])

    def topic(self, name: str | None, topic_id: uuid.UUID | None = None) -> TopicState:
        """A topic by its id, or else by its name."""
        if topic_id is not None and topic_id.int:
            if topic_id not in self.by_id:
                raise UnknownTopicIdError(about=f"topic id {topic_id}")
            return self.by_id[topic_id]
        if name not in self.by_name:
            raise UnknownTopicOrPartitionError(about=f"topic {name}")
        return self.by_name[name]

    def partition(self, name: str | None, index: int, topic_id: uuid.UUID | None = None) -> PartitionState:
        topic = self.topic(name, topic_id)
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartitionError(about=f"topic {topic.name}, partition {index}")
        return topic.partitions[index]

    def topics(self) -> dict[str, tuple[uuid.UUID, int]]:
        """Ids and numbers of partitions, by name."""
        return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in self.by_name.values()}

    def check_new(self, name: str, replicas: list[tuple[int, ...]]) -> None:
        """Raise what Kafka would answer to a topic that cannot be made."""
        check_name(name)
        if name in self.by_name:
            raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
        if not replicas:
            raise InvalidPartitionsError("Number of partitions must be larger than 0.")

    def create(
        self, name: str, replicas: list[tuple[int, ...]], configs: Mapping[str, str] | None = None
    ) -> TopicState:
        """Make a topic; `replicas` names the nodes of each partition, its leader first."""
        self.check_new(name, replicas)
        topic = self._add(name, self.new_id(), replicas, configs or {})
        self._changed()
        return topic

    def new_id(self) -> uuid.UUID:
        """An id that no topic has had."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def grow(self, topic: TopicState, replicas: list[tuple[int, ...]]) -> None:
        """Add partitions."""
        for nodes in replicas:
            self._add_partition(topic, nodes)
        self._changed()

    def configure(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        """Replace a topic's own settings."""
        topic.configs = dict(configs)
        for partition in topic.partitions:
            partition.log.config = self._log_config(topic)
        self._changed()

    def delete(self, topic: TopicState) -> None:
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        for partition in topic.partitions:
            partition.log.delete()
            partition.wake()
        self._changed()

    def close(self) -> None:
        for topic in self.by_name.values():
            for partition in topic.partitions:
                partition.log.close()

    def _add(
        self, name: str, topic_id: uuid.UUID, replicas: list[tuple[int, ...]], configs: Mapping[str, str]
    ) -> TopicState:
        topic = TopicState(name, topic_id, [], dict(configs))
        for nodes in replicas:
            self._add_partition(topic, nodes)
        self.by_name[name] = topic
        self.by_id[topic_id] = topic
        return topic

    def _add_partition(self, topic: TopicState, replicas: tuple[int, ...]) -> None:
        index = len(topic.partitions)
        directory = None if self._data is None else self._data / f"{topic.name}-{index}"
        log = PartitionLog.open(directory, self._log_config(topic), self._clock)
        topic.partitions.append(PartitionState(topic.name, index, tuple(replicas), log))

    def _log_config(self, topic: TopicState) -> LogConfig:
        return LogConfig.from_topic_config({**self._defaults, **topic.configs})

    def _changed(self) -> None:
        if self._data is not None:
            self._save(self._data / _FILE)
        for callback in self.on_change:
            callback()

    def _save(self, path: Path) -> None:
        """Written beside and renamed, so that a crash leaves the old file or the new one."""
        saved = [
            {
                "name": topic.name,
                "id": str(topic.topic_id),
                "replicas": [partition.replicas for partition in topic.partitions],
                "configs": topic.configs,
            }
            for topic in self.by_name.values()
        ]
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(saved, indent=1))
        fresh.replace(path)
