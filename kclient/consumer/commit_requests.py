"""Requests that commit offsets and look them up, and how their answers are read; without I/O.

From version 10 on topics travel as ids, so that a topic that was deleted and made again is another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from kclient.cluster.metadata import Metadata
from kclient.cluster.operations import Operation
from kclient.cluster.routes import Coordinator, CoordinatorKind
from kclient.consumer.group.protocol import grouped
from kclient.consumer.seam import Offsets
from kclient.errors import KafkaError, ProtocolError, error_for
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kclient.wire.schema import NO_UUID

_FIRST_STATIC = 7
_FIRST_REQUIRING_STABLE = 7
_FIRST_BATCHED = 8
_FIRST_WITH_IDS = 10


def knows_ids(snapshot: Metadata, partitions: Iterable[TopicPartition]) -> bool:
    """Whether topics can be named by their ids."""
    return all(_id(snapshot, topic) != NO_UUID for topic in {partition.topic for partition in partitions})


def commit_request(
    identity: GroupMetadata, offsets: Offsets, snapshot: Metadata, version: int
) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic

    def partition(name: str, number: int) -> Any:
        position = offsets[TopicPartition(name, number)]
        return topic.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=position.offset,
            committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
            committed_metadata=position.metadata,
        )

    return OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id if version >= _FIRST_STATIC else None,
        topics=[
            topic(
                name=name,
                topic_id=_id(snapshot, name),
                partitions=[partition(name, number) for number in numbers],
            )
            for name, numbers in grouped(offsets).items()
        ],
    )


def read_commit(
    response: OffsetCommitResponse, offsets: Offsets, snapshot: Metadata, group_id: str
) -> dict[TopicPartition, KafkaError | None]:
    """What became of each partition."""
    names = {_id(snapshot, partition.topic): partition.topic for partition in offsets}
    outcomes: dict[TopicPartition, KafkaError | None] = dict.fromkeys(
        offsets, ProtocolError("the answer to OffsetCommit does not mention the partition")
    )
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            about = f"group {group_id}, topic {name}, partition {partition.partition_index}"
            key = TopicPartition(name, partition.partition_index)
            if key in outcomes:
                outcomes[key] = error_for(partition.error_code, about=about)
    return outcomes


class FetchCommitted(Operation[TopicPartition, OffsetAndMetadata | None]):
    """Looks up what a group has committed, by partition; a member that the broker assigns says who it is."""

    request: ClassVar[type[OffsetFetchRequest]] = OffsetFetchRequest

    def __init__(self, snapshot: Metadata, identity: GroupMetadata, modern: bool) -> None:
        self._snapshot = snapshot
        self._identity = identity
        self._modern = modern and identity.generation_id >= 0

    def route(self, key: TopicPartition) -> Coordinator:  # noqa: ARG002 - one for all
        return Coordinator(CoordinatorKind.GROUP, self._identity.group_id)

    def build(self, keys: list[TopicPartition], version: int) -> OffsetFetchRequest:
        stable = version >= _FIRST_REQUIRING_STABLE  # offsets of an open transaction may still be taken back
        if version < _FIRST_BATCHED:
            one = OffsetFetchRequest.OffsetFetchRequestTopic
            return OffsetFetchRequest(
                group_id=self._identity.group_id,
                topics=[one(name=name, partition_indexes=numbers) for name, numbers in grouped(keys).items()],
                require_stable=stable,
            )
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        asked = group(
            group_id=self._identity.group_id,
            member_id=self._identity.member_id if self._modern else None,
            member_epoch=self._identity.generation_id if self._modern else -1,
            topics=[
                group.OffsetFetchRequestTopics(
                    name=name, topic_id=_id(self._snapshot, name), partition_indexes=numbers
                )
                for name, numbers in grouped(keys).items()
            ],
        )
        return OffsetFetchRequest(groups=[asked], require_stable=stable)

    def read(
        self, response: OffsetFetchResponse, keys: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | KafkaError | None]:
        answer = response.groups[0] if response.groups else response
        error = error_for(answer.error_code, about=f"group {self._identity.group_id}")
        if error is not None:
            return dict.fromkeys(keys, error)
        found: dict[TopicPartition, OffsetAndMetadata | KafkaError | None] = {}
        names = {_id(self._snapshot, key.topic): key.topic for key in keys}
        for topic in answer.topics:
            name = topic.name or names.get(getattr(topic, "topic_id", NO_UUID), "")
            for partition in topic.partitions:
                key = TopicPartition(name, partition.partition_index)
                found[key] = error_for(
                    partition.error_code,
                    about=f"group {self._identity.group_id}, topic {name}, partition {key.partition}",
                ) or _position(
                    partition.committed_offset, partition.metadata, partition.committed_leader_epoch
                )
        return found


class FetchCommittedByName(FetchCommitted):
    """The same where the id of a topic is not known."""

    newest: ClassVar[int | None] = _FIRST_WITH_IDS - 1


def _position(offset: int, metadata: str | None, epoch: int) -> OffsetAndMetadata | None:
    if offset < 0:
        return None
    return OffsetAndMetadata(offset, metadata or "", None if epoch < 0 else epoch)


def _id(snapshot: Metadata, topic: str) -> Any:
    known = snapshot.topics.get(topic)
    return NO_UUID if known is None else known.topic_id
