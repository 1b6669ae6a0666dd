"""OffsetCommit, OffsetFetch and OffsetDelete: which partitions may be, and what is answered for each.

Functions between messages and the offset table. `coordinator` calls them; it knows the groups and stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from kclient.broker.groups.base import Group, Topic, Topics
from kclient.broker.groups.offsets import NO_EXPIRY, Committed, OffsetTable
from kclient.errors import (
    BrokerError,
    GroupSubscribedToTopicError,
    OffsetMetadataTooLargeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kclient.wire.schema import NO_UUID

BY_ID = 10
FetchGroup = OffsetFetchRequest.OffsetFetchRequestGroup
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = FetchedGroup.OffsetFetchResponseTopics
FetchedPartition = FetchedTopic.OffsetFetchResponsePartitions
CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
CommitPartition = CommitTopic.OffsetCommitRequestPartition
CommittedPartition: TypeAlias = tuple[Topic, CommitTopic, CommitPartition]

_NO_OFFSET = -1


class CommitAnswer:
    """Collects codes by topic and partition. Kafka's puts what does not exist before what does."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, UUID], OffsetCommitResponse.OffsetCommitResponseTopic] = {}

    def add(self, topic: CommitTopic, partition: int, code: int) -> None:
        found = self._topics.setdefault(
            (topic.name, topic.topic_id),
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[]
            ),
        )
        kind = OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition
        found.partitions.append(kind(partition_index=partition, error_code=code))

    def response(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=list(self._topics.values()))


def existing(
    request: OffsetCommitRequest, version: int, topics: Topics, answer: CommitAnswer
) -> list[CommittedPartition]:
    """The partitions of a commit that exist; the others are answered."""
    found = []
    for asked in request.topics:
        topic = topics.by_id.get(asked.topic_id) if version >= BY_ID else topics.by_name.get(asked.name)
        error = UnknownTopicIdError if version >= BY_ID and topic is None else UnknownTopicOrPartitionError
        for partition in asked.partitions:
            if topic is not None and 0 <= partition.partition_index < len(topic.partitions):
                found.append((topic, asked, partition))
            else:
                answer.add(asked, partition.partition_index, error.code)
    return found


def commit_refused(
    request: OffsetCommitRequest, error: type[BrokerError] | BrokerError
) -> OffsetCommitResponse:
    """The whole commit failed."""
    answer = CommitAnswer()
    for topic in request.topics:
        for partition in topic.partitions:
            answer.add(topic, partition.partition_index, error.code)
    return answer.response()


def committed(partition: CommitPartition, topic_id: UUID, now_ms: int, retention_ms: int) -> Committed:
    """What a request says about a partition."""
    return Committed(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms,
        NO_EXPIRY if retention_ms == -1 else now_ms + retention_ms,
        topic_id,
    )


def metadata_code(partition: CommitPartition, limit: int) -> int:
    """Whether a client's remark is too long; Kafka counts the characters of a Java string."""
    text = partition.committed_metadata or ""
    too_long = len(text.encode("utf-16-le", "surrogatepass")) // 2 > limit
    return OffsetMetadataTooLargeError.code if too_long else 0


def requested_groups(request: OffsetFetchRequest, version: int) -> list[FetchGroup]:
    """The groups of a fetch. Before version 8 there is one, written differently."""
    if version >= 8:
        return request.groups
    topics = request.topics
    kind = FetchGroup.OffsetFetchRequestTopics
    return [
        FetchGroup(
            group_id=request.group_id,
            topics=None
            if topics is None
            else [kind(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
        )
    ]


def fetched(asked: FetchGroup, version: int, table: OffsetTable, topics: Topics) -> FetchedGroup:
    """The offsets of one group: all there are, or those asked for with -1 where there is none."""
    if asked.topics is None:
        answers = list(_all_offsets(table.topics(asked.group_id), version, topics))
    else:
        answers, unknown = [], []
        for topic in asked.topics:
            found = topics.by_id.get(topic.topic_id) if version >= BY_ID else None
            if version >= BY_ID and found is None:
                partitions = _without_offset(topic.partition_indexes, UnknownTopicIdError.code)
                unknown.append(FetchedTopic(topic_id=topic.topic_id, partitions=partitions))
                continue
            name = topic.name if found is None else found.name
            stored = table.topics(asked.group_id).get(name, {})
            answers.append(
                FetchedTopic(
                    name=name,
                    topic_id=topic.topic_id,
                    partitions=[
                        _offset(index, stored.get(index), topic.topic_id) for index in topic.partition_indexes
                    ],
                )
            )
        answers += unknown
    return FetchedGroup(group_id=asked.group_id, topics=answers)


def nothing_fetched(asked: FetchGroup) -> FetchedGroup:
    """The answer about a group that does not exist: no offsets, and no error."""
    return FetchedGroup(group_id=asked.group_id, topics=_empty_topics(asked, 0))


def fetch_refused(asked: FetchGroup, version: int, error: BrokerError) -> FetchedGroup:
    """A group's error, which version 1 repeats for each partition because it has no other place for it."""
    topics = _empty_topics(asked, error.code) if version < 2 else []
    return FetchedGroup(group_id=asked.group_id, topics=topics, error_code=error.code)


def fetch_response(groups: list[FetchedGroup], version: int) -> OffsetFetchResponse:
    if version >= 8:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    kind = OffsetFetchResponse.OffsetFetchResponseTopic
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            kind(
                name=topic.name,
                partitions=[
                    kind.OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _empty_topics(asked: FetchGroup, code: int) -> list[FetchedTopic]:
    return [
        FetchedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=_without_offset(topic.partition_indexes, code),
        )
        for topic in asked.topics or ()
    ]


def _all_offsets(
    stored: dict[str, dict[int, Committed]], version: int, topics: Topics
) -> Iterator[FetchedTopic]:
    for name, partitions in stored.items():
        topic = topics.by_name.get(name)
        if version >= BY_ID and topic is None:
            continue  # there is no id to call it by
        yield FetchedTopic(
            name=name,
            topic_id=NO_UUID if topic is None else topic.topic_id,
            partitions=[_offset(index, one, NO_UUID) for index, one in partitions.items()],
        )


def _offset(index: int, stored: Committed | None, topic_id: UUID) -> FetchedPartition:
    if stored is None or not stored.is_of(topic_id):
        return _without_offset([index], 0)[0]
    return FetchedPartition(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _without_offset(indexes: Iterable[int], code: int) -> list[FetchedPartition]:
    return [
        FetchedPartition(partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=code)
        for index in indexes
    ]


def deletions(
    request: OffsetDeleteRequest, group: Group, topics: Topics
) -> tuple[OffsetDeleteResponse, list[tuple[str, int]]]:
    """What to answer to OffsetDelete, and the partitions whose offsets to delete."""
    kind = OffsetDeleteResponse.OffsetDeleteResponseTopic
    response, deleted = OffsetDeleteResponse(topics=[]), []
    for asked in request.topics:
        topic = topics.by_name.get(asked.name)
        count = 0 if topic is None else len(topic.partitions)
        answer = kind(name=asked.name, partitions=[])
        for partition in asked.partitions:
            code = 0
            if not 0 <= partition.partition_index < count:
                code = UnknownTopicOrPartitionError.code
            elif group.is_subscribed_to(asked.name):
                code = GroupSubscribedToTopicError.code
            else:
                deleted.append((asked.name, partition.partition_index))
            answer.partitions.append(
                kind.OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
        response.topics.append(answer)
    return response, deleted
