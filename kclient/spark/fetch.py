"""Ranges of offsets from their brokers, as record batches: what a task reads, and nothing beyond.

The next Fetch is on the wire before the batches of the current one are handed out, so that the broker works
and the socket fills while they are decoded. At the end of a range nothing is asked for any more, so nothing
waits. Memory is one answer that is decoded and one that is on its way, of `max.partition.fetch.bytes` each.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from kclient.clock import Deadline
from kclient.cluster.operations import run
from kclient.consumer.decode import visible
from kclient.consumer.offsets import ListOffsets, OffsetAndTimestamp
from kclient.errors import (
    InconsistentTopicIdError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    ProtocolError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for,
)
from kclient.records import read_batches
from kclient.records.batch import RecordBatch
from kclient.records.layout import PREFIX, PREFIX_SIZE
from kclient.spark.loss import Facts, Policy, explain
from kclient.spark.offsets import EARLIEST, LATEST
from kclient.spark.outages import Outage
from kclient.spark.planning import Range
from kclient.spark.session import Session
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import FetchRequest, FetchResponse
from kclient.wire.schema import NO_UUID

_LANE = "fetch"
_FIRST_BY_ID = 13
_LAST_BY_NAME = 12
_NO_SESSION = -1
# Before anything is known of the records' size: so many bytes are asked for each offset, but not less in all.
_GUESS = 1024
_LEAST_ASKED = 64 * 1024
# To a broker: the first offset on its own disk.
_EARLIEST_LOCAL = -4
# Seconds in which an end that lies behind the log's own end may still come: a new leader learns it late.
_SETTLING = 5.0
_GONE = (UnknownTopicOrPartitionError, UnknownTopicIdError, InconsistentTopicIdError)

Data = FetchResponse.FetchableTopicResponse.PartitionData
Key = tuple[str | UUID, int]


class Piece(NamedTuple):
    """Batches of one range in order; records before `start` and from the range's end on are not wanted."""

    range: Range
    start: int
    batches: list[RecordBatch]


class _Cursor:
    """The place in one range."""

    __slots__ = (
        "asked",
        "bytes_per_offset",
        "doubts",
        "max_bytes",
        "position",
        "range",
        "replica",
        "short_since",
    )

    def __init__(self, wanted: Range) -> None:
        self.range = wanted
        self.position = wanted.start
        self.asked = False
        self.replica: int | None = None
        self.max_bytes = 0
        self.bytes_per_offset: float = _GUESS
        self.doubts = 0
        self.short_since: float | None = None

    @property
    def done(self) -> bool:
        return self.position >= self.range.end

    def wants(self, most: int) -> int:
        """How many bytes to ask for: about what is left of the range."""
        left = int((self.range.end - self.position) * self.bytes_per_offset * 1.1)
        return max(self.max_bytes, min(most, max(left, _LEAST_ASKED)))


class _Answer(NamedTuple):
    node: int
    asked: dict[Key, _Cursor]
    outcome: FetchResponse | KafkaError


