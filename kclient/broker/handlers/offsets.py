"""Offsets by time and by leader epoch, and deleting the records before an offset."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.leadership import check_epoch, check_leader
from kclient.broker.topics import PartitionState
from kclient.errors import (
    BrokerError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnsupportedVersionError,
)
from kclient.wire.messages.fetch import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kclient.wire.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4
_FIRST_VERSION_OF_TIME = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
_NEVER = 99
_FIRST_WITH_EPOCHS = 4

Offset = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
EpochEnd = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset
Deleted = DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult


@handles(ListOffsetsRequest)
async def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        found = []
        asked = [wanted.partition_index for wanted in topic.partitions]
        for wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.values():
            try:
                if asked.count(wanted.partition_index) > 1:
                    raise InvalidRequestError(about=f"partition {wanted.partition_index}, named twice")
                partition = context.broker.topics.partition(topic.name, wanted.partition_index)
                check_leader(context, partition)
                check_epoch(partition, wanted.current_leader_epoch)
                _check_time(wanted.timestamp, context.version)
                found.append(_offset(partition, wanted.timestamp, context.version))
            except BrokerError as error:
                found.append(Offset(partition_index=wanted.partition_index, error_code=error.code))
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=found))
    return ListOffsetsResponse(topics=topics)


def _check_time(timestamp: int, version: int) -> None:
    """Refuse the special times that came with later versions."""
    if timestamp < 0 and version < _FIRST_VERSION_OF_TIME.get(timestamp, _NEVER):
        raise UnsupportedVersionError(about=f"time {timestamp}")


def _offset(partition: PartitionState, timestamp: int, version: int) -> Offset:
    log = partition.log
    answer = Offset(partition_index=partition.index)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset = log.start_offset
        answer.leader_epoch = partition.leader_epoch
    elif timestamp == _LATEST:
        answer.offset = log.end_offset
        answer.leader_epoch = partition.leader_epoch
    else:
        found = log.latest_timestamp_offset() if timestamp == _MAX_TIMESTAMP else log.offset_at(timestamp)
        if found is not None and timestamp >= _MAX_TIMESTAMP:
            answer.offset, answer.timestamp, answer.leader_epoch = found
    if version < _FIRST_WITH_EPOCHS:
        answer.leader_epoch = -1
    return answer


@handles(OffsetForLeaderEpochRequest)
async def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        found = []
        for wanted in topic.partitions:
            try:
                partition = context.broker.topics.partition(topic.topic, wanted.partition)
                check_leader(context, partition)
                check_epoch(partition, wanted.current_leader_epoch)
                epoch, end = partition.log.end_of_epoch(wanted.leader_epoch)
                found.append(EpochEnd(partition=wanted.partition, leader_epoch=epoch, end_offset=end))
            except BrokerError as error:
                found.append(EpochEnd(partition=wanted.partition, error_code=error.code))
        topics.append(
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=found)
        )
    return OffsetForLeaderEpochResponse(topics=topics)


@handles(DeleteRecordsRequest)
async def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        done = []
        for wanted in topic.partitions:
            try:
                partition = context.broker.topics.partition(topic.name, wanted.partition_index)
                check_leader(context, partition)
                _check_deletable(context, topic.name)
                done.append(_delete(partition, wanted.offset))
            except BrokerError as error:
                done.append(
                    Deleted(partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code)
                )
        topics.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=done))
    return DeleteRecordsResponse(topics=topics)


def _check_deletable(context: RequestContext, name: str) -> None:
    topic = context.broker.topics.topic(name)
    policy = topic.configs.get("cleanup.policy", context.broker.settings.topic_defaults()["cleanup.policy"])
    if "delete" not in policy:
        raise PolicyViolationError(about=f"topic {name}, which is compacted only")


def _delete(partition: PartitionState, offset: int) -> Deleted:
    end = partition.log.end_offset
    before = end if offset == -1 else offset
    if not 0 <= before <= end:
        raise OffsetOutOfRangeError(about=f"topic {partition.topic}, partition {partition.index}")
    start = partition.log.delete_before(before)
    partition.wake()
    return Deleted(partition_index=partition.index, low_watermark=start)
