"""Takes what was fetched and hands it to the application: the application's side of the buffer.

Synchronous, and hot: it is called where the application waits, on the event loop or on a thread of its own,
and never waits itself. The clients call it, and wait for more when it has nothing. A record counts as handed
out when it is returned, so a call that is cancelled while it waits has taken nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import wraps
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kclient.consumer.buffer import FetchBuffer
from kclient.consumer.chunk import Chunk, Mark, one_list
from kclient.consumer.cursor import Cursor, State
from kclient.consumer.decode import Decoder
from kclient.consumer.hand import Hand
from kclient.consumer.hooks import Hooks
from kclient.consumer.metrics import Counters
from kclient.consumer.subscription import Subscription
from kclient.errors import KafkaError
from kclient.types import Record, TopicPartition
from kclient.uncollected import collected_seldom

if TYPE_CHECKING:
    import pyarrow

    from kclient.consumer.arrow import Piece

Wanted = frozenset[TopicPartition] | None
Taken = dict[TopicPartition, list[Record[Any, Any]]]

_NOTHING: Iterator[Record[Any, Any]] = iter(())
_MOST_AHEAD = 128
_offset = attrgetter("offset")
P = ParamSpec("P")
T = TypeVar("T")


def _whole(take: Callable[Concatenate[Poller, P], T]) -> Callable[Concatenate[Poller, P], T]:
    """Take back what a call cannot give any more, because of Ctrl-C in its middle, or for want of memory."""

    @wraps(take)
    def call(self: Poller, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.mend()
        self._places = {}
        self._busy = True
        try:
            given = take(self, *args, **kwargs)
        except KafkaError:
            self._busy = False  # the application meets those with nothing in its hands
            raise
        except BaseException:
            self.mend()
            raise
        # From here to the application's own variable no signal handler runs: nothing is called on the way.
        self._busy = False
        return given

    return call


class Poller:
    """`wanted` limits a call to some partitions; `most` is the most records it may give."""

    def __init__(
        self,
        subscription: Subscription,
        buffer: FetchBuffer,
        decoder: Decoder,
        counters: Counters,
        hooks: Hooks | None = None,
    ) -> None:
        self._subscription = subscription
        self._lock = subscription.lock
        self._buffer = buffer
        self._decoder = decoder
        self._counters = counters
        self._hooks = hooks
        # With hooks: the record in hand by its offset, as they want it to be handed out.
        self._shown: dict[int, Record[Any, Any]] = {}
        self._touched: set[Cursor] = set()
        self._hand: Hand | None = None
        # Where the call began that is under way, or that was interrupted: then `mend` goes back there.
        self._places: dict[Cursor, tuple[int | None, int]] = {}
        self._busy = False
        self._left = 0  # in hand, when somebody looked last
        # For how many records deserializers are called at once where they are handed out one by one.
        self._ahead = 1
        # What is left of the batch in hand, or some of it; used up, it stays an iterator that gives nothing.
        self.in_hand: Iterator[Record[Any, Any]] = _NOTHING

    def mend(self) -> None:
        """Go back to where an interrupted call began; what was fetched is fetched again.

        A signal handler may raise at any moment, here too: then the next call does it.
        """
        if self._busy:
            self._put_down()
            for cursor, (position, epoch) in list(self._places.items()):
                if position is not None:
                    self._subscription.go_back(cursor, position, epoch)
            self._buffer.recount()
            self._busy = False

    @_whole
    def begin(self) -> None:
        """The application asks for more: it has done with what it got before."""
        self._counters.polls += 1
        self._put_down()
        self._subscription.asked_for_more()
        if self._touched:
            with self._lock:
                for cursor in self._touched:
                    cursor.settle()
            self._touched.clear()

    @_whole
    @collected_seldom
    def records(self, wanted: Wanted, most: int | None) -> Taken:
        """What was fetched, the oldest first, by partition; without `most`, all of it."""
        self._put_down()  # another caller may have one in hand
        taken: dict[TopicPartition, list[list[Record[Any, Any]]]] = {}
        count = 0
        for chunk in self._ready(wanted):
            mark = chunk.mark()
            try:
                records = chunk.take(None if most is None else most - count, self._decoder)
            except Exception:  # no memory; what was taken of others must not be lost with it
                if taken:
                    break
                self._places = {}
                self._buffer.to_the_back(chunk.cursor)
                raise
            if not self._advance(chunk, mark, bool(records)):
                continue
            if records:
                count += len(records)
                taken.setdefault(chunk.cursor.partition, []).append(records)
            if self._has_ended(chunk, taken) or (most is not None and count >= most):
                break
        self._counters.records += count
        if self._hooks is not None:
            return {partition: self._hooks.consumed(one_list(parts)) for partition, parts in taken.items()}
        return {partition: one_list(parts) for partition, parts in taken.items()}

    @_whole
    def arrow(self, wanted: Wanted, most: int | None, schema: pyarrow.Schema) -> pyarrow.RecordBatch | None:
        """The same as one Arrow batch with the columns of `schema`; None for nothing.

        Without `most`, as much as is handed over at once without harm: see `arrow.Room`.
        """
        from kclient.consumer.arrow import Room, rows_in, table_of  # noqa: PLC0415 - imports pyarrow

        self._put_down()
        room = Room(most)
        taken: list[Piece] = []
        count = 0
        for chunk in self._ready(wanted):
            mark = chunk.mark()
            pieces = chunk.take_arrow(room, schema)
            rows = rows_in(pieces)
            if not self._advance(chunk, mark, bool(rows)):
                continue
            taken += pieces
            count += rows
            if self._has_ended(chunk, count) or not chunk.empty or room.full:
                break
        self._counters.records += count
        return table_of(taken, schema) if count else None

    @_whole
    def deal(self, wanted: Wanted) -> bool:
        """Take the next batch in hand, to be handed out from `in_hand` one by one; False if there is none."""
        hand = self._hand
        if hand is not None and hand.open and hand.left and (wanted is None or hand.partition in wanted):
            return True  # another caller, who waited too, took it
        self._put_down()
        for chunk in self._ready(wanted):
            records = chunk.take_batch(self._most_in_hand(), self._decoder)
            if records:
                with self._lock:
                    if _barred(chunk.cursor):
                        chunk.keep(records)
                        continue
                    self._hand = Hand(chunk, records, chunk.position)
                self._touched.add(chunk.cursor)
                self._counters.records += len(records)
                if self._hooks is not None:
                    self._shown = {record.offset: self._hooks.shown(record) for record in records}
                self.in_hand = self._given(self._hand.iterator)
                return True
            if self._advance(chunk, None, False) and self._has_ended(chunk, None):
                break
        return False

    def go_on(self, wanted: Wanted, most: int) -> int:
        """Have `in_hand` give so many more of the batch in hand; how many it will, 0 if there are none."""
        hand = self._hand
        if hand is None or not hand.open or not (wanted is None or hand.partition in wanted):
            return 0
        # Takes a record of the hand's iterator only when it is asked for one, so the position stays exact.
        self.in_hand = self._given(islice(hand.iterator, most))
        left = hand.left
        return min(left, most)

    def _most_in_hand(self) -> int | None:
        """How many records to take in hand: all of a batch, unless user code is called for each."""
        if self._hooks is not None:
            return 1  # they see a record when it is handed out
        if self._decoder.plain:
            return None
        most, self._ahead = self._ahead, min(2 * self._ahead, _MOST_AHEAD)
        return most

    def _given(self, records: Iterator[Record[Any, Any]]) -> Iterator[Record[Any, Any]]:
        """As the hooks want them. In C only, so that no signal handler comes between taking and giving."""
        if self._hooks is None:
            return records
        return map(self._shown.__getitem__, map(_offset, records))

    def deals_from(self, wanted: frozenset[TopicPartition]) -> bool:
        """Whether the batch in hand is of one of these partitions."""
        return self._hand is not None and self._hand.partition in wanted

    def hold_back(self) -> None:
        """Give nothing more of what is in hand before the next look. A signal handler may call it."""
        self.in_hand = _NOTHING

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Go on at an offset. Within what was fetched that is free; else it is fetched anew.

        With a leader epoch, brokers have to be asked whether they still have what comes before it.
        """
        if epoch < 0 and self._seek_within(partition, offset):
            self._subscription.moved()
        else:
            self._subscription.seek(partition, offset, epoch)

    def _seek_within(self, partition: TopicPartition, offset: int) -> bool:
        """Go on at an offset of what was fetched; False where that has to be fetched, or cannot be told now.

        May be called from any thread. What the application's thread is taking at this moment is its own: it
        is `_busy` before it asks the buffer for chunks, which it does under the lock.
        """
        with self._lock:
            cursor = self._subscription.cursor(partition)
            if self._busy or cursor.state is not State.FETCHING:
                return False
            cursor.put_down()
            chunks = [chunk for chunk in self._buffer.snapshot() if chunk.cursor is cursor]
            before = 0
            for chunk in chunks:
                if offset < chunk.next_offset:
                    if not chunk.seek(offset):
                        return False
                    break
                before += 1
            else:
                # An answer that is being looked at is neither here nor under way: so not `fetch_offset`.
                if offset != (chunks[-1].next_offset if chunks else cursor.position):
                    return False
            for chunk in chunks[:before]:
                self._buffer.remove(chunk)
            cursor.jump(offset)
        return True

    def has_moved(self) -> bool:
        """Whether a record in hand was taken since the last look: those that take them do not call us."""
        hand = self._hand
        left = 0 if hand is None else hand.left
        moved, self._left = left != self._left, left
        return moved

    def _put_down(self) -> None:
        hand = self._hand
        if hand is not None:
            with self._lock:
                if hand.left:
                    self._ahead = 1
                self._counters.records -= hand.left  # also where a pause or a rebalance has put it back
                if hand.open:
                    hand.put_back()
            self._hand = None
            self.in_hand = _NOTHING

    def _ready(self, wanted: Wanted) -> Iterator[Chunk]:
        """The chunks that may be taken from, in order. Those that nobody wants are thrown away."""
        for chunk in self._buffer.snapshot():
            cursor = chunk.cursor
            if not self._subscription.has(cursor):
                self._buffer.remove(chunk)
            elif not _barred(cursor) and (wanted is None or cursor.partition in wanted):
                self._places.setdefault(cursor, (cursor.position, cursor.epoch))
                yield chunk

    def _advance(self, chunk: Chunk, mark: Mark | None, gives: bool) -> bool:
        """Move the cursor behind what was taken, unless it was taken away in the meantime.

        What `gives` no records leaves the application nothing to work on.

        The client's thread may drop or fence the cursor while the application's decodes. Both happen under
        the lock, so either the records were handed out before, or they are not handed out at all.
        """
        cursor = chunk.cursor
        with self._lock:
            if _barred(cursor):
                if mark is not None:
                    chunk.rewind(mark)
                return False
            (cursor.move if gives else cursor.pass_over)(chunk.position, chunk.epoch)
        self._touched.add(cursor)
        return True

    def _has_ended(self, chunk: Chunk, taken: object) -> bool:
        """Let go of a chunk that is used up; True if no more may be taken now.

        A failure behind its records is raised when the application has got everything before it.
        """
        if chunk.blocked:
            if taken:
                return True
            self._ahead = 1
            self._places = {}  # what was let pass on the way here is not met again
            self._buffer.to_the_back(chunk.cursor)
            raise chunk.told()
        if not chunk.empty:
            return False
        if chunk.failure is None:
            self._buffer.remove(chunk)
            return False
        if taken:
            return True
        if chunk.resets:
            self._buffer.remove(chunk)
            self._subscription.reset_by_policy(chunk.cursor)
            return False
        self._buffer.to_the_back(chunk.cursor)
        raise copy(chunk.failure)  # a traceback belongs to one raising, and this may be met again


def _barred(cursor: Cursor) -> bool:
    return cursor.paused or cursor.fenced or cursor.dropped
