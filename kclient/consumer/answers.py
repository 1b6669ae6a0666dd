"""What a broker's answer says about one partition, as a decision. No I/O; `fetcher` acts on it.

Hot, per partition of an answer: the usual case is a few calls.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kclient.consumer.chunk import Chunk
from kclient.consumer.decode import visible
from kclient.errors import (
    BrokerError,
    KafkaError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    ProtocolError,
    UnknownLeaderEpochError,
    error_for,
)
from kclient.records import DEFAULT_LIMITS, Limits, read_batches
from kclient.records.layout import PREFIX, PREFIX_SIZE
from kclient.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from kclient.consumer.buffer import Frame
    from kclient.consumer.cursor import Cursor
    from kclient.records.batch import RecordBatch

Data = FetchResponse.FetchableTopicResponse.PartitionData


class Todo(Enum):
    """What to do about a partition."""

    NOTHING = "go on"
    HAND_OVER = "put the chunk into the buffer"
    TURN_TO = "fetch from another replica"
    ASK_ABOUT = "find out who leads the partition now"
    WAIT = "try again after a while, and say why"
    BREAK_OFF = "put the chunk into the buffer and fetch no further"


class Verdict(NamedTuple):
    """A decision, with what it is about."""

    todo: Todo
    chunk: Chunk | None = None
    error: KafkaError | None = None
    replica: int = -1


_NOTHING = Verdict(Todo.NOTHING)


class Policy(NamedTuple):
    """What a consumer was told about reading."""

    check_crcs: bool
    committed_only: bool
    may_reset: bool
    limits: Limits = DEFAULT_LIMITS


def judge(cursor: Cursor, data: Data, frame: Frame, policy: Policy) -> Verdict:
    """Read what came for a cursor; moves its fetch offset past what it hands over."""
    if data.error_code:
        return _judge_error(cursor, data, frame, policy.may_reset)
    cursor.high_watermark, cursor.last_stable_offset = data.high_watermark, data.last_stable_offset
    if data.preferred_read_replica >= 0:
        return Verdict(Todo.TURN_TO, replica=data.preferred_read_replica)
    records = data.records
    if not records:
        return _NOTHING
    batches, failure = _cut(records, policy)
    if not batches and failure is None:
        # Not one whole batch: an old broker cuts off what exceeds the limit, so the limit has to grow.
        if len(records) >= PREFIX_SIZE:
            cursor.max_bytes = PREFIX_SIZE + PREFIX.unpack_from(records)[1]
        return _NOTHING
    cursor.max_bytes = 0
    aborted = [(item.producer_id, item.first_offset) for item in data.aborted_transactions or ()]
    try:
        shown = list(visible(batches, aborted, policy.committed_only))
    except ProtocolError as error:  # a marker that makes no sense: which records are valid cannot be told
        batches, shown, failure = [], [], error
    start = cursor.fetch_offset
    if batches:
        cursor.fetch_offset = max(start, batches[-1].next_offset)
        cursor.fetch_epoch = batches[-1].leader_epoch
    chunk = Chunk(cursor, frame, shown, start)
    if failure is None:
        return Verdict(Todo.HAND_OVER, chunk)
    topic, partition = cursor.partition
    chunk.failure = failure.locate(topic=topic, partition=partition)
    return Verdict(Todo.BREAK_OFF, chunk)


def _cut(records: bytes | memoryview, policy: Policy) -> tuple[list[RecordBatch], ProtocolError | None]:
    """The batches up to the first that is damaged, and what is wrong with that."""
    batches: list[RecordBatch] = []
    try:
        for batch in read_batches(records, check_crcs=policy.check_crcs, limits=policy.limits):
            batches.append(batch)  # noqa: PERF402 - those before the damage count
    except ProtocolError as error:
        return batches, error
    return batches, None


def _judge_error(cursor: Cursor, data: Data, frame: Frame, may_reset: bool) -> Verdict:
    topic, partition = cursor.partition
    about = f"topic {topic}, partition {partition}"
    error = error_for(data.error_code, about=about)
    assert error is not None
    if isinstance(error, OffsetOutOfRangeError):
        if cursor.replica is not None:  # a follower may lag behind: the leader is asked before it is believed
            return Verdict(Todo.ASK_ABOUT)
        return _out_of_range(cursor, frame, may_reset)
    return Verdict(_todo_about(error), error=error)


def _todo_about(error: BrokerError) -> Todo:
    if error.refresh_metadata or isinstance(error, (UnknownLeaderEpochError, OffsetNotAvailableError)):
        return Todo.ASK_ABOUT
    return Todo.WAIT


def _out_of_range(cursor: Cursor, frame: Frame, may_reset: bool) -> Verdict:
    """The application gets there after what is buffered; only then the reset policy, or it, decides."""
    topic, partition = cursor.partition
    offset = cursor.fetch_offset
    error = OffsetOutOfRangeError(about=f"topic {topic}, partition {partition}, offset {offset}")
    error.topic, error.partition, error.offset = topic, partition, offset
    chunk = Chunk(cursor, frame, (), offset)
    chunk.failure, chunk.resets = error, may_reset
    return Verdict(Todo.BREAK_OFF, chunk)
