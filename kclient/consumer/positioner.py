"""Finds positions: `Positioner` asks one broker about the partitions it leads, `Lookup` asks the group.

Both work in the background, so that a partition without a leader, or a slow coordinator, keeps nobody waiting
who reads others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from kclient.cluster.operations import Operation
from kclient.consumer.buffer import Frame
from kclient.consumer.chunk import Chunk
from kclient.consumer.cursor import LATEST, NO_EPOCH, Cursor, Event, State
from kclient.consumer.offsets import EpochEnd, EpochEnds, ListOffsets, OffsetAndTimestamp
from kclient.consumer.worker import FOREVER, Worker
from kclient.errors import (
    IncompatibleBrokerError,
    KafkaError,
    LogTruncationError,
    NoOffsetError,
    PositionError,
    ProtocolError,
)
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.consumer.reader import Reader

T = TypeVar("T")


class Positioner(Worker):
    """Asks one broker where to begin, and whether what was read before is still there."""

    def __init__(self, reader: Reader, node_id: int) -> None:
        self.node_id = node_id
        super().__init__(reader, f"finding positions at broker {node_id}")

    async def _step(self) -> float:
        resetting, wait = self._due(State.RESETTING)
        validating, wait_too = self._due(State.VALIDATING)
        if not resetting and not validating:
            return min(wait, wait_too)
        for cursor in (*resetting, *validating):
            cursor.asked = True
        try:
            if resetting:
                await self._reset(resetting)
            if validating:
                await self._validate(validating)
        finally:
            for cursor in (*resetting, *validating):
                cursor.asked = False
            self._reader.changed()
        return 0

    def _due(self, state: State) -> tuple[list[Cursor], float]:
        now = self._loop.time()
        snapshot = self._reader.cluster.metadata.snapshot
        led = [
            cursor
            for cursor in self._reader.subscription.in_state(state)
            if not cursor.asked and snapshot.leader(cursor.partition) == self.node_id
        ]
        later = [cursor.not_before - now for cursor in led if cursor.not_before > now]
        return [cursor for cursor in led if cursor.not_before <= now], min(later, default=FOREVER)

    async def _reset(self, cursors: list[Cursor]) -> None:
        targets = {cursor.partition: self._reader.target(cursor) for cursor in cursors}
        epochs = {cursor.partition: cursor.leader_epoch for cursor in cursors}
        outcomes = await self._ask(ListOffsets(targets, self._reader.policy.committed_only, epochs), cursors)
        for cursor in cursors:
            outcome = outcomes[cursor.partition]
            with self._reader.subscription.lock:
                if cursor.state is not State.RESETTING:
                    continue  # the application, or the group, decided otherwise meanwhile
                if isinstance(outcome, KafkaError):
                    self._reader.failed(cursor, outcome)
                elif outcome.offset < 0:
                    cursor.target = LATEST  # no record is that young, so begin with the next one
                else:
                    self._found(cursor, outcome)

    def _found(self, cursor: Cursor, found: OffsetAndTimestamp) -> None:
        self._reader.recovered(cursor)
        cursor.find(found.offset, NO_EPOCH if found.leader_epoch is None else found.leader_epoch)

    async def _validate(self, cursors: list[Cursor]) -> None:
        epochs = {cursor.partition: (cursor.leader_epoch, cursor.fetch_epoch) for cursor in cursors}
        try:
            outcomes = await self._ask(EpochEnds(epochs), cursors)
        except IncompatibleBrokerError:  # it is too old to tell, so it is believed
            outcomes = {cursor.partition: EpochEnd(NO_EPOCH, -1) for cursor in cursors}
        for cursor in cursors:
            outcome = outcomes[cursor.partition]
            with self._reader.subscription.lock:
                if cursor.state is not State.VALIDATING:
                    continue
                if isinstance(outcome, KafkaError):
                    self._reader.failed(cursor, outcome)
                elif 0 <= outcome.offset < cursor.fetch_offset:
                    self._truncate(cursor, outcome)
                else:
                    self._reader.recovered(cursor)
                    cursor.happens(Event.VALID)

    def _truncate(self, cursor: Cursor, end: EpochEnd) -> None:
        """Records that were fetched are gone: go on where the logs part, if the application lets us."""
        reader, position = self._reader, cursor.position
        assert position is not None
        if reader.policy.may_reset or position <= end.offset:
            new = reader.subscription.replace(cursor)
            new.leader_epoch = cursor.leader_epoch
            new.inherit(cursor, end.offset, end.epoch)
            return
        error = LogTruncationError(
            "records that were read are lost: a leader without them was elected",
            *cursor.partition,
            position,
        )
        error.divergent_offset = end.offset
        _break_off(reader, cursor, error)

    async def _ask(
        self, operation: Operation[TopicPartition, T], cursors: Iterable[Cursor]
    ) -> dict[TopicPartition, T | KafkaError]:
        """One attempt; the worker's own waits come between attempts."""
        keys = [cursor.partition for cursor in cursors]
        cluster = self._reader.cluster
        response = await cluster.call(
            self.node_id,
            lambda version: operation.build(keys, version),
            operation.request,
            cluster.deadline(),
        )
        outcomes = operation.read(response, keys)
        missing = ProtocolError(f"the answer to {operation.request.__name__} does not mention it")
        return {key: outcomes.get(key, missing) for key in keys}


class Lookup(Worker):
    """Asks the group's coordinator where its members were."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader, "looking up committed offsets")

    async def _step(self) -> float:
        reader = self._reader
        snapshot = reader.cluster.metadata.snapshot
        # The group says nothing of a topic that this client may not see, nor of others asked for with it.
        cursors = [
            cursor
            for cursor in reader.subscription.in_state(State.LOOKING_UP)
            if cursor.partition.topic in snapshot.topics and cursor.partition.topic not in snapshot.errors
        ]
        if not cursors:
            return FOREVER
        found = {}
        if reader.store is not None:
            partitions = [cursor.partition for cursor in cursors]
            deadline = reader.cluster.deadline()
            # The application may have dropped them a moment ago, and have taken them up again.
            await reader.store.under_way(partitions, deadline)
            found = await reader.store.committed(partitions, deadline)
        for cursor in cursors:
            committed = found.get(cursor.partition)
            with reader.subscription.lock:
                if cursor.state is not State.LOOKING_UP:
                    continue
                if committed is not None:
                    epoch = committed.leader_epoch
                    cursor.find(committed.offset, NO_EPOCH if epoch is None else epoch)
                    cursor.leader_epoch = NO_EPOCH  # not seen from this place yet: it has to be validated
                elif reader.policy.may_reset:
                    cursor.happens(Event.NOT_COMMITTED)
                else:
                    _break_off(reader, cursor, _no_offset(cursor))
        reader.changed()
        return 0


def _no_offset(cursor: Cursor) -> NoOffsetError:
    return NoOffsetError(
        'nothing is committed and auto_offset_reset is "none": seek, or choose another policy',
        *cursor.partition,
        -1,
    )


def _break_off(reader: Reader, cursor: Cursor, error: PositionError) -> None:
    """The application meets the error when it has taken what is buffered."""
    chunk = Chunk(cursor, Frame(0), (), cursor.fetch_offset)
    chunk.failure = error
    cursor.happens(Event.FAILED)
    reader.buffer.put([chunk])
