"""What this consumer reads: how it was told (topics, a pattern, partitions) and a cursor for each partition.

Called by the application, by the group's half (`Positions`) and by the fetchers, so everything happens under
`lock`, which is a real one where the client runs on a thread of its own. What has to be done about a change
is done by others: `on_change` tells them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from kclient.cluster.metadata import Metadata
from kclient.consumer.cursor import Cursor, State
from kclient.consumer.forfeits import Forfeits
from kclient.consumer.seam import Subscribed
from kclient.errors import IllegalStateError
from kclient.types import OffsetAndMetadata, TopicPartition


class Subscription:
    """Topics or partitions, and the cursors. Exactly one of subscribing and assigning is in use."""

    def __init__(
        self,
        *,
        exclude_internal_topics: bool,
        lock: AbstractContextManager[Any] | None = None,
        on_change: Callable[[], None],
        on_wake: Callable[[], None],
    ) -> None:
        self.lock: AbstractContextManager[Any] = nullcontext() if lock is None else lock
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.by_hand: bool = False  # partitions were assigned by the application
        # The application unsubscribed and the group has not given up yet what is in `cursors`.
        self.leaving: bool = False
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._exclude_internal_topics = exclude_internal_topics
        self._on_change = on_change
        self._on_wake = on_wake
        self.awaited = False  # by the group: see `Positions`
        self._waiting = 0
        # Whether the application has taken a record since this was asked last, without calling us for it.
        self.takes_one_by_one: Callable[[], bool] = lambda: False
        self._matched = False  # the topics of the pattern are known
        self._before: Subscribed | None = None  # what was subscribed to when it was given
        # Of partitions that the application has dropped, until what was handed out is committed.
        self._owed: dict[TopicPartition, Cursor] = {}
        self._forfeits = Forfeits()

    def __repr__(self) -> str:
        return f"<Subscription {self.describe()}, {len(self.cursors)} partitions>"

    def describe(self) -> str:
        """What was asked for, in words."""
        if self.pattern is not None or self.server_pattern is not None:
            return f"to the pattern {self.server_pattern or (self.pattern and self.pattern.pattern)}"
        if self.topics:
            return f"to {', '.join(sorted(self.topics))}"
        return "to partitions assigned by hand" if self.by_hand else "to nothing"

    @property
    def subscribing(self) -> bool:
        """Whether a group is to assign the partitions."""
        return bool(self.topics) or self.pattern is not None or self.server_pattern is not None

    def wants(self, topic: str) -> bool:
        """Whether anything of a topic is to be read now."""
        return topic in self.topics or any(partition.topic == topic for partition in self.assigned())

    # By the application

    def subscribe(
        self,
        topics: frozenset[str] = frozenset(),
        pattern: re.Pattern[str] | None = None,
        server_pattern: str | None = None,
    ) -> None:
        """Have a group assign partitions of these topics; it takes those away that no longer fit."""
        if self.by_hand:
            raise IllegalStateError("partitions were assigned by hand: unsubscribe before subscribing")
        with self.lock:
            self._before = self.subscribed()
            if pattern is not None:  # until its topics are known, what is read goes on
                topics = self.topics
            self.topics, self.pattern, self.server_pattern = topics, pattern, server_pattern
            self._matched = False

    def assign_by_hand(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these; those that were read before go on where they are."""
        if self.subscribing:
            raise IllegalStateError("topics were subscribed to: unsubscribe before assigning partitions")
        with self.lock:
            self.by_hand = bool(partitions)
            self._forfeits.clear()
            self._owe(set(self.cursors) - (set() if self.leaving else set(partitions)))
            self.leaving = False
            self._add(partitions)
        self._on_change()

    def unsubscribe(self, *, in_group: bool) -> None:
        """Read nothing. What a group assigned stays until it was committed and given up."""
        with self.lock:
            self.topics, self.pattern, self.server_pattern = frozenset(), None, None
            self._before = None
            self._forfeits.clear()
            if in_group and not self.by_hand:
                self.leaving = bool(self.cursors)
                self.fence(list(self.cursors))
            else:
                self._owe(self.cursors)
            self.by_hand = False
        self._on_change()

    def assignment(self) -> frozenset[TopicPartition]:
        """What the application reads."""
        with self.lock:
            return frozenset() if self.leaving else frozenset(self.cursors)

    def cursor(self, partition: TopicPartition) -> Cursor:
        """The cursor of an assigned partition."""
        cursor = self.cursors.get(partition)
        if cursor is None:
            topic, number = partition
            raise IllegalStateError(f"partition {number} of topic {topic} is not assigned to this consumer")
        return cursor

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Go on at an offset; whatever was fetched from elsewhere is dropped."""
        with self.lock:
            self.replace(self.cursor(partition), place=(offset, epoch))
        self._on_change()

    def moved(self) -> None:
        """A cursor has gone elsewhere within what was fetched: the group may wait for what was in hand."""
        if self.awaited:
            self._on_change()

    def go_back(self, cursor: Cursor, position: int, epoch: int) -> None:
        """Go on where a call began that was interrupted, if the cursor is still wanted."""
        with self.lock:
            if self.has(cursor):
                committed = cursor.committed
                self.replace(cursor, place=(position, epoch)).committed = committed
        self._on_change()

    def has(self, cursor: Cursor) -> bool:
        """Whether the cursor is the one of its partition: what was fetched for another is not wanted."""
        return self.cursors.get(cursor.partition) is cursor and not cursor.dropped

    def reset(self, partitions: Iterable[TopicPartition], target: int | None) -> None:
        """Go on at the beginning, the end, a timestamp, or (None) where the group committed."""
        with self.lock:
            for cursor in [self.cursor(partition) for partition in partitions]:
                self.replace(cursor, target=target)
        self._on_change()

    def reset_by_policy(self, cursor: Cursor) -> None:
        """Go on where `auto_offset_reset` says, if the cursor is still wanted."""
        with self.lock:
            if not cursor.dropped:
                self.replace(cursor, by_policy=True)
        self._on_change()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Hand out nothing of these, or go on with it. What was fetched stays."""
        with self.lock:
            for cursor in [self.cursor(partition) for partition in partitions]:
                cursor.paused = paused
                if paused:
                    cursor.put_down()
        self._on_change()

    def replace(self, cursor: Cursor, place: tuple[int, int] | None = None, **options: Any) -> Cursor:
        """Put a new cursor, which may begin at an offset, in the place of one, and drop that.

        In this order: if Ctrl-C comes in between, the partition has a cursor. The lock is the caller's.
        """
        new = cursor.successor(**options)
        if place is not None:
            new.find(*place)
        self.cursors[cursor.partition] = new
        cursor.drop()
        return new

    def start_anew(self, *, in_group: bool) -> None:
        """What was fetched is thrown away, and the group, if there was one, was left, perhaps in haste."""
        with self.lock:
            for cursor in list(self.cursors.values()):
                if in_group and not self.by_hand:
                    self._remove([cursor.partition])
                elif cursor.position is not None:
                    self.go_back(cursor, cursor.position, cursor.epoch)

    def asked_for_more(self) -> None:
        """The application has done with what it got before, and with what commits of it have raised."""
        if self._forfeits:
            with self.lock:
                self._forfeits.asked_for_more()

    # `Positions`, for the group's half. It may still be busy with what it gave when the application has
    # assigned partitions by hand; those are none of its business.

    def subscribed(self) -> Subscribed | None:
        if self.server_pattern is not None:
            return Subscribed(frozenset(), self.server_pattern)
        if self.pattern is not None and not self._matched:
            return self._before
        return Subscribed(self.topics) if self.subscribing else None

    def assigned(self) -> frozenset[TopicPartition]:
        with self.lock:
            return frozenset(self.cursors)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The next offset to hand out of each assigned partition that has one."""
        with self.lock:
            found = {partition: cursor.consumed() for partition, cursor in self.cursors.items()}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self.lock:
            consumed = self.consumed()
            return consumed | self._forfeits.tell(consumed)

    def forfeited(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> frozenset[TopicPartition]:
        with self.lock:
            return self._forfeits.among(offsets, self.consumed()) if self._forfeits else frozenset()

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self.lock:
            read = {key: cursor for key, cursor in self.cursors.items() if cursor.processed is not None}
            found = {partition: cursor.settled() for partition, cursor in (self._owed | read).items()}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        with self.lock:
            for partition, committed in offsets.items():
                owed, cursor = self._owed.get(partition), self.cursors.get(partition)
                if owed is not None and (owed.position or 0) <= committed.offset:
                    del self._owed[partition]
                if cursor is not None:
                    cursor.committed = max(cursor.committed, committed.offset)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        with self.lock:
            if not self.by_hand:
                self._owed.clear()  # the group has shared what there is
                self._add(partitions)
        self._on_change()

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        with self.lock:
            for partition in partitions:
                self._owed.pop(partition, None)
            if not self.by_hand:
                self._forfeit(partitions, lost)
                self._remove(partitions)
            left, self.leaving = self.leaving, self.leaving and bool(self.cursors)
        if left and not self.leaving:
            self._on_wake()
        self._on_change()

    def fence(self, partitions: Collection[TopicPartition]) -> None:
        with self.lock:
            for cursor in () if self.by_hand else self._known(partitions):
                cursor.fenced = True
                cursor.put_down()

    def release(self, partitions: Collection[TopicPartition]) -> None:
        with self.lock:
            for cursor in () if self.leaving else self._known(partitions):
                cursor.fenced = False
        self._on_wake()
        self._on_change()

    def in_hand(self, partitions: Collection[TopicPartition]) -> bool:
        with self.lock:
            return not self.by_hand and any(cursor.in_hand for cursor in self._known(partitions))

    def waiting(self) -> bool:
        return self._waiting > 0 or self.takes_one_by_one()

    def wake(self) -> None:
        self._on_wake()

    def nobody_waits(self) -> None:
        """For the only thread that may wait, as it begins: one that was interrupted may still be counted."""
        self._waiting = 0

    @contextmanager
    def waits(self) -> Iterator[None]:
        """While the application waits for records."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    # For the fetchers

    def match(self, snapshot: Metadata) -> bool:
        """Bring the topics of a pattern up to date with the metadata; says whether they changed."""
        if self.pattern is None:
            return False
        found = frozenset(
            topic.name
            for topic in snapshot.topics.values()
            if self.pattern.fullmatch(topic.name) and not (topic.internal and self._exclude_internal_topics)
        )
        changed = found != self.topics or not self._matched
        self.topics, self._matched = found, True
        return changed

    def in_state(self, *states: State) -> list[Cursor]:
        with self.lock:
            return [cursor for cursor in self.cursors.values() if cursor.state in states]

    def _known(self, partitions: Iterable[TopicPartition]) -> list[Cursor]:
        return [self.cursors[partition] for partition in partitions if partition in self.cursors]

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self.cursors:
                self.cursors[partition] = Cursor(partition)

    def _owe(self, partitions: Iterable[TopicPartition]) -> None:
        """The application drops these. What it got last counts as processed when it comes back for more."""
        gone = self._known(partitions)
        self._remove([cursor.partition for cursor in gone])
        self._owed |= {each.partition: each for each in gone if (each.position or 0) > max(each.committed, 0)}

    def _forfeit(self, partitions: Iterable[TopicPartition], lost: bool) -> None:
        """Remember what was handed out of these. What is in the application's hands it may want to commit."""
        for cursor in self._known(partitions) if self.subscribing else ():
            cursor.put_down()
            end, settled = cursor.consumed(), cursor.settled()
            if end is not None and settled is not None:
                tell = end.offset > cursor.committed and (lost or settled.offset < end.offset)
                self._forfeits.note(cursor.partition, end, tell=tell)

    def _remove(self, partitions: Iterable[TopicPartition]) -> None:
        for cursor in self._known(partitions):
            cursor.drop()
            del self.cursors[cursor.partition]
