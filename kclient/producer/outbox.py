"""What waits for one partition and what is in flight to it, in order. Decides; sends nothing.

**Order.** Records wait in parts, as the drains brought them. A sender takes batches; a batch that fails in a
way that may pass goes back, before everything younger. Without idempotence a younger batch in flight may
have been written by then, so order needs `max_in_flight_requests_per_connection=1`. With idempotence the
broker refuses what comes out of order (OUT_OF_ORDER_SEQUENCE_NUMBER), so the younger ones come back too.

**Numbers.** A batch gets its sequence number when it is taken, and keeps it. Numbers belong to an identity,
a producer id and an epoch. The broker keeps them per partition, so each outbox has its own epoch and can
begin anew without asking anybody (KIP-360). It must, when a number is lost: when a batch was given up, or
when the broker no longer knows what it had. But a batch of unknown fate (the connection was lost, or a
broker in trouble answered) would be written twice under a new number. Hence, when `_begin_anew` is set:

1. Nothing new is taken. What is in flight is waited for.
2. The oldest batch that came back is of unknown fate: it is sent once more under its old number, alone. It
   turns out to be written, or is refused for good.
3. The oldest batch was refused: then it was never written, and no younger one either, for the broker takes
   numbers only in order. All are numbered anew, and things go on.

**First numbers.** A broker that knows nothing of an identity takes whatever number comes first, so a second
batch would be written while the first has failed. So an identity begins with one batch, alone. It begins once
more with every new log: a topic that was deleted and made anew knows nobody, and takes any number as well.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import numpy as np

from kclient.cluster.retry import LEADERS_AT_ONCE, Backoff
from kclient.errors import KafkaError
from kclient.producer.batch import ANONYMOUS, NO_SEQUENCE, Batch, Identity, following
from kclient.producer.part import Part, packed_sizes, record_sizes
from kclient.records.packed import Packed
from kclient.wire.schema import NO_UUID

_LAST_EPOCH = 0x7FFF
_NEVER = float("inf")
_age = attrgetter("number")


class Rules(NamedTuple):
    """What the options say, for all partitions of a producer."""

    batch_size: int
    linger: float
    most_in_flight: int
    idempotent: bool


class Outbox:
    """One partition's queue. `leader` is the node it is sent to, None while there is none.

    `identity` is None while it has to be given one.
    """

    __slots__ = (
        "_begin_anew",
        "_introduced",
        "_log",
        "_next_number",
        "_next_sequence",
        "_rules",
        "_stranger",
        "_waiting_bytes",
        "backoff",
        "bytes",
        "flying",
        "identity",
        "last_error",
        "leader",
        "leader_epoch",
        "not_before",
        "partition",
        "returned",
        "topic",
        "topic_id",
        "waiting",
    )

    def __init__(self, topic: str, partition: int, rules: Rules, backoff: Backoff) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.topic_id: UUID = NO_UUID
        self.leader: int | None = None
        self.leader_epoch: int = -1
        self.waiting: deque[Part] = deque()
        self.returned: list[Batch] = []
        self.flying: list[Batch] = []
        # Of everything that is not settled.
        self.bytes: int = 0
        self.identity: Identity | None = None if rules.idempotent else ANONYMOUS
        self.not_before: float = 0.0
        self.backoff: Backoff = backoff
        self.last_error: KafkaError | None = None
        self._rules = rules
        self._waiting_bytes = 0
        self._next_number = 0
        self._next_sequence = 0 if rules.idempotent else NO_SEQUENCE
        self._begin_anew = False
        # Whether the broker has written anything under our identity, and to which of several logs.
        self._introduced = not rules.idempotent
        self._log = 0
        self._stranger = False

    def __repr__(self) -> str:
        return (
            f"<Outbox {self.topic}-{self.partition} to {self.leader}: {len(self.waiting)} parts waiting, "
            f"{len(self.returned)} batches back, {len(self.flying)} in flight>"
        )

    def __bool__(self) -> bool:
        """Whether anything is waiting to be taken."""
        return bool(self.waiting or self.returned)

    @property
    def new(self) -> bool:
        """Whether nothing was ever taken out of it."""
        return self._next_number == 0

    def add(self, part: Part) -> None:
        """Records for this partition, behind all others."""
        self.waiting.append(part)
        self._waiting_bytes += part.size
        self.bytes += part.size

    def due(self, now: float, hurry: bool) -> float:
        """When the next batch may be taken: now or earlier, later, or not before something is answered."""
        if self.identity is None or len(self.flying) >= self._rules.most_in_flight:
            return _NEVER
        if self.flying and (self._begin_anew or not self._introduced):
            return _NEVER
        if self.returned:
            return self.not_before
        if not self.waiting:
            return _NEVER
        if hurry or self._waiting_bytes >= self._rules.batch_size:
            return max(now, self.not_before)
        return max(self.waiting[0].chunk.opened + self._rules.linger, self.not_before)

    def next_size(self) -> int:
        """What the next batch takes at most."""
        if self.returned:
            return self.returned[0].size
        part = self.waiting[0]
        first = record_sizes(part.keys[:1], part.values[:1], part.headers and part.headers[:1])
        return min(self._waiting_bytes, max(self._rules.batch_size, *first))

    def take(self) -> Batch | None:
        """The next batch, from now on in flight. Only when it is due; None if it needs an identity first."""
        if self._begin_anew and (not self.returned or self.returned[0].refused):
            self._number_anew()
        if self.identity is None:
            return None
        batch = self.returned.pop(0) if self.returned else self._new_batch()
        # Only older ones count: were younger ones in flight again and again, its turn would never come.
        batch.first = all(batch.number < other.number for other in self.flying)
        batch.log = self._log
        self.flying.append(batch)
        return batch

    def written(self, batch: Batch) -> None:
        """A batch was acknowledged, or was found to have been written before."""
        self.flying.remove(batch)
        self.bytes -= batch.size
        self._introduced |= batch.identity == self.identity and batch.log == self._log
        self.backoff.reset()
        self.not_before = 0.0

    def back(self, batch: Batch, *, refused: bool) -> None:
        """A batch is to be sent again; `refused` rules out that it was written."""
        self.flying.remove(batch)
        batch.refused = refused
        insort(self.returned, batch, key=_age)

    def back_in_halves(self, batch: Batch) -> None:
        """A batch that the broker finds too large comes back as two."""
        self.flying.remove(batch)
        for half in batch.halves():
            half.refused = True
            insort(self.returned, half, key=_age)

    def given_up(self, batch: Batch) -> None:
        """A batch will not be sent again; what it leaves is a hole in the numbers."""
        (self.flying if batch in self.flying else self.returned).remove(batch)
        self.bytes -= batch.size
        self._begin_anew = self._rules.idempotent

    def pause(self, now: float, error: KafkaError) -> None:
        """Take nothing more until the back-off is over; failures of one moment are one failure."""
        self.last_error = error
        if self.not_before <= now:
            self.not_before = now + self.backoff.next()

    def led_by(self, leader: int | None, leader_epoch: int) -> None:
        """Another node leads the partition: no reason to wait any longer, as long as that helps."""
        self.leader, self.leader_epoch = leader, leader_epoch
        if self.backoff.attempts <= LEADERS_AT_ONCE:
            self.not_before = 0.0

    def new_log(self, topic_id: UUID | None = None) -> None:
        """The partition may be another one of the same name, which knows nothing of us."""
        self.topic_id = topic_id or self.topic_id
        self._log += 1
        self._introduced = not self._rules.idempotent

    def lost_count(self, *, stranger: bool = False) -> None:
        """The broker does not know our numbers (any more), or, a stranger, not even our identity."""
        self._begin_anew = True
        self._stranger |= stranger

    def give_identity(self, identity: Identity) -> None:
        """Count from 0 as somebody new."""
        self.identity = identity
        self._stranger = False
        self._renumber_all()

    def expire(self, now: float) -> tuple[list[Batch], list[Part]]:
        """Take out what has waited too long. What is in flight is named too, and stays until its answer."""
        late = [batch for batch in self.returned if batch.deadline <= now]
        for batch in late:
            self.given_up(batch)
        for batch in self.flying:
            if batch.deadline <= now and not batch.over:
                batch.over = True
                late.append(batch)
        parts = []
        while self.waiting and self.waiting[0].chunk.deadline <= now:
            part = self.waiting.popleft()
            self._waiting_bytes -= part.size
            self.bytes -= part.size
            parts.append(part)
        return late, parts

    def next_deadline(self) -> float:
        """When the oldest records run out of time."""
        dates = [batch.deadline for batch in (*self.returned, *self.flying) if not batch.over]
        if self.waiting:
            dates.append(self.waiting[0].chunk.deadline)
        return min(dates, default=_NEVER)

    def clear(self) -> tuple[list[Batch], list[Part]]:
        """Take out everything. What is in flight is named too, and stays until its answer."""
        flying = [batch for batch in self.flying if not batch.over]
        for batch in flying:
            batch.over = True
        returned, parts = list(self.returned), list(self.waiting)
        for batch in returned:
            self.given_up(batch)
        self.waiting.clear()
        self.bytes -= self._waiting_bytes
        self._waiting_bytes = 0
        return [*flying, *returned], parts

    def _number_anew(self) -> None:
        assert self.identity is not None
        if self._stranger or self.identity.epoch >= _LAST_EPOCH:
            self.identity = None  # the sender sees it and waits until there is another
            return
        self.identity = self.identity._replace(epoch=self.identity.epoch + 1)
        self._renumber_all()

    def _renumber_all(self) -> None:
        assert self.identity is not None
        self._begin_anew = self._introduced = False
        self._next_sequence = 0
        for batch in self.returned:
            batch.renumber(self.identity, self._next_sequence)
            self._next_sequence = following(self._next_sequence, batch.count)

    def _new_batch(self) -> Batch:
        parts: list[Part] = []
        room = self._rules.batch_size
        while self.waiting and room > 0:
            part = self.waiting[0]
            if part.size > room:
                if parts and 2 * room < self._rules.batch_size:
                    break  # full enough: cutting a part costs more than the bytes are worth
                fitting = _fitting(part, room)
                if not fitting and parts:
                    break
                fitting = max(1, fitting)  # a record that is larger than a batch is one by itself
                if fitting < len(part):
                    part, rest = part.split(fitting)
                    self.waiting[0] = rest
                    parts.append(part)
                    self._waiting_bytes -= part.size
                    break
            self.waiting.popleft()
            self._waiting_bytes -= part.size
            parts.append(part)
            room -= part.size
        assert self.identity is not None
        batch = Batch(parts, (self._next_number,), self.identity, self._next_sequence)
        self._next_number += 1
        self._next_sequence = following(self._next_sequence, batch.count)
        return batch


def _fitting(part: Part, room: int) -> int:
    """How many records from the front of a part take no more than `room` bytes."""
    if isinstance(part.keys, Packed) and isinstance(part.values, Packed):
        return int(np.searchsorted(np.cumsum(packed_sizes(part.keys, part.values)), room, "right"))
    return bisect_right(list(accumulate(record_sizes(part.keys, part.values, part.headers))), room)
