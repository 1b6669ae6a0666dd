"""Fetching: whole batches as they are stored, with sessions and long polls; reading from any replica."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from kclient.broker.api import RequestContext, handles
from kclient.broker.fetch_sessions import Key, Sent, Session
from kclient.broker.leadership import check_epoch, hint_of
from kclient.broker.topics import PartitionState
from kclient.errors import (
    BrokerError,
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.messages.fetch import FetchRequest, FetchResponse

Topic = FetchResponse.FetchableTopicResponse
Data = Topic.PartitionData
_FIRST_WITH_DIVERGENCE = 12
_FIRST_WITH_HINTS = 16
_FIRST_BY_ID = 13
_FIRST_FROM_FOLLOWERS = 11
_READ_COMMITTED = 1
_ASK_THE_LEADER = (NotLeaderOrFollowerError, FencedLeaderEpochError)
_UNKNOWN = (UnknownTopicIdError, UnknownTopicOrPartitionError)


class Round(NamedTuple):
    """One look at all wanted partitions; `urgent` if the client must hear of more than records."""

    answers: list[tuple[Key, Data]]
    size: int
    urgent: bool


class Room(NamedTuple):
    """What may be read from a partition.

    The first with data may exceed every limit by one batch: else a large batch could never be read.
    """

    size: int
    first: bool


@handles(FetchRequest)
async def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
    try:
        session = context.node.fetch_sessions.enter(request, by_id=context.version >= _FIRST_BY_ID)
    except BrokerError as error:
        return FetchResponse(error_code=error.code, responses=[])
    round_ = _read_all(context, request, session)
    if request.max_wait_ms > 0 and session.wanted and not _is_enough(round_, request):
        round_ = await _wait(context, request, session)
    shown = [(key, data) for key, data in round_.answers if _is_news(session, key, data)]
    for key, data in shown:
        session.told[key] = Sent(data.high_watermark, data.log_start_offset)
        if data.records:
            # Next time it is the others' turn: else the first could fill every answer.
            session.wanted.move_to_end(key)
    topics = []
    for (name, topic_id), group in groupby(shown, key=lambda item: (item[0].topic, item[0].topic_id)):
        topics.append(Topic(topic=name, topic_id=topic_id, partitions=[data for _, data in group]))
    response = FetchResponse(session_id=session.session_id, responses=topics)
    if context.version >= _FIRST_WITH_HINTS:
        leaders = sorted({data.current_leader.leader_id for _, data in shown} - {-1})
        response.node_endpoints = [hint_of(context, node, FetchResponse.NodeEndpoint) for node in leaders]
    return response


async def _wait(context: RequestContext, request: FetchRequest, session: Session) -> Round:
    """Look again whenever a partition gets records, until there are enough or the time is up."""
    event = asyncio.Event()
    partitions = []
    for key in session.wanted:
        with suppress(BrokerError):
            partitions.append(context.broker.topics.partition(key.topic, key.partition, key.topic_id))
    for partition in partitions:
        partition.waiting[event] = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(request.max_wait_ms / 1000):
                while True:
                    await event.wait()
                    event.clear()
                    round_ = _read_all(context, request, session)
                    if _is_enough(round_, request):
                        return round_
    finally:
        for partition in partitions:
            partition.waiting.pop(event, None)
    return _read_all(context, request, session)


def _is_enough(round_: Round, request: FetchRequest) -> bool:
    return round_.urgent or round_.size >= request.min_bytes


def _read_all(context: RequestContext, request: FetchRequest, session: Session) -> Round:
    answers: list[tuple[Key, Data]] = []
    size, urgent = 0, False
    limit = min(request.max_bytes, context.broker.settings.number("fetch.max.bytes"))
    for key, wanted in session.wanted.items():
        try:
            room = min(wanted.partition_max_bytes, limit - size)
            data = _read_one(context, request, key, wanted, Room(max(0, room), first=size == 0))
        except BrokerError as error:
            data = _failure(context, key, error)
        size += len(data.records or b"")
        urgent = urgent or bool(
            data.error_code or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0
        )
        answers.append((key, data))
    return Round(answers, size, urgent)


def _read_one(
    context: RequestContext,
    request: FetchRequest,
    key: Key,
    wanted: FetchRequest.FetchTopic.FetchPartition,
    room: Room,
) -> Data:
    if context.version >= _FIRST_BY_ID and not key.topic_id.int:
        raise UnknownTopicIdError(about="a fetch that names no topic id")
    partition = context.broker.topics.partition(key.topic, key.partition, key.topic_id)
    _check_replica(context, partition)
    check_epoch(partition, wanted.current_leader_epoch)
    log = partition.log
    data = Data(
        partition_index=key.partition,
        high_watermark=log.end_offset,
        last_stable_offset=log.end_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=[] if request.isolation_level == _READ_COMMITTED else None,
        records=b"",
    )
    if _diverged(context, partition, wanted, data):
        return data
    nearest = _nearer_replica(context, request, partition)
    if nearest is not None:
        data.preferred_read_replica = nearest
        return data
    data.records = log.read(wanted.fetch_offset, room.size, at_least_one=room.first)
    return data


def _check_replica(context: RequestContext, partition: PartitionState) -> None:
    """Followers serve those who may know of them (KIP-392)."""
    able = partition.replicas if context.version >= _FIRST_FROM_FOLLOWERS else (partition.leader,)
    if context.node.node_id not in able or partition.leader < 0:
        raise NotLeaderOrFollowerError(about=f"topic {partition.topic}, partition {partition.index}")


def _diverged(
    context: RequestContext,
    partition: PartitionState,
    wanted: FetchRequest.FetchTopic.FetchPartition,
    data: Data,
) -> bool:
    """Whether the client has records that were lost: their epoch ended earlier here (KIP-320)."""
    if context.version < _FIRST_WITH_DIVERGENCE or wanted.last_fetched_epoch < 0:
        return False
    if wanted.last_fetched_epoch > partition.leader_epoch:
        raise OffsetOutOfRangeError(about=f"epoch {wanted.last_fetched_epoch}, which has not begun")
    epoch, end = partition.log.end_of_epoch(wanted.last_fetched_epoch)
    if epoch == wanted.last_fetched_epoch and end >= wanted.fetch_offset:
        return False
    data.diverging_epoch = Data.EpochEndOffset(epoch=epoch, end_offset=end)
    return True


def _nearer_replica(context: RequestContext, request: FetchRequest, partition: PartitionState) -> int | None:
    """The replica in the client's rack, if it asked the leader and the cluster is set to tell (KIP-392)."""
    aware = "RackAware" in context.broker.settings["replica.selector.class"]
    if not aware or not request.rack_id or context.node.node_id != partition.leader:
        return None
    if context.node.rack == request.rack_id:
        return None
    near = (
        node
        for node in context.broker.in_sync(partition)
        if context.broker.nodes[node].rack == request.rack_id
    )
    return next(near, None)


def _failure(context: RequestContext, key: Key, error: BrokerError) -> Data:
    data = Data(
        partition_index=key.partition,
        error_code=error.code,
        high_watermark=-1,
        aborted_transactions=[] if isinstance(error, _UNKNOWN) else None,
        records=b"",
    )
    if isinstance(error, _ASK_THE_LEADER) and context.version >= _FIRST_WITH_HINTS:
        partition = context.broker.topics.partition(key.topic, key.partition, key.topic_id)
        data.current_leader = Data.LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )
    return data


def _is_news(session: Session, key: Key, data: Data) -> bool:
    if not session.incremental or data.error_code or data.records or data.diverging_epoch.epoch >= 0:
        return True
    if data.preferred_read_replica >= 0:
        return True
    return session.told.get(key) != Sent(data.high_watermark, data.log_start_offset)