class Reading:
    """One task's way through its ranges."""

    def __init__(
        self, session: Session, ranges: Iterable[Range], policy: Policy, poll_timeout_ms: int
    ) -> None:
        self._session = session
        self._config = session.config
        self._committed_only = session.config.isolation_level == "read_committed"
        self._policy = policy
        self._patience = poll_timeout_ms / 1000
        self._cursors = deque(_Cursor(each) for each in ranges if each.size)
        self._busy: set[int] = set()
        self._answers: deque[_Answer] = deque()
        self._bell: asyncio.Event | None = None

    def pieces(self) -> Iterator[Piece]:
        """Everything, in the order in which brokers answer; of one range always in order."""
        while self._cursors:
            yield from self._session.run(self._next(), self._outage(), self._patience * 1000)

    def _outage(self) -> Outage:
        first = self._cursors[0]
        what = (
            f"reading topic {first.range.topic}, partition {first.range.partition}, offset {first.position}"
        )
        return Outage(what, ",".join(map(str, self._config.endpoints())))

    async def _next(self) -> list[Piece]:
        """What the next answer brings; the request behind it has left when this returns."""
        loop = asyncio.get_running_loop()
        deadline = Deadline.after(loop, self._patience)
        backoff = self._session.cluster.backoff()
        if self._bell is None:
            self._bell = asyncio.Event()
            await asyncio.sleep(0)  # a connection that ended since the last task is noticed
        while self._unfinished():
            failure: KafkaError | None = None
            try:
                await self._ask(deadline)
                pieces = await self._read(await self._answer(deadline), loop.time())
                if pieces:
                    self._unfinished()
                    await self._ask_ahead(deadline)
                    return pieces
            except KafkaError as error:
                # What was awaited too long is tried again, or told with where it happened.
                if not error.retriable and not isinstance(error, KafkaTimeoutError):
                    raise
                failure = error
                self._session.cluster.metadata.ask()
            if deadline.passed(loop):
                raise self._stuck(deadline, failure) from failure
            if failure is not None:
                await asyncio.sleep(min(backoff.next(), deadline.remaining(loop)))
        return []

    def _unfinished(self) -> bool:
        self._cursors = deque(cursor for cursor in self._cursors if not cursor.done)
        return bool(self._cursors)

    async def _ask_ahead(self, deadline: Deadline) -> None:
        """What fails here is tried again by the next call: the caller has pieces that must not be dropped."""
        with suppress(KafkaError):
            await self._ask(deadline)

    def _stuck(self, deadline: Deadline, failure: KafkaError | None) -> KafkaTimeoutError:
        first = self._cursors[0]
        why = f"; the last failure: {failure}" if failure else ""
        return KafkaTimeoutError(
            f"topic {first.range.topic}, partition {first.range.partition}: nothing came from offset "
            f"{first.position} on for {deadline.seconds:g} s (kafkaConsumer.pollTimeoutMs){why}"
        )

    # Asking

    async def _ask(self, deadline: Deadline) -> None:
        """Have one request under way to every broker of whom something is wanted."""
        wanted: dict[int, list[_Cursor]] = defaultdict(list)
        for cursor in self._cursors:
            if not cursor.asked and not cursor.done:
                node = cursor.replica if cursor.replica is not None else await self._leader(cursor, deadline)
                if node not in self._busy:
                    wanted[node].append(cursor)
        for node, cursors in wanted.items():
            await self._send(node, cursors, deadline)

    async def _leader(self, cursor: _Cursor, deadline: Deadline) -> int:
        metadata = self._session.cluster.metadata
        partition = cursor.range.topic_partition
        leader = metadata.snapshot.leader(partition)
        if leader is None:
            metadata.look_up(partition.topic)
            leader = (await metadata.refreshed(deadline)).leader(partition)
        if leader is None:
            if partition.topic not in metadata.snapshot.topics and await self._lost(cursor):
                raise KafkaConnectionError(f"topic {partition.topic} is gone")
            raise KafkaConnectionError(
                f"topic {partition.topic}, partition {partition.partition} has no leader"
            )
        return leader

    async def _send(self, node: int, cursors: Sequence[_Cursor], deadline: Deadline) -> None:
        cluster, config = self._session.cluster, self._config
        connection = await cluster.connection(node, deadline, lane=_LANE)
        by_id = all(cursor.range.topic_id for cursor in cursors)
        version = connection.version_for(FetchRequest, None if by_id else _LAST_BY_NAME)
        asked = {_key(cursor.range, version): cursor for cursor in cursors}
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=max(config.fetch_max_bytes, *(cursor.max_bytes for cursor in cursors)),
            isolation_level=int(self._committed_only),
            session_epoch=_NO_SESSION,
            topics=_topics(asked, config.max_partition_fetch_bytes),
            rack_id=config.client_rack or "",
        )
        for cursor in cursors:
            cursor.asked = True
        self._busy.add(node)
        bell = self._bell
        assert bell is not None

        def done(outcome: FetchResponse | KafkaError) -> None:
            self._answers.append(_Answer(node, asked, outcome))
            bell.set()

        limit = Deadline.after(
            asyncio.get_running_loop(), (config.request_timeout_ms + config.fetch_max_wait_ms) / 1000
        )
        connection.send(request, limit, done, version=version)

    async def _answer(self, deadline: Deadline) -> _Answer:
        assert self._bell is not None
        while not self._answers:
            self._bell.clear()
            try:
                async with asyncio.timeout_at(deadline.at):
                    await self._bell.wait()
            except TimeoutError:
                raise KafkaTimeoutError("no broker has answered") from None
        answer = self._answers.popleft()
        self._busy.discard(answer.node)
        for cursor in answer.asked.values():
            cursor.asked = False
        return answer

    # Reading answers

    async def _read(self, answer: _Answer, now: float) -> list[Piece]:
        outcome = answer.outcome
        if isinstance(outcome, FetchResponse):
            error = error_for(outcome.error_code, about=f"fetching from broker {answer.node}")
            if error is None:
                return await self._read_partitions(outcome, answer.asked, now)
            outcome = error
        for cursor in answer.asked.values():
            cursor.replica = None
        raise outcome

    async def _read_partitions(
        self, response: FetchResponse, asked: dict[Key, _Cursor], now: float
    ) -> list[Piece]:
        """Records first: a partition in trouble is asked about again, and nothing that came is dropped."""
        pieces: list[Piece] = []
        others: list[tuple[_Cursor, Data]] = []
        for topic in response.responses:
            name: str | UUID = topic.topic_id if topic.topic_id != NO_UUID else topic.topic
            for data in topic.partitions:
                cursor = asked.get((name, data.partition_index))
                if cursor is None:
                    continue
                if data.records and not data.error_code:
                    pieces += self._cut(cursor, data)
                else:
                    others.append((cursor, data))
        if pieces:
            if len(asked) > 1:
                self._rotate(pieces)
            return pieces
        for cursor, data in others:
            if data.error_code:
                await self._trouble(cursor, data)
            else:
                await self._nothing(cursor, data, now)
        return pieces

    def _rotate(self, pieces: Sequence[Piece]) -> None:
        """Brokers fill answers in the order of the request: who got something goes last the next time."""
        served = {id(piece.range) for piece in pieces}
        self._cursors = deque(sorted(self._cursors, key=lambda cursor: id(cursor.range) in served))

    def _cut(self, cursor: _Cursor, data: Data) -> list[Piece]:
        """The batches of a range that came; moves the cursor behind them."""
        wanted, start, records = cursor.range, cursor.position, data.records
        assert records is not None
        try:
            config = self._config
            batches = list(read_batches(records, check_crcs=config.check_crcs, limits=config.limits))
            if not batches:
                # Not one whole batch: an old broker cuts off what exceeds the limit, so it has to grow.
                cursor.max_bytes = PREFIX_SIZE + PREFIX.unpack_from(records)[1]
                return []
            aborted = [(item.producer_id, item.first_offset) for item in data.aborted_transactions or ()]
            shown = list(visible(batches, aborted, self._committed_only))
        except ProtocolError as error:
            error.locate(topic=wanted.topic, partition=wanted.partition, offset=start)
            raise
        cursor.max_bytes = cursor.doubts = 0
        cursor.short_since = None
        cursor.position = max(start, batches[-1].next_offset)
        cursor.bytes_per_offset = len(records) / max(1, cursor.position - start)
        inside = [batch for batch in shown if batch.base_offset < wanted.end and batch.last_offset >= start]
        return [Piece(wanted, start, inside)]

    async def _nothing(self, cursor: _Cursor, data: Data, now: float) -> None:
        """No records, though the range has not ended: there are none, or the log is shorter than it was."""
        if data.preferred_read_replica >= 0:
            cursor.replica = data.preferred_read_replica
            return
        end = data.last_stable_offset if self._committed_only else data.high_watermark
        if end >= cursor.range.end:
            # Asked alone a broker sends at least one batch, if there is any on its own disk.
            if (len(self._cursors) == 1 or cursor.doubts) and await self._at_hand(cursor):
                cursor.position = cursor.range.end
            cursor.doubts += 1
            return
        if cursor.short_since is None:
            cursor.short_since = now
        elif now - cursor.short_since > _SETTLING:
            await self._lost(cursor)

    async def _at_hand(self, cursor: _Cursor) -> bool:
        """Whether a position lies on the broker's own disk.

        A broker with tiered storage answers without records, and without an error, when those that it keeps
        elsewhere do not come in time. Older ones take the question for a time, and answer with the start.
        """
        outcome = await self._offset(cursor.range.topic_partition, _EARLIEST_LOCAL)
        if isinstance(outcome, KafkaError):
            raise outcome
        return cursor.position >= outcome.offset

    async def _trouble(self, cursor: _Cursor, data: Data) -> None:
        """An error of one partition: settled here, or raised."""
        wanted, cluster = cursor.range, self._session.cluster
        about = f"topic {wanted.topic}, partition {wanted.partition}, offset {cursor.position}"
        error = error_for(data.error_code, about=about)
        assert error is not None
        if cursor.replica is not None:  # a follower may lag behind: the leader is asked before it is believed
            cursor.replica = None
            return
        if isinstance(error, _GONE):
            cluster.metadata.look_up(wanted.topic)
            await cluster.metadata.refreshed(cluster.deadline())
        if isinstance(error, (OffsetOutOfRangeError, *_GONE)):
            if await self._lost(cursor):
                return
            raise KafkaConnectionError(f"{error} It may have passed: the partition is asked again.")
        raise error

    async def _lost(self, cursor: _Cursor) -> bool:
        """Find out why a range cannot be read on, and do what the user wants then; False if it can."""
        wanted = cursor.range
        facts = await self._facts(wanted)
        loss = explain(wanted.topic_id, cursor.position, wanted.end, facts)
        if loss is None:
            return False
        self._policy.meet(wanted.topic_partition, cursor.position, loss.cause)
        if loss.goes_on_at is None:
            cursor.position = wanted.end
        elif loss.goes_on_at > cursor.position:
            cursor.position = loss.goes_on_at
        else:  # what is left lies before a new end
            cursor.range = wanted._replace(end=facts.latest)
        return True

    async def _facts(self, wanted: Range) -> Facts:
        topic = self._session.cluster.metadata.snapshot.topics.get(wanted.topic)
        if topic is None or wanted.partition not in topic.partitions:
            return Facts(exists=False)
        topic_id = "" if topic.topic_id == NO_UUID else str(topic.topic_id)
        bounds: list[int] = []
        for target in (EARLIEST, LATEST):
            outcome = await self._offset(wanted.topic_partition, target)
            if isinstance(outcome, UnknownTopicOrPartitionError):
                return Facts(exists=False)
            if isinstance(outcome, KafkaError):
                raise outcome
            bounds.append(outcome.offset)
        return Facts(True, topic_id, *bounds)

    async def _offset(self, partition: TopicPartition, target: int) -> OffsetAndTimestamp | KafkaError:
        cluster = self._session.cluster
        operation = ListOffsets({partition: target}, self._committed_only, {})
        return (await run(cluster, operation, [partition], cluster.deadline()))[partition]


def _key(wanted: Range, version: int) -> Key:
    return (UUID(wanted.topic_id) if version >= _FIRST_BY_ID else wanted.topic, wanted.partition)


def _topics(asked: dict[Key, _Cursor], most: int) -> list[FetchRequest.FetchTopic]:
    topic = FetchRequest.FetchTopic
    found: dict[str | UUID, list[Any]] = defaultdict(list)
    for (name, number), cursor in asked.items():
        found[name].append(
            topic.FetchPartition(
                partition=number, fetch_offset=cursor.position, partition_max_bytes=cursor.wants(most)
            )
        )
    return [
        topic(topic_id=name, partitions=partitions)
        if isinstance(name, UUID)
        else topic(topic=name, partitions=partitions)
        for name, partitions in found.items()
    ]
