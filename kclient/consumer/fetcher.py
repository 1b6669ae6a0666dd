"""The inbox of one broker: asks it for the records of all cursors that are to be read there.

One request is under way while the application works on what the one before brought; a new one leaves as soon
as there is room for its answer. It has a connection of its own, because a fetch keeps one waiting.

A broker answers in order, so a long poll that waits for new records would hold up a partition that comes
meanwhile: by a seek, an assignment, a resume. Such a poll is left behind: its answer, if it brings anything,
is thrown away and fetched again, and the next request takes a second connection. When that one, too, waits
for an answer that nobody wants, the partition has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from kclient.clock import Deadline
from kclient.cluster.metadata import Broker, Metadata
from kclient.config import Endpoint
from kclient.consumer.answers import Data, Todo, Verdict, judge
from kclient.consumer.buffer import Frame
from kclient.consumer.chunk import Chunk
from kclient.consumer.cursor import Cursor, Event, State
from kclient.consumer.session import FIRST_BY_ID, FetchSession, Key, Wanted
from kclient.consumer.suspects import Suspects
from kclient.consumer.worker import FOREVER, Worker
from kclient.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    FrameTooLargeError,
    InvalidFetchSessionEpochError,
    KafkaError,
    KafkaTimeoutError,
    error_for,
)
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import FetchRequest, FetchResponse
from kclient.wire.schema import NO_UUID

if TYPE_CHECKING:
    from kclient.consumer.reader import Reader
    from kclient.net.connection import Connection

# Two connections, of which one is in use; see the head of this file.
LANES = ("fetch", "fetch again")
_READ_COMMITTED = 1
# Seconds: how late an answer may be before somebody is asked whether the broker still leads, and how often.
_LATE = 2.0
_LOOK_EVERY = 0.5
# Seconds after which an answer of which nothing has come is taken for one that waits for records.
_BRIEFLY = 0.02
_SESSION_ERRORS = (FetchSessionIdNotFoundError, InvalidFetchSessionEpochError, FetchSessionTopicIdError)


class _OvertakenError(Exception):
    """The answer is not waited for any longer."""


class Fetcher(Worker):
    """Fetches from one broker."""

    def __init__(self, reader: Reader, node_id: int) -> None:
        self.node_id = node_id
        self._session = FetchSession()
        self._suspects = Suspects()
        self._lane = 0
        self._waiting: tuple[Connection, asyncio.Timeout] | None = None
        self._left_behind: Connection | None = None
        self._hurry: asyncio.TimerHandle | None = None
        super().__init__(reader, f"fetching from broker {node_id}")

    def wake(self) -> None:
        super().wake()
        if self._waiting is not None and self._hurry is None:
            self._hurry = self._loop.call_later(_BRIEFLY, self._overtake)

    async def stop(self) -> None:
        await super().stop()
        self._end_session()

    def _overtake(self) -> None:
        """Leave the poll under way behind, if it holds up a cursor that it is not about."""
        self._hurry = None
        if self._waiting is None:
            return
        connection, limit = self._waiting
        busy = self._left_behind is not None and self._left_behind.pending
        if busy or connection.receiving or not self._usable()[0]:
            return
        self._left_behind = connection
        limit.reschedule(self._loop.time())

    async def _step(self) -> float:
        reader, config = self._reader, self._reader.config
        cursors, wait = self._usable()
        cursors = self._suspects.among(cursors)
        if not cursors:
            return wait
        room = self._reserve(cursors)
        if not room:
            reader.watch_ends()
            return FOREVER
        asked: dict[Key, Cursor] = {}
        started = self._loop.time()
        try:
            deadline = Deadline.after(
                self._loop, (config.request_timeout_ms + config.fetch_max_wait_ms) / 1000
            )
            connection = await reader.cluster.connection(self.node_id, deadline, lane=LANES[self._lane])
            # Opening a connection takes time, in which things change.
            cursors = self._suspects.among(self._usable()[0])
            if not cursors:
                return 0
            snapshot = reader.cluster.metadata.snapshot
            by_id = all(_topic_id(snapshot, cursor.partition) for cursor in cursors)
            version = connection.version_for(FetchRequest, None if by_id else FIRST_BY_ID - 1)
            asked = _keyed(cursors, snapshot, version)
            request = self._request(asked, version, room)
            for cursor in asked.values():
                cursor.asked = True
            async with self._unless_moved(asked, connection):
                response = await connection.call(request, deadline, version=version)
            self._suspects.answered(cursors)
            self._read(response, asked)
        except _OvertakenError:
            self._session.lost()
            self._lane = 1 - self._lane
        except KafkaError as error:
            self._lost(error, cursors, list(asked.values()))
        finally:
            for cursor in asked.values():
                cursor.asked = False
            reader.buffer.unreserve(room)
            if any(cursor.state is not State.FETCHING for cursor in asked.values()):
                reader.changed()  # others had to wait for this answer
        reader.metrics.fetched(self._loop.time() - started)
        return 0

    @asynccontextmanager
    async def _unless_moved(self, asked: dict[Key, Cursor], connection: Connection) -> AsyncIterator[None]:
        """Give up on an answer that is late when somebody else leads by now, or that is overtaken.

        A broker that froze keeps its connections, and would hold up what others could answer until the
        request times out. It says nothing, so who leads is asked for, again and again.
        """
        cluster, late = self._reader.cluster, self._reader.config.fetch_max_wait_ms / 1000 + _LATE
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            snapshot, now = cluster.metadata.snapshot, self._loop.time()
            waiting = [cursor for cursor in asked.values() if not cursor.dropped]
            if any(self._reader.source(cursor, snapshot, now) != self.node_id for cursor in waiting):
                limit.reschedule(now)
            else:
                cluster.owes_an_answer(self.node_id, True)
                cluster.metadata.ask()
                timer = self._loop.call_later(_LOOK_EVERY, look)

        timer = self._loop.call_later(late, look)
        try:
            async with asyncio.timeout(None) as limit:
                self._waiting = connection, limit
                if self._left_behind is connection:  # it has answered, else it would not be in use again
                    self._left_behind = None
                yield
            cluster.owes_an_answer(self.node_id, False)
        except TimeoutError as error:
            if not limit.expired():
                raise
            if self._left_behind is connection:
                raise _OvertakenError from error
            raise KafkaTimeoutError(f"{self.name}: it did not answer, and leads no more") from error
        finally:
            self._waiting = None
            timer.cancel()
            if self._hurry is not None:
                self._hurry.cancel()
                self._hurry = None

    def _usable(self) -> tuple[list[Cursor], float]:
        """The cursors to ask this broker about now, and after how long there may be others."""
        now = self._loop.time()
        snapshot = self._reader.cluster.metadata.snapshot
        usable: list[Cursor] = []
        wait = FOREVER
        for cursor in self._reader.subscription.in_state(State.FETCHING):
            if cursor.replica == self.node_id and cursor.replica_until <= now:
                cursor.replica = None
                self._reader.changed()  # from now on it is another's
            if cursor.paused or cursor.asked or self._reader.source(cursor, snapshot, now) != self.node_id:
                continue
            if cursor.not_before > now:
                wait = min(wait, cursor.not_before - now)
            else:
                usable.append(cursor)
        return usable, wait

    def _reserve(self, cursors: list[Cursor]) -> int:
        """Room for the answer, of which a waiting application gets a little in any case."""
        config, buffer = self._reader.config, self._reader.buffer
        each = config.max_partition_fetch_bytes
        room = buffer.reserve(min(config.fetch_max_bytes, sum(max(each, c.max_bytes) for c in cursors)))
        if not room and buffer.starved:
            buffer.reserved += each
            return each
        return room

    def _request(self, asked: dict[Key, Cursor], version: int, room: int) -> FetchRequest:
        config = self._reader.config
        request = FetchRequest(
            max_wait_ms=0 if self._suspects else config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=room,
            isolation_level=_READ_COMMITTED if self._reader.policy.committed_only else 0,
            topics=[],
            rack_id=config.client_rack or "",
        )
        most = config.max_partition_fetch_bytes
        wanted = {
            key: Wanted(cursor.fetch_offset, cursor.leader_epoch, max(most, cursor.max_bytes))
            for key, cursor in asked.items()
        }
        if any(cursor.high_watermark is None and self._session.knows(key) for key, cursor in asked.items()):
            self._session.lost()  # a session tells an end once: an earlier cursor heard it, this one has to
        self._session.fill(request, wanted, version)
        return request

    def _read(self, response: FetchResponse, asked: dict[Key, Cursor]) -> None:
        error = error_for(response.error_code, about=self.name)
        if isinstance(error, _SESSION_ERRORS):
            self._session.lost(forgotten=True)
            return
        if error is not None:
            raise error
        self._session.answered(response)
        frame = Frame(0)
        chunks: list[Chunk] = []
        now = int(self._reader.clock.wall() * 1000)
        for topic in response.responses:
            name: str | UUID = topic.topic_id if topic.topic_id != NO_UUID else topic.topic
            for data in topic.partitions:
                cursor = asked.get(Key(name, data.partition_index))
                # Only the cursor that asked wants it, and only if it did not turn elsewhere meanwhile.
                if cursor is None:
                    continue
                if cursor.state is not State.FETCHING:
                    self._keep_end(cursor.partition, data)
                    continue
                cursor.last_fetch = now
                frame.size += len(data.records or b"")
                self._act(cursor, data, judge(cursor, data, frame, self._reader.policy), chunks, response)
        self._reader.metrics.received(frame.size)
        self._reader.buffer.put(chunks)

    def _keep_end(self, partition: TopicPartition, data: Data) -> None:
        """Where a partition ends holds for its next cursor too, and in a session it is told only once."""
        cursor = self._reader.subscription.cursors.get(partition)
        if cursor is not None and not data.error_code:
            cursor.high_watermark, cursor.last_stable_offset = data.high_watermark, data.last_stable_offset

    def _lost(self, error: KafkaError, cursors: list[Cursor], asked: list[Cursor]) -> None:
        """There is no answer: raises why, unless what to ask for next may show more."""
        self._session.lost()
        for cursor in cursors:
            cursor.replica = None
        if not isinstance(error.__cause__, FrameTooLargeError):
            raise error
        self._too_large(asked, error.__cause__)

    def _too_large(self, asked: list[Cursor], error: FrameTooLargeError) -> None:
        """One of these has a batch for which all was refused: only a seek goes on behind that."""
        cursor = self._suspects.too_large(asked)
        if cursor is None or cursor.state is not State.FETCHING:
            return
        topic, partition = cursor.partition
        offset = cursor.fetch_offset
        chunk = Chunk(cursor, Frame(0), (), offset)
        chunk.failure = FrameTooLargeError(
            f"with the next record batch an answer has {error.size} bytes: raise receive_message_max_bytes="
            f"{self._reader.config.receive_message_max_bytes}, or seek beyond the batch"
        ).locate(topic=topic, partition=partition, offset=offset)
        self._reader.report(chunk.failure, self.name)
        cursor.happens(Event.FAILED)
        self._reader.buffer.put([chunk])

    def _act(
        self, cursor: Cursor, data: Data, verdict: Verdict, chunks: list[Chunk], response: FetchResponse
    ) -> None:
        reader, now = self._reader, self._loop.time()
        if verdict.chunk is not None:
            chunks.append(verdict.chunk)
        match verdict.todo:
            case Todo.NOTHING | Todo.HAND_OVER:
                if cursor.backoff is not None:
                    reader.recovered(cursor)
            case Todo.BREAK_OFF:
                reader.recovered(cursor)
                cursor.happens(Event.FAILED)
            case Todo.TURN_TO:
                reader.recovered(cursor)
                cursor.replica = verdict.replica
                cursor.replica_until = now + reader.config.metadata_max_age_ms / 1000
                reader.changed()
            case Todo.ASK_ABOUT:
                cursor.replica = None
                if self._take_hint(cursor.partition, data, response):
                    reader.turned(cursor)
                else:
                    reader.cluster.metadata.ask()
                    reader.put_off(cursor, verdict.error)
            case Todo.WAIT:
                reader.put_off(cursor, verdict.error)

    def _take_hint(self, partition: TopicPartition, data: Data, response: FetchResponse) -> bool:
        """Believe the broker that names the new leader with its error (KIP-951)."""
        metadata, leader = self._reader.cluster.metadata, data.current_leader
        before = metadata.snapshot
        if leader.leader_id < 0:
            return False
        brokers = [
            Broker(node.node_id, Endpoint(node.host, node.port), node.rack)
            for node in response.node_endpoints
        ]
        metadata.take_hint(partition, leader.leader_id, leader.leader_epoch, brokers)
        return metadata.snapshot is not before

    def _end_session(self) -> None:
        """Let the broker have its memory back; whether it hears of it does not matter.

        So nothing is dialled for it: a broker that froze would be waited for.
        """
        last = self._session.end()
        connection = self._reader.cluster.open_connection(self.node_id, LANES[self._lane])
        if last is not None and connection is not None:
            connection.send(last, Deadline.after(self._loop, 0.1), lambda _: None)


def _topic_id(snapshot: Metadata, partition: TopicPartition) -> UUID | None:
    topic = snapshot.topics.get(partition.topic)
    return None if topic is None or topic.topic_id == NO_UUID else topic.topic_id


def _keyed(cursors: list[Cursor], snapshot: Metadata, version: int) -> dict[Key, Cursor]:
    if version < FIRST_BY_ID:
        return {Key(*cursor.partition): cursor for cursor in cursors}
    found: dict[Key, Cursor] = {}
    for cursor in cursors:
        topic_id = _topic_id(snapshot, cursor.partition)
        if topic_id is not None:
            found[Key(topic_id, cursor.partition.partition)] = cursor
    return found
