"""What a log remembers of its idempotent and transactional producers, and what it refuses because of that.

Kafka's rules: a batch continues the producer's sequence, or repeats one of its last five batches exactly (the
answer is then that of the first time), or comes with a newer epoch from sequence 0. Decides, does no I/O.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kclient.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceNumberError
from kclient.records.layout import CONTROL, TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kclient.records.layout import BatchHeader

REMEMBERED = 5
_LARGEST = (1 << 31) - 1


class Written(NamedTuple):
    """A batch that was appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _LARGEST


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers shows it; -1 stands for none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


@dataclass(slots=True)
class Producer:
    """One producer in one partition."""

    producer_id: int
    epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    txn_start: int = -1
    batches: deque[Written] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def describe(self) -> ActiveProducer:
        last = self.batches[-1].last_sequence if self.batches else -1
        return ActiveProducer(
            self.producer_id, self.epoch, last, self.last_timestamp, self.coordinator_epoch, self.txn_start
        )


class Producers:
    """All producers of a log."""

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def describe(self) -> list[ActiveProducer]:
        return [producer.describe() for producer in self._by_id.values()]

    def entries(self) -> Iterable[Producer]:
        return self._by_id.values()

    def restore(self, producer: Producer) -> None:
        """Take over what a snapshot says."""
        self._by_id[producer.producer_id] = producer

    def recall(self, recent: Producers, producer_id: int) -> None:
        """Add the batches of a producer that a walk over the log found before its last one."""
        ours, theirs = self._by_id[producer_id], recent._by_id.get(producer_id)
        if theirs is None or theirs.epoch != ours.epoch or not theirs.batches or not ours.batches:
            return
        if theirs.batches[-1].last_offset == ours.batches[-1].last_offset:
            ours.batches = theirs.batches

    def clear(self) -> None:
        self._by_id.clear()

    def expire(self, before: int) -> None:
        """Forget producers without an open transaction that last wrote before `before`."""
        for producer in list(self._by_id.values()):
            if producer.txn_start < 0 and producer.last_timestamp <= before:
                del self._by_id[producer.producer_id]

    def first_open_transaction(self) -> int | None:
        """The offset of the first record whose transaction has not ended."""
        return min((one.txn_start for one in self._by_id.values() if one.txn_start >= 0), default=None)

    def last_data_offset(self, producer_id: int) -> int | None:
        """Where the producer last wrote: compaction keeps that batch for the sequence in its header."""
        producer = self._by_id.get(producer_id)
        return producer.batches[-1].last_offset if producer is not None and producer.batches else None

    def duplicate_of(self, header: BatchHeader) -> Written | None:
        """The batch that `header` repeats, if it is one of the last."""
        producer = self._by_id.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        last = last_sequence(header)
        for written in producer.batches:
            if written.last_sequence == last and written.first_sequence == header.base_sequence:
                return written
        return None

    def check(self, header: BatchHeader, *, sequences: bool) -> None:
        """Raise what Kafka answers unless the batch may come next; control batches have no sequence."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return
        who = f"producer {header.producer_id} at offset {header.base_offset}"
        if header.producer_epoch < producer.epoch:
            raise InvalidProducerEpochError(
                f"Epoch of {who} is {header.producer_epoch}, which is smaller than the last seen epoch "
                f"{producer.epoch}"
            )
        if header.attributes & CONTROL:
            return
        if producer.txn_start >= 0 and not header.attributes & TRANSACTIONAL:
            raise InvalidTxnStateError(f"Expected transactional write from {who}")
        if sequences:
            self._check_sequence(producer, header, who)

    def _check_sequence(self, producer: Producer, header: BatchHeader, who: str) -> None:
        first = header.base_sequence
        if header.producer_epoch != producer.epoch:
            if first != 0 and producer.epoch >= 0:
                raise OutOfOrderSequenceNumberError(
                    f"Invalid sequence number for new epoch of {who}: {header.producer_epoch} (request "
                    f"epoch), {first} (seq. number), {producer.epoch} (current producer epoch)"
                )
            return
        last = producer.batches[-1].last_sequence if producer.batches else -1
        if first != (last + 1 if last < _LARGEST else 0):
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number for {who}: {first} (incoming seq. number), "
                f"{last} (current end sequence number)"
            )

    def update(self, header: BatchHeader, coordinator_epoch: int | None = None) -> None:
        """Note a batch that is in the log; for an end of transaction, with its coordinator's epoch."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            producer = self._by_id[header.producer_id] = Producer(header.producer_id)
        if producer.epoch != header.producer_epoch:
            producer.batches.clear()
            producer.epoch = header.producer_epoch
        producer.last_timestamp = header.max_timestamp
        if header.attributes & CONTROL:
            producer.txn_start = -1
            if coordinator_epoch is not None:
                producer.coordinator_epoch = coordinator_epoch
            return
        delta = header.last_offset_delta
        last_offset = header.base_offset + delta
        producer.batches.append(Written(last_sequence(header), last_offset, delta, header.max_timestamp))
        if header.attributes & TRANSACTIONAL and producer.txn_start < 0:
            producer.txn_start = header.base_offset


def last_sequence(header: BatchHeader) -> int:
    """The sequence of the batch's last record; sequences go on at 0 after 2**31 - 1."""
    return (header.base_sequence + header.last_offset_delta) & _LARGEST
