"""Questions to a partition's leader about offsets: by time, and by leader epoch. Operations, without I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from kclient.cluster.operations import Operation
from kclient.cluster.routes import Leader
from kclient.errors import KafkaError, error_for
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

_NO_REPLICA = -1


class OffsetAndTimestamp(NamedTuple):
    """A record found by time. `leader_epoch` is None where the broker does not tell."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class EpochEnd(NamedTuple):
    """Where a leader's records of an epoch, or of the last one before it, end."""

    epoch: int
    offset: int


class ListOffsets(Operation[TopicPartition, OffsetAndTimestamp]):
    """The first offset whose record is as late as a timestamp (ms); -1 asks for the end, -2 for the start.

    An offset of -1 in the answer means that no record is as late.
    """

    request: ClassVar[type[ListOffsetsRequest]] = ListOffsetsRequest

    def __init__(
        self,
        targets: Mapping[TopicPartition, int],
        committed_only: bool,
        epochs: Mapping[TopicPartition, int],
    ) -> None:
        self._targets = targets
        self._isolation_level = int(committed_only)
        self._epochs = epochs

    def route(self, key: TopicPartition) -> Leader:
        return Leader(key)

    def build(self, keys: list[TopicPartition], version: int) -> ListOffsetsRequest:  # noqa: ARG002
        topics: dict[str, list[ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition]] = defaultdict(list)
        declaration = ListOffsetsRequest.ListOffsetsTopic
        for key in keys:
            topics[key.topic].append(
                declaration.ListOffsetsPartition(
                    partition_index=key.partition,
                    current_leader_epoch=self._epochs.get(key, -1),
                    timestamp=self._targets[key],
                )
            )
        return ListOffsetsRequest(
            replica_id=_NO_REPLICA,
            isolation_level=self._isolation_level,
            topics=[declaration(name=name, partitions=partitions) for name, partitions in topics.items()],
        )

    def read(
        self,
        response: ListOffsetsResponse,
        keys: list[TopicPartition],  # noqa: ARG002
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        outcomes: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                epoch = partition.leader_epoch
                outcomes[key] = error_for(partition.error_code, about=_about(key)) or OffsetAndTimestamp(
                    partition.offset, partition.timestamp, None if epoch < 0 else epoch
                )
        return outcomes


class EpochEnds(Operation[TopicPartition, EpochEnd]):
    """Where the records of an epoch end (KIP-320). `epochs` are (current leader epoch, asked epoch)."""

    request: ClassVar[type[OffsetForLeaderEpochRequest]] = OffsetForLeaderEpochRequest

    def __init__(self, epochs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._epochs = epochs

    def route(self, key: TopicPartition) -> Leader:
        return Leader(key)

    def build(self, keys: list[TopicPartition], version: int) -> OffsetForLeaderEpochRequest:  # noqa: ARG002
        declaration = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        topics: dict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition]]
        topics = defaultdict(list)
        for key in keys:
            current, asked = self._epochs[key]
            topics[key.topic].append(
                declaration.OffsetForLeaderPartition(
                    partition=key.partition, current_leader_epoch=current, leader_epoch=asked
                )
            )
        return OffsetForLeaderEpochRequest(
            replica_id=_NO_REPLICA,
            topics=[declaration(topic=name, partitions=partitions) for name, partitions in topics.items()],
        )

    def read(
        self,
        response: OffsetForLeaderEpochResponse,
        keys: list[TopicPartition],  # noqa: ARG002
    ) -> dict[TopicPartition, EpochEnd | KafkaError]:
        outcomes: dict[TopicPartition, EpochEnd | KafkaError] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.topic, partition.partition)
                outcomes[key] = error_for(partition.error_code, about=_about(key)) or EpochEnd(
                    partition.leader_epoch, partition.end_offset
                )
        return outcomes


def _about(key: TopicPartition) -> str:
    return f"topic {key.topic}, partition {key.partition}"
