"""What is known of the cluster: an immutable snapshot, and how an answer changes it.

Pure: `Refresher` fetches, this file decides. Old news must not undo new: a broker that lags behind may
still name a former leader, so a partition keeps the higher leader epoch, unless the topic's id shows that
it is another topic of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from kclient.config import Endpoint
from kclient.types import TopicPartition
from kclient.wire.messages.metadata import MetadataResponse
from kclient.wire.schema import NO_UUID

_UNKNOWN_TOPIC = 3
NO_LEADER = -1


class Broker(NamedTuple):
    """A broker as the cluster advertises it."""

    node_id: int
    endpoint: Endpoint
    rack: str | None = None


class Partition(NamedTuple):
    """Who has a partition. `error_code` is what the broker said of it, 0 when all is well."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions by number."""

    name: str
    topic_id: UUID
    internal: bool
    partitions: Mapping[int, Partition]
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """A snapshot. `errors` holds the code for every topic asked for that could not be described."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, Topic] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def leader(self, partition: TopicPartition) -> int | None:
        """The node that leads a partition, if one is known."""
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic else None
        return known.leader if known and known.leader != NO_LEADER else None

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def merge(self, response: MetadataResponse, asked: Iterable[str] | None) -> Metadata:
        """The snapshot after an answer about `asked` topics, or about all topics where that is None."""
        answered = {topic.name: read_topic(topic) for topic in response.topics if topic.name is not None}
        kept = {} if asked is None else dict(self.topics)
        errors = (
            {}
            if asked is None
            else {name: code for name, code in self.errors.items() if name not in answered}
        )
        for name, topic in answered.items():
            if topic.error_code:
                errors[name] = topic.error_code
                # A passing error leaves what is known; a topic that is gone is gone.
                if topic.error_code == _UNKNOWN_TOPIC:
                    kept.pop(name, None)
                elif asked is None and name in self.topics:
                    kept[name] = self.topics[name]
            else:
                kept[name] = _newer(self.topics.get(name), topic)
        return Metadata(
            cluster_id=response.cluster_id or self.cluster_id,
            controller_id=response.controller_id,
            brokers=MappingProxyType(_read_brokers(response) or dict(self.brokers)),
            topics=MappingProxyType(kept),
            errors=MappingProxyType(errors),
        )

    def with_leader(self, partition: TopicPartition, leader: int, leader_epoch: int) -> Metadata:
        """The snapshot after a broker named the new leader in passing (KIP-951), unless that is old news."""
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic else None
        if topic is None or known is None or leader_epoch <= known.leader_epoch:
            return self
        changed = known._replace(leader=leader, leader_epoch=leader_epoch)
        partitions = MappingProxyType({**topic.partitions, known.number: changed})
        return replace(
            self, topics=MappingProxyType({**self.topics, topic.name: replace(topic, partitions=partitions)})
        )

    def with_brokers(self, brokers: Iterable[Broker]) -> Metadata:
        """The snapshot after a broker named others in passing (KIP-951)."""
        return replace(
            self, brokers=MappingProxyType({**self.brokers, **{broker.node_id: broker for broker in brokers}})
        )

    def without(self, topics: Iterable[str]) -> Metadata:
        """The snapshot without topics that nobody asks about any more."""
        dropped = set(topics)
        return replace(
            self,
            topics=MappingProxyType(
                {name: topic for name, topic in self.topics.items() if name not in dropped}
            ),
            errors=MappingProxyType(
                {name: code for name, code in self.errors.items() if name not in dropped}
            ),
        )


def _newer(known: Topic | None, answered: Topic) -> Topic:
    if known is None or (
        known.topic_id != answered.topic_id and NO_UUID not in (known.topic_id, answered.topic_id)
    ):
        return answered
    partitions = dict(answered.partitions)
    for index, partition in answered.partitions.items():
        before = known.partitions.get(index)
        if before is not None and before.leader_epoch > partition.leader_epoch >= 0:
            partitions[index] = before
    return replace(answered, partitions=MappingProxyType(partitions))


def _read_brokers(response: MetadataResponse) -> dict[int, Broker]:
    return {
        broker.node_id: Broker(broker.node_id, Endpoint(broker.host, broker.port), broker.rack)
        for broker in response.brokers
    }


def read_topic(topic: MetadataResponse.MetadataResponseTopic) -> Topic:
    """A topic as one answer describes it."""
    partitions = {
        partition.partition_index: Partition(
            number=partition.partition_index,
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            replicas=tuple(partition.replica_nodes),
            isr=tuple(partition.isr_nodes),
            offline_replicas=tuple(partition.offline_replicas),
            error_code=partition.error_code,
        )
        for partition in topic.partitions
    }
    return Topic(
        name=topic.name or "",
        topic_id=topic.topic_id,
        internal=topic.is_internal,
        partitions=MappingProxyType(dict(sorted(partitions.items()))),
        error_code=topic.error_code,
    )
