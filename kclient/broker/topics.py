"""The topics of an embedded cluster: who leads what, their settings, their logs.

All nodes run in one process and share these objects, so a replica is a claim and not a copy: moving a
leader is changing a number and beginning an epoch. What outlives a run is in `data_directory`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from kclient.broker.data_directory import Storage
from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.broker.topic_file import SavedTopic
from kclient.clock import Clock
from kclient.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    KafkaStorageError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.topics import illegal
from kclient.types import TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})


class PartitionState:
    """One partition. `waiting` are fetches that wait for more records."""

    def __init__(
        self, topic: str, index: int, replicas: tuple[int, ...], log: PartitionLog, leader_epoch: int = 0
    ) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.leader: int = replicas[0]
        self.leader_epoch: int = leader_epoch
        self.log = log
        # Not a set: the order in which fetches are woken must be the same in every run of a simulation.
        self.waiting: dict[asyncio.Event, None] = {}
        log.begin_epoch(leader_epoch)

    def __repr__(self) -> str:
        return f"<PartitionState {self.topic}-{self.index} led by {self.leader}, epoch {self.leader_epoch}>"

    def lead_by(self, node_id: int) -> None:
        """Make another node the leader; -1 leaves the partition without one."""
        if node_id != self.leader:
            self.leader = node_id
            self.leader_epoch += 1
            self.log.begin_epoch(self.leader_epoch)
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

    def saved(self) -> SavedTopic:
        """What is kept of it apart from its logs."""
        replicas = [partition.replicas for partition in self.partitions]
        epochs = [partition.leader_epoch for partition in self.partitions]
        return SavedTopic(self.name, self.topic_id, replicas, epochs, self.configs)


def check_name(name: str) -> None:
    """Raise Kafka's words for a name that no topic can have."""
    reason = illegal(name)
    if reason is not None:
        raise InvalidTopicError(f"Topic name is invalid: {reason}")


class TopicCatalogue:
    """Every topic of the cluster; created, grown, deleted, found by name or id."""

    def __init__(self, storage: Storage, clock: Clock, random: Random, defaults: Mapping[str, str]) -> None:
        self.by_name: dict[str, TopicState] = {}
        self.by_id: dict[uuid.UUID, TopicState] = {}
        self.on_change: list[Callable[[], None]] = []
        self._storage = storage
        self._clock = clock
        self._random = random
        self._defaults_of: Callable[[int], Mapping[str, str]] = lambda _: defaults
        # Deleted, and their directories perhaps not yet removed.
        self._deleted: list[SavedTopic] = []

    def load(self, nodes: list[int], opened: Callable[[int, int], None] | None = None) -> None:
        """Open what an earlier run left; every partition begins an epoch, as after any loss of its leader.

        `opened` is told how many partitions of how many are open.
        """
        found = self._storage.load()
        done, total = 0, sum(len(saved.replicas) for saved in found)
        for saved in found:
            topic = self._add(saved._replace(replicas=[], epochs=[]))
            for replicas, epoch in zip(saved.replicas, saved.epochs, strict=True):
                alive = tuple(node for node in replicas if node in nodes) or (nodes[0],)
                self._add_partition(topic, alive, epoch + 1)
                done += 1
                if opened is not None:
                    opened(done, total)
        self.save()

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
        saved = SavedTopic(name, self.new_id(), list(replicas), [0] * len(replicas), dict(configs or {}))
        self._log_config(saved.configs)
        # Saved before there are directories: a crash in between is made good by `load`, which makes them.
        self._storage.note(saved)
        try:
            topic = self._add(saved)
        except KafkaStorageError:
            self._storage.forget(saved)
            raise
        self._changed()
        return topic

    def new_id(self) -> uuid.UUID:
        """An id that no topic has: a seed draws the same ids in every run, also over data of an earlier."""
        taken = self.by_id.keys() | {topic.topic_id for topic in self._deleted}
        while (drawn := uuid.UUID(int=self._random.getrandbits(128), version=4)) in taken:
            pass
        return drawn

    def grow(self, topic: TopicState, replicas: list[tuple[int, ...]]) -> None:
        """Add partitions."""
        saved = topic.saved()
        grown = saved._replace(
            replicas=[*saved.replicas, *replicas], epochs=[*saved.epochs, *(0 for _ in replicas)]
        )
        # As in `create`: on the list first, so that no directory is ever without its line there.
        self._storage.note(grown)
        for nodes in replicas:
            self._add_partition(topic, nodes)
        self._storage.note(topic.saved())
        self._changed()

    def configure(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        """Replace a topic's own settings."""
        self._log_config(configs)
        topic.configs = dict(configs)
        self._reconfigure(topic)
        self._storage.note(topic.saved())
        self._changed()

    def take_defaults(self, defaults_of: Callable[[int], Mapping[str, str]]) -> None:
        """Have other defaults of topics, by the node that leads a partition."""
        self._defaults_of = defaults_of
        for topic in self.by_name.values():
            self._reconfigure(topic)
        self._changed()

    def _reconfigure(self, topic: TopicState) -> None:
        leaders = {partition.leader for partition in topic.partitions}
        configs = {leader: self._log_config(topic.configs, leader) for leader in leaders}
        for partition in topic.partitions:
            partition.log.config = configs[partition.leader]

    def delete(self, topic: TopicState) -> None:
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        # The next run ends what a crash from here on leaves undone.
        gone = topic.saved()._replace(deleted=True)
        self._deleted.append(gone)
        self._storage.note(gone)
        for partition in topic.partitions:
            partition.wake()
        self._changed()
        for partition in topic.partitions:
            partition.log.delete()
        self._deleted.remove(gone)
        self._storage.forget(gone)

    def save(self, topic: TopicState | None = None) -> None:
        """Keep what is known of topics, or of one; to be called after leaders or replicas were changed."""
        for changed in self.by_name.values() if topic is None else [topic]:
            self._reconfigure(changed)
        if topic is None:
            self._storage.save(self._saved())
        else:
            self._storage.note(topic.saved())

    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """Every log."""
        return {
            TopicPartition(topic.name, partition.index): partition.log
            for topic in self.by_name.values()
            for partition in topic.partitions
        }

    def close(self) -> None:
        logs = self.logs()
        for log in logs.values():
            log.close()
        self._storage.close(logs)

    def _saved(self) -> list[SavedTopic]:
        return [*(topic.saved() for topic in self.by_name.values()), *self._deleted]

    def _add(self, saved: SavedTopic) -> TopicState:
        topic = TopicState(saved.name, saved.topic_id, [], saved.configs)
        for nodes, epoch in zip(saved.replicas, saved.epochs, strict=True):
            self._add_partition(topic, nodes, epoch)
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        return topic

    def _add_partition(self, topic: TopicState, replicas: tuple[int, ...], epoch: int = 0) -> None:
        index = len(topic.partitions)
        where = TopicPartition(topic.name, index)
        config = self._log_config(topic.configs, replicas[0])
        log = self._storage.open_log(where, topic.topic_id, config, self._clock)
        # An epoch that the log has begun but the list of topics does not know was begun before a crash.
        epoch = max(epoch, log.epochs.latest + 1)
        topic.partitions.append(PartitionState(topic.name, index, tuple(replicas), log, epoch))

    def _log_config(self, configs: Mapping[str, str], leader: int = 1) -> LogConfig:
        return LogConfig.from_topic_config({**self._defaults_of(leader), **configs})

    def _changed(self) -> None:
        for callback in self.on_change:
            callback()
