"""Offsets of partitions: the first, the next, or that of a point in time; asked of the partition's leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import IntEnum
from typing import ClassVar, Literal, NamedTuple

from kclient.admin.operation import AdminOperation, needs
from kclient.cluster.routes import Leader
from kclient.errors import KafkaError, error_for
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import ListOffsetsRequest, ListOffsetsResponse

IsolationLevel = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: dict[str, int] = {"read_uncommitted": 0, "read_committed": 1}

_NO_REPLICA = -1


class OffsetSpec(IntEnum):
    """Which offset is asked for. Any number from 0 is a timestamp in milliseconds since the epoch.

    LATEST is where the next record goes; with `read_committed`, the end of what is decided. MAX_TIMESTAMP is
    the record with the latest timestamp. The others are about tiered storage: the first offset still on the
    broker's own disk, the last in the remote tier, the first that waits to be copied there.
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The version of ListOffsets that knows a spec, and the Kafka that brought it.
_SINCE: dict[int, tuple[int, str]] = {
    OffsetSpec.MAX_TIMESTAMP: (7, "3.0"),
    OffsetSpec.EARLIEST_LOCAL: (8, "3.5"),
    OffsetSpec.LATEST_TIERED: (9, "3.9"),
    OffsetSpec.EARLIEST_PENDING_UPLOAD: (11, "4.2"),
}


class ListedOffset(NamedTuple):
    """An offset; -1 where no record is as new as the timestamp asked for, or where there is none at all.

    `timestamp` is that of the record, -1 unless a timestamp was asked for. `leader_epoch` is None where the
    broker does not tell.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None


def by_age(specs: Mapping[TopicPartition, int]) -> list[dict[TopicPartition, int]]:
    """The same specs, in parts that an old broker understands or refuses as a whole."""
    parts: dict[tuple[int, str], dict[TopicPartition, int]] = defaultdict(dict)
    for partition, spec in specs.items():
        parts[_SINCE.get(spec, (0, ""))][partition] = spec
    return list(parts.values())


class ListOffsets(AdminOperation[TopicPartition, ListedOffset]):
    """Finds one offset in each partition."""

    request: ClassVar[type[ListOffsetsRequest]] = ListOffsetsRequest

    def __init__(
        self, specs: Mapping[TopicPartition, int], isolation_level: IsolationLevel, timeout_ms: int
    ) -> None:
        self._specs = specs
        self._isolation_level = ISOLATION_LEVELS[isolation_level]
        self._timeout_ms = timeout_ms

    def route(self, key: TopicPartition) -> Leader:
        return Leader(key)

    def build(self, keys: list[TopicPartition], version: int) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition]] = defaultdict(list)
        declaration = ListOffsetsRequest.ListOffsetsTopic
        for key in keys:
            spec = self._specs[key]
            first_version, kafka = _SINCE.get(spec, (0, ""))
            if version < first_version:
                raise needs(kafka, f"OffsetSpec.{OffsetSpec(spec).name}")
            topics[key.topic].append(
                declaration.ListOffsetsPartition(partition_index=key.partition, timestamp=spec)
            )
        return ListOffsetsRequest(
            replica_id=_NO_REPLICA,
            isolation_level=self._isolation_level,
            topics=[declaration(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=self._timeout_ms,
        )

    def read(
        self, response: ListOffsetsResponse, keys: list[TopicPartition]
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        outcomes: dict[TopicPartition, ListedOffset | KafkaError] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                epoch = partition.leader_epoch
                about = f"topic {key.topic}, partition {key.partition}"
                outcomes[key] = error_for(partition.error_code, about=about) or ListedOffset(
                    partition.offset, partition.timestamp, None if epoch < 0 else epoch
                )
        return outcomes
