"""Offsets that groups have committed: the requests that list, change and delete them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar, TypeVar

from kclient.admin.groups import coordinator_of
from kclient.admin.operation import AdminOperation, needs
from kclient.cluster.routes import Coordinator
from kclient.errors import BrokerError, KafkaError, NonEmptyGroupError, UnknownMemberIdError, error_for
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

S = TypeVar("S")

_FIRST_REQUIRING_STABLE = 7
_FIRST_BATCHED = 8
_LAST_WITH_TOPIC_NAMES = 9
_NOT_COMMITTED = -1

Committed = dict[TopicPartition, OffsetAndMetadata | KafkaError | None]


class ListGroupOffsets(AdminOperation[str, Committed]):
    """Lists what a group has committed, for all partitions or the given ones; the key is the group's id.

    An error of one partition is that partition's; a passing one makes the whole group be asked again.
    """

    request: ClassVar[type[OffsetFetchRequest]] = OffsetFetchRequest
    newest: ClassVar[int | None] = _LAST_WITH_TOPIC_NAMES

    def __init__(self, partitions: Collection[TopicPartition] | None, require_stable: bool) -> None:
        self._partitions = partitions
        self._require_stable = require_stable

    def route(self, key: str) -> Coordinator:
        return coordinator_of(key)

    def build(self, keys: list[str], version: int) -> OffsetFetchRequest:
        if self._require_stable and version < _FIRST_REQUIRING_STABLE:
            raise needs("2.5", "require_stable")
        (group_id,) = keys
        if version < _FIRST_BATCHED:
            topics = self._topics(OffsetFetchRequest.OffsetFetchRequestTopic)
            return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=self._require_stable)
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        return OffsetFetchRequest(
            groups=[group(group_id=group_id, topics=self._topics(group.OffsetFetchRequestTopics))],
            require_stable=self._require_stable,
        )

    def _topics(self, topic: Callable[..., S]) -> list[S] | None:
        if self._partitions is None:
            return None
        return [
            topic(name=name, partition_indexes=numbers)
            for name, numbers in _by_topic(self._partitions).items()
        ]

    def read(self, response: OffsetFetchResponse, keys: list[str]) -> dict[str, Committed | KafkaError]:
        (group_id,) = keys
        return {group_id: _committed(response.groups[0] if response.groups else response, group_id)}


class AlterGroupOffsets(AdminOperation[TopicPartition, None]):
    """Commits offsets in the name of a group without members, by partition."""

    request: ClassVar[type[OffsetCommitRequest]] = OffsetCommitRequest
    newest: ClassVar[int | None] = _LAST_WITH_TOPIC_NAMES

    def __init__(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._group_id = group_id
        self._offsets = offsets

    def route(self, key: TopicPartition) -> Coordinator:
        return coordinator_of(self._group_id)

    def build(self, keys: list[TopicPartition], version: int) -> OffsetCommitRequest:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        return OffsetCommitRequest(
            group_id=self._group_id,
            member_id="",
            topics=[
                topic(name=name, partitions=[self._partition(TopicPartition(name, each)) for each in numbers])
                for name, numbers in _by_topic(keys).items()
            ],
        )

    def _partition(
        self, key: TopicPartition
    ) -> OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition:
        committed = self._offsets[key]
        return OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=key.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
            committed_metadata=committed.metadata,
        )

    def read(
        self, response: OffsetCommitResponse, keys: list[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        return {
            key: _no_members(error_for(partition.error_code, about=_about(self._group_id, key)))
            for topic in response.topics
            for partition in topic.partitions
            for key in (TopicPartition(topic.name, partition.partition_index),)
        }


class DeleteGroupOffsets(AdminOperation[TopicPartition, None]):
    """Deletes what a group has committed, by partition."""

    request: ClassVar[type[OffsetDeleteRequest]] = OffsetDeleteRequest
    since: ClassVar[str] = "2.4"

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def route(self, key: TopicPartition) -> Coordinator:
        return coordinator_of(self._group_id)

    def build(self, keys: list[TopicPartition], version: int) -> OffsetDeleteRequest:
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        partition = topic.OffsetDeleteRequestPartition
        return OffsetDeleteRequest(
            group_id=self._group_id,
            topics=[
                topic(name=name, partitions=[partition(partition_index=each) for each in numbers])
                for name, numbers in _by_topic(keys).items()
            ],
        )

    def read(
        self, response: OffsetDeleteResponse, keys: list[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        error = error_for(response.error_code, about=f"group {self._group_id}")
        if error is not None:
            return dict.fromkeys(keys, error)
        return {
            key: error_for(partition.error_code, about=_about(self._group_id, key))
            for topic in response.topics
            for partition in topic.partitions
            for key in (TopicPartition(topic.name, partition.partition_index),)
        }


def _about(group_id: str, partition: TopicPartition) -> str:
    return f"group {group_id}, topic {partition.topic}, partition {partition.partition}"


def _no_members(error: BrokerError | None) -> BrokerError | None:
    """A commit without a member id is refused as one of an unknown member while the group has others."""
    if not isinstance(error, UnknownMemberIdError):
        return error
    clearer = NonEmptyGroupError(about=error.about)
    clearer.__cause__ = error
    return clearer


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    return dict(topics)


def _committed(
    answer: OffsetFetchResponse | OffsetFetchResponse.OffsetFetchResponseGroup, group_id: str
) -> Committed | KafkaError:
    error = error_for(answer.error_code, about=f"group {group_id}")
    if error is not None:
        return error
    committed: Committed = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = error_for(partition.error_code, about=_about(group_id, key))
            if error is not None and error.retriable:
                return error
            committed[key] = error or _offset(partition)
    return committed


def _offset(
    partition: (
        OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition
        | OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions
    ),
) -> OffsetAndMetadata | None:
    if partition.committed_offset == _NOT_COMMITTED:
        return None
    epoch = partition.committed_leader_epoch
    return OffsetAndMetadata(
        partition.committed_offset, partition.metadata or "", None if epoch < 0 else epoch
    )
