"""One batch on its way: which records, as whose, how often tried. Encoding is here, sending is not.

A batch is made when a sender has room for it, so records that come while others are in flight join it. Once
made it keeps its records and, with idempotence, its sequence numbers, however often it is sent: that is what
lets the broker recognise it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from kclient.errors import KafkaError
from kclient.producer.part import Part
from kclient.records.compression import Codec
from kclient.records.encode import Stamp, encode_fields, encode_one, encode_runs
from kclient.records.packed import Packed, Run
from kclient.records.pieces import Fields
from kclient.records.restamp import with_producer
from kclient.records.steps import Steps, joined_steps
from kclient.types import Header

_SEQUENCES = 0x7FFF_FFFF
NO_SEQUENCE = -1


class Identity(NamedTuple):
    """As whom a batch is written: a producer id of the broker's, and how often its numbering began anew."""

    producer_id: int
    epoch: int


ANONYMOUS = Identity(-1, -1)


class Batch:
    """Records of one partition that are written together or not at all.

    `refused` says that the last answer rules out that the batch was ever written; before an answer, and after
    one that came from a broker in trouble, nobody knows. `first` says that when the batch was last sent,
    everything before it had been written, `log` to which of several logs of one name. `over` says that its
    records were given up while it was in flight. `plain_size` is how large it is before compression. `number`
    is its place among the batches of its partition; a half has the number of its whole, and a digit.
    """

    __slots__ = (
        "attempts",
        "count",
        "created",
        "deadline",
        "first",
        "identity",
        "last_error",
        "log",
        "number",
        "over",
        "parts",
        "plain_size",
        "records",
        "refused",
        "sent_at",
        "sequence",
        "size",
    )

    def __init__(self, parts: list[Part], number: tuple[int, ...], identity: Identity, sequence: int) -> None:
        self.parts: list[Part] = parts
        self.number: tuple[int, ...] = number
        self.count: int = sum(map(len, parts))
        self.size: int = sum(part.size for part in parts)
        self.created: float = parts[0].chunk.opened
        self.deadline: float = parts[0].chunk.deadline
        self.identity: Identity = identity
        self.sequence: int = sequence
        self.records: bytes = b""
        self.plain_size: int = 0
        self.attempts: int = 0
        self.sent_at: float = 0.0
        self.first: bool = True
        self.log: int = 0
        self.refused: bool = False
        self.over: bool = False
        self.last_error: KafkaError | None = None

    def __repr__(self) -> str:
        return (
            f"<Batch of {self.count} records, {self.size} bytes, sequence {self.sequence}, "
            f"epoch {self.identity.epoch}, attempt {self.attempts}>"
        )

    def encode(self, codec: Codec, level: int | None) -> None:
        """Make the bytes that are sent. May run on another thread: it touches nothing but this batch."""
        if not self.records:
            stamp = Stamp(0, -1, *self.identity, self.sequence)
            if self.count == 1 and codec is Codec.NONE and self._bare():
                part = self.parts[0]
                time = part.times if isinstance(part.times, int) else int(part.times[0])
                self.records = encode_one(part.keys[0], part.values[0], time, stamp)
                self.plain_size = len(self.records)
                return
            runs, sizes = self._runs(), list[int]()
            if runs is None:
                fields = self._fields()
                self.records = encode_fields(fields, stamp=stamp, codec=codec, level=level, plain_sizes=sizes)
            else:
                self.records = encode_runs(runs, stamp=stamp, codec=codec, level=level, plain_sizes=sizes)
            self.plain_size = sizes[0] if sizes else len(self.records)

    def renumber(self, identity: Identity, sequence: int) -> None:
        """Make it another producer's batch; its records are not encoded again."""
        self.identity, self.sequence = identity, sequence
        self.refused = False
        if self.records:
            self.records = with_producer(self.records, identity.producer_id, identity.epoch, sequence)

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches of about half the records each, with the same sequence numbers."""
        first: list[Part] = []
        second = list(self.parts)
        wanted = self.count // 2
        while wanted:
            part = second.pop(0)
            if len(part) > wanted:
                part, rest = part.split(wanted)
                second.insert(0, rest)
            first.append(part)
            wanted -= len(part)
        one = self._half(first, 0, self.sequence)
        return one, self._half(second, 1, following(self.sequence, one.count))

    def _half(self, parts: list[Part], digit: int, sequence: int) -> Batch:
        half = Batch(parts, (*self.number, digit), self.identity, sequence)
        half.attempts, half.last_error, half.refused = self.attempts, self.last_error, self.refused
        return half

    def _bare(self) -> bool:
        """Whether nothing has headers."""
        return all(part.headers is None for part in self.parts)

    def _runs(self) -> list[Run] | None:
        """The records as columns of Arrow, where all came as such."""
        runs: list[Run] = []
        for part in self.parts:
            keys, values = part.keys, part.values
            if not isinstance(keys, Packed) or not isinstance(values, Packed):
                return None
            times = part.times if isinstance(part.times, int) else np.asarray(part.times, np.int64)
            runs.append(Run(keys, values, times))
        return runs

    def _fields(self) -> Fields:
        parts = self.parts
        if len(parts) == 1:
            part = parts[0]
            return Fields(part.keys, part.values, part.times, part.headers)
        keys = list(chain.from_iterable(part.keys for part in parts))
        values = list(chain.from_iterable(part.values for part in parts))
        headers: list[Sequence[Header]] | None = None
        if any(part.headers for part in parts):
            headers = list(chain.from_iterable(part.headers or [()] * len(part) for part in parts))
        return Fields(keys, values, _times(parts), headers)


def _times(parts: list[Part]) -> int | Sequence[int]:
    columns = [part.times for part in parts]
    if all(isinstance(times, int | Steps) for times in columns):
        return _steps(parts)
    times: list[int] = []
    for part in parts:
        if isinstance(part.times, int):
            times += [part.times] * len(part)
        else:  # with columns of Arrow it is an array, which `+=` would add up, number by number
            times += np.asarray(part.times).tolist() if isinstance(part.keys, Packed) else part.times
    return times


def _steps(parts: list[Part]) -> int | Steps:
    starts: list[int] = []
    numbers: list[int] = []
    total = 0
    for part in parts:
        times = part.times
        if isinstance(times, int):
            starts.append(total)
            numbers.append(times)
        elif isinstance(times, Steps):
            starts += [total + start for start in times.starts]
            numbers += times.numbers
        total += len(part)
    return joined_steps(starts, numbers, total)


def following(sequence: int, count: int) -> int:
    """The sequence number `count` records later; numbers go on at 0 after 2**31 - 1."""
    return sequence if sequence == NO_SEQUENCE else (sequence + count) & _SEQUENCES
