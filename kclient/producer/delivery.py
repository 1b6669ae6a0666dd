"""What became of records: the handle a caller keeps, and the parts of a chunk it looks into.

A `Chunk` is what callers have appended to one topic since the last drain: a flat list of records, and one of
watchers. The drain cuts it into `Part`s, one per partition; a part lives and dies with the batch that carries
it. A `Delivery` is a chunk and a place in it: no future, no event, nothing per record that has to be told,
and nothing keeps it: who needs it again makes an equal one. So a record leaves nothing to the garbage
collector, which would otherwise walk hundreds of thousands of handles again and again. An awaited one costs a
future.

Chunks are filled by any thread and drained and settled on the loop; watchers may come meanwhile. Before the
drain a watcher is noted at the end of a list, which the drain takes away, and marks where it took it: what
is noted behind the mark, by one who had the list in hand, is late. A late watcher is put in a dictionary and
then looks whether its record is settled; the loop marks the record as settled first and then looks for
late watchers. Both may find the other, so a watcher is called by the one that takes it out of the dictionary.

What several threads change is changed under the producer's lock, by the rule of `accumulator`: no calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from copy import copy
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any

from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.producer.part import WIDTH, Columns, Part, Watcher
from kclient.producer.watchers import Elsewhere, call, joined, nobody, without
from kclient.runtime import wait_in_thread
from kclient.types import RecordMetadata
from kclient.usercode import report

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

log: logging.Logger = logging.getLogger(__name__)

# Marks in a list of watchers how far the drain has taken it.
_CUT = None
NEVER = float("-inf")
# Seconds after the delivery timeout in which an event loop that lives has settled everything.
_LIFELESS = 60.0
# Where the callbacks of `asyncio.wait` are defined.
_ASYNCIO = asyncio.wait.__module__


class Chunk:
    """Records appended to one topic: first as one flat list, or as columns where they came as such, then as
    parts.
    """

    __slots__ = (
        "_found",
        "_noted_at",
        "columns",
        "deadline",
        "end",
        "finished",
        "flat",
        "left",
        "limit",
        "lock",
        "noted",
        "odd",
        "open",
        "opened",
        "origin",
        "parts",
        "size",
        "thread",
        "ticked",
        "ticks",
        "topic",
        "until",
        "watched",
    )

    def __init__(
        self,
        topic: str,
        lock: AbstractContextManager[object],
        opened: float,
        deadline: float,
        thread: int = 0,
    ) -> None:
        self.topic: str = topic
        # What makes deliveries of one chunk equal, also to those who have a part of it only.
        self.origin: object = object()
        self.flat: list[Any] = []
        self.end: int = 0  # the length of that list, for those who may not call anything
        # Whether records may be appended: it is neither full nor drained.
        self.open: bool = True
        # Whether there is an `Odd` among the values.
        self.odd: bool = False
        # The timestamps of records that come without one: place, time, place, time ..., each the time from
        # that place on; the last of them, and until when it holds: see `stamps`.
        self.ticks: list[int] = []
        self.ticked: int = -1
        self.until: float = NEVER
        self.columns: Columns | None = None
        self.size: int = 0
        self.limit: int = 0
        self.opened: float = opened
        self.deadline: float = deadline
        self.parts: list[Part] = []
        # Records that are not settled; counted from the drain on.
        self.left: int = 0
        # Whom to call: place, watcher, place, watcher ..., None from the drain on.
        self.noted: list[Any] | None = []
        # At which length of that list the indices of places in it were looked up, and what was found.
        self._noted_at: tuple[int, dict[int, list[int]]] | None = None
        # Whom to call of those who came later, by the places of records.
        self.watched: dict[int, Watcher] = {}
        self.finished: list[Callable[[], object]] = []
        self.lock: AbstractContextManager[object] = lock
        # Where watchers are called, unless they came from another loop: the thread of the producer's.
        self.thread: int = thread
        # The parts of which the second knows where each record is.
        self._found: tuple[list[Part], dict[int, tuple[Part, int]]] | None = None

    def __repr__(self) -> str:
        return (
            f"<Chunk of {self.topic}, {self.size} bytes, {len(self.parts)} parts, {self.left} records open>"
        )

    def longest_wait(self) -> float:
        """Seconds after which the loop must have settled the records, if it lives."""
        return max(0.0, self.deadline - monotonic()) + _LIFELESS

    def flat_records(self) -> int:
        """How many records there are before they are cut into parts."""
        return len(self.flat) // WIDTH if self.columns is None else len(self.columns.values)

    def take_watchers(self, records: int) -> list[Watcher | None] | None:
        """The watchers of so many records, in their order; whoever comes from now on is late."""
        noted, self.noted = self.noted, None
        assert noted is not None
        noted += (_CUT, _CUT)
        seen = len(noted) - WIDTH
        while noted[seen] is not _CUT:  # others came meanwhile
            seen -= WIDTH
        if not seen:
            return None
        places, watchers = noted[0:seen:2], noted[1:seen:2]
        if len(places) == records and places == list(range(0, records * WIDTH, WIDTH)):
            return watchers
        column: list[Watcher | None] = [None] * records
        for place, watcher in zip(places, watchers, strict=True):
            rank = place // WIDTH
            column[rank] = joined(column[rank], watcher)
        return column

    def cut(self, parts: list[Part], records: int) -> None:
        """From now on the records are in `parts`."""
        self.parts = parts
        self._noted_at = None
        self.left = records
        self.flat = []
        self.columns = None

    def replace(self, part: Part, by: list[Part]) -> None:
        at = self.parts.index(part)
        self.parts = [*self.parts[:at], *by, *self.parts[at + 1 :]]  # others may be looking at the old ones

    def note_late(self, noted: list[Any], place: int, watcher: Watcher) -> None:
        """Watch a record whose watcher was noted in a list that the drain has taken, unless it was in time.

        It was in time where the list is cut behind it, or is not cut yet.
        """
        end = len(noted)
        while end and noted[end - 1] is not _CUT:
            end -= WIDTH
        if end and any(
            noted[at] == place and noted[at + 1] is watcher for at in range(end, len(noted), WIDTH)
        ):
            self.watch(place, watcher)

    def watch(self, place: int, watcher: Watcher) -> None:
        """Have a watcher called that comes after the drain: at once if its record is settled."""
        watched = self.watched
        while True:
            earlier = watched.get(place)
            both = joined(earlier, watcher)
            with self.lock:  # no calls in here: see `accumulator`
                present = watched[place] if place in watched else None  # noqa: SIM401
                if present is earlier:
                    watched[place] = both
                    break
        found = self.find(place)
        if found is not None and found[0].settled:
            mine = watched.pop(place, None)
            if mine is not None:
                call(mine, _settled_delivery(*found))

    def forget(self, place: int, callback: Watcher) -> int:
        """Have `callback` not called for a record that is not settled; how many times it was there.

        What another thread is cutting into parts in this moment is not found.
        """
        noted, found = self.noted, self.find(place)
        removed = 0 if noted is None else self._forget_noted(noted, place, callback)
        if found is not None:
            part, rank = found
            watchers = part.watchers
            if watchers is not None:
                kept, count = without(watchers[rank], callback)
                if count:
                    part.watchers = column = watchers if isinstance(watchers, list) else list(watchers)
                    column[rank] = kept
                    removed += count
        late = self.watched.get(place)
        kept, count = without(late, callback)
        with self.lock:  # no calls in here: see `accumulator`
            if count and place in self.watched and self.watched[place] is late:
                if kept is None:
                    del self.watched[place]
                else:
                    self.watched[place] = kept
                removed += count
        return removed

    def _forget_noted(self, noted: list[Any], place: int, callback: Watcher) -> int:
        known = self._noted_at
        if known is None or known[0] != len(noted):
            # Once for many: `asyncio.wait` takes its callback back from everything that it waited for.
            at: dict[int, list[int]] = {}
            for index in range(0, len(noted), WIDTH):
                at.setdefault(noted[index], []).append(index + 1)
            self._noted_at = known = (len(noted), at)
        removed = 0
        for index in known[1].get(place, ()):
            if noted[index] == callback:
                noted[index] = nobody
                removed += 1
        return removed

    def when_finished(self, callback: Callable[[], object]) -> bool:
        """Have `callback` called once all records are settled; False when they already are."""
        entry = (callback,)
        with self.lock:
            if self.parts and not self.left:
                return False
            finished = self.finished
            finished += entry
        return True

    def find(self, place: int) -> tuple[Part, int] | None:
        """The part that has the record, and its rank there; None before the drain."""
        parts, found = self.parts, self._found
        if len(parts) == 1:
            return parts[0], place // WIDTH
        if not parts:
            return None
        if found is None or found[0] is not parts:
            places = {at: (part, rank) for part in parts for rank, at in enumerate(part.places)}
            self._found = found = (parts, places)
        return found[1][place]

    def settle(self, part: Part) -> None:
        """Mark a part as settled; its watchers are yet to be called."""
        part.settled = True
        self.left -= len(part)

    def call_finished(self) -> None:
        """Call whoever waits for all records, which are settled. What they raise is logged."""
        nothing: list[Callable[[], object]] = []
        with self.lock:  # one who comes later finds no record left
            finished, self.finished = self.finished, nothing
        for callback in finished:
            try:
                callback()
            except BaseException as error:  # noqa: BLE001 - see `call`
                report(log, f"the callback of deliveries to {self.topic},", callback, error)

    def call_watchers(self, part: Part) -> None:
        """Call whoever watches a record of a part that is settled, in order. What they raise is logged."""
        watchers, part.watchers = part.watchers, None
        if self.watched:
            self._call_late_too(part, watchers)
        elif watchers is not None:
            for rank, watcher in enumerate(watchers):
                if watcher is not None:
                    delivery = Delivery()
                    delivery._part = part
                    delivery._rank = rank
                    try:  # as `call`, without the call
                        watcher(delivery)
                    except BaseException as error:  # noqa: BLE001 - see there
                        report(log, f"the callback of a delivery to {part.topic},", watcher, error)

    def _call_late_too(self, part: Part, watchers: Sequence[Watcher | None] | None) -> None:
        take = self.watched.pop
        for rank, place in enumerate(part.places):
            for watcher in (watchers[rank] if watchers else None, take(place, None)):
                if watcher is not None:
                    call(watcher, _settled_delivery(part, rank))


def _settled_delivery(part: Part, rank: int) -> Delivery:
    delivery = Delivery()
    delivery._part = part
    delivery._rank = rank
    return delivery


class Delivery:
    """The fate of one record: awaitable, and a `RecordMetadata` once the record is written.

        delivery = await producer.send("orders", b"value")
        metadata = await delivery

    `result` is for threads, `add_done_callback` for neither waiting nor asking. A record that could not be
    delivered raises the reason.

    What asyncio takes in place of a future it takes: `wait`, `gather`, `wait_for`, `shield`, `as_completed`.
    It is none, as `asyncio.isfuture` says, because a record that was sent cannot be cancelled: a wait that
    is cancelled, or runs out of time, ends by itself and leaves the delivery as it was.
    """

    __slots__ = ("_chunk", "_part", "_place", "_rank")

    # Set by whoever makes one, without a constructor: a call more per record would be felt. The first two are
    # there in one that `send` returns, the last two once the record is known to be settled.
    _chunk: Chunk
    _place: int
    _part: Part
    _rank: int

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Delivery) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "failed" if self.exception() else "delivered"
        return f"<Delivery to {self.topic}, {state}>"

    @property
    def topic(self) -> str:
        """Where the record goes to."""
        try:
            return self._chunk.topic
        except AttributeError:
            return self._part.topic

    def _identity(self) -> tuple[object, int]:
        try:
            return self._chunk.origin, self._place
        except AttributeError:
            return self._part.origin, self._part.place(self._rank)

    def done(self) -> bool:
        """Whether the fate of the record is known."""
        return self._settled_part() is not None

    def cancelled(self) -> bool:
        """Never: what was sent cannot be taken back."""
        return False

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - as futures have it
        """Does nothing and says so: what was sent cannot be taken back."""
        return False

    def exception(self) -> KafkaError | None:
        """Why the record was not delivered; None where it was, or where that is not known yet."""
        try:
            part = self._part
        except AttributeError:
            found = self._settled_part()
            if found is None:
                return None
            part = found
        return None if part.error is None else part.error_of(self._rank)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was written, waiting up to `timeout` seconds; raises why it was not.

        Not for coroutines, which `await` the delivery: this blocks the thread. `timeout` None waits for as
        long as the producer's `delivery_timeout_ms` can take.
        """
        if not self.done():
            seconds = self._chunk.longest_wait() if timeout is None else timeout
            if not self._wait(seconds):
                raise KafkaTimeoutError(
                    f"a record for topic {self.topic} had not been delivered after {seconds:g} s"
                )
        return self._outcome()

    def add_done_callback(self, callback: Watcher) -> None:
        """Have `callback(delivery)` called once the fate is known: at once, or later on the producer's loop.

        It must not block, and what it raises is logged.
        """
        try:
            chunk = self._chunk
        except AttributeError:  # settled before it was made
            call(callback, self)
            return
        # `asyncio.wait` wants to be called on its loop. Callbacks of users do not wait for a loop that may be
        # blocked, as a notebook's is by the cell that flushes and then reads what they did.
        try:
            asyncios = callback.__module__ == _ASYNCIO  # measurable: this is all that most are asked
        except AttributeError:
            asyncios = False
        if asyncios and get_ident() != chunk.thread:
            callback = Elsewhere(asyncio.get_running_loop(), callback)
        # Without the lock, whose cost was measurable: one step notes it, in a list that may be taken away.
        noted = chunk.noted
        if noted is None:
            chunk.watch(self._place, callback)
            return
        noted += (self._place, callback)
        if chunk.noted is not noted:
            chunk.note_late(noted, self._place, callback)

    def remove_done_callback(self, callback: Watcher) -> int:
        """Have `callback` not called; how many times it was there. It may just be under way."""
        return 0 if self.done() else self._chunk.forget(self._place, callback)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self.done():
            return self._outcome()
        settled = yield from self.settled().__await__()
        return settled._outcome()

    def settled(self) -> asyncio.Future[Delivery]:
        """A future of this loop that ends with the fate of the record, good or bad: its result says which."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[Delivery] = loop.create_future()

        def settle(delivery: Delivery) -> None:
            if not woken.done():
                woken.set_result(delivery)

        try:
            home = self._chunk.thread
        except AttributeError:  # settled before it was made
            settle(self)
            return woken
        # A future is settled on its own loop: set from another thread it would not wake it.
        self.add_done_callback(settle if get_ident() == home else Elsewhere(loop, settle))
        return woken

    def _wait(self, timeout: float) -> bool:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("result() would block the event loop: await the delivery instead")
        return wait_in_thread(lambda wake: self.add_done_callback(lambda _: wake()), timeout)

    def _settled_part(self) -> Part | None:
        """The part with the record once it is settled; before that it may still be split."""
        try:
            return self._part
        except AttributeError:
            found = self._chunk.find(self._place)
            if found is None or not found[0].settled:
                return None
            # In this order: another thread that finds the part needs the rank too.
            part, self._rank = found
            self._part = part
            return part

    def _outcome(self) -> RecordMetadata:
        part = self._settled_part()
        assert part is not None
        error = part.error_of(self._rank)
        if error is not None:
            raise copy(error)  # a traceback belongs to one caller
        return part.metadata(self._rank)
