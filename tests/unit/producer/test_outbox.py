"""Outboxes and batches by themselves: order, numbers, beginning anew, and what runs out of time."""

from __future__ import annotations

import threading
from random import Random

import pytest

from kclient.cluster.retry import Backoff
from kclient.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownProducerIdError,
)
from kclient.producer.batch import ANONYMOUS, NO_SEQUENCE, Batch, Identity, following
from kclient.producer.delivery import Chunk
from kclient.producer.outbox import Outbox, Rules
from kclient.producer.part import WIDTH, Part
from kclient.producer.verdicts import Verdict, judge
from kclient.records.batch import ModernBatch
from kclient.records.compression import Codec
from kclient.records.reader import read_batches

ME = Identity(7, 0)
RECORD = 36 + 4  # what each of these records counts for


def part_of(*values: bytes, opened: float = 0.0, deadline: float = 100.0, time: int = 5) -> Part:
    chunk = Chunk("t", threading.Lock(), opened, deadline)
    places = range(0, len(values) * WIDTH, WIDTH)
    sizes = sum(36 + len(value) for value in values)
    part = Part(chunk, 0, places, [None] * len(values), list(values), time, None, sizes)
    chunk.cut([part], len(values))
    return part


def outbox(batch_size: int = RECORD, in_flight: int = 5, *, idempotent: bool = True) -> Outbox:
    box = Outbox("t", 0, Rules(batch_size, 0.0, in_flight, idempotent), Backoff(100, 1000, Random(1)))
    if idempotent:
        box.give_identity(ME)
        box._introduced = True  # as when its first batch is written
    return box


def test_an_identity_begins_with_one_batch_alone() -> None:
    box = Outbox("t", 0, Rules(RECORD, 0.0, 5, True), Backoff(100, 1000, Random(1)))
    box.give_identity(ME)
    for number in range(3):
        box.add(part_of(b"%04d" % number))
    first = take(box)
    assert box.due(0.0, False) == float("inf")
    box.written(first)
    take(box)
    take(box)


def filled(count: int, batch_size: int = RECORD) -> Outbox:
    box = outbox(batch_size)
    for number in range(count):
        box.add(part_of(b"%04d" % number))
    return box


def take(box: Outbox) -> Batch:
    assert box.due(0.0, False) <= 0.0
    batch = box.take()
    assert batch is not None
    return batch


def content(batch: Batch) -> list[bytes | None]:
    return [value for part in batch.parts for value in part.values]


def test_batches_are_taken_in_order_and_numbered_and_as_many_as_may_be_in_flight() -> None:
    box = filled(7)
    batches = [take(box) for _ in range(5)]
    assert [(batch.sequence, content(batch)) for batch in batches] == [
        (number, [b"%04d" % number]) for number in range(5)
    ]
    assert [batch.first for batch in batches] == [True, False, False, False, False]
    assert box.due(0.0, True) == float("inf")
    box.written(batches[0])
    assert take(box).sequence == 5


def test_the_oldest_batch_is_in_its_turn_although_younger_ones_are_in_flight() -> None:
    box = filled(4)
    box.written(take(box))
    oldest, younger = take(box), take(box)
    box.back(oldest, refused=True)
    assert take(box) is oldest
    assert oldest.first
    box.back(younger, refused=True)
    assert take(box) is younger
    assert not younger.first


def test_parts_are_joined_and_split_to_fill_batches_exactly() -> None:
    box = outbox(4 * RECORD)
    box.add(part_of(b"0000", b"0001"))
    box.add(part_of(b"0002", b"0003", b"0004"))
    assert box.next_size() == 4 * RECORD
    first = take(box)
    assert content(first) == [b"0000", b"0001", b"0002", b"0003"]
    assert (first.count, first.size, box.next_size()) == (4, 4 * RECORD, RECORD)
    second = take(box)
    assert content(second) == [b"0004"]
    assert second.sequence == 4
    assert box.bytes == 5 * RECORD
    for batch in (first, second):
        box.written(batch)
    assert box.bytes == 0


def test_a_batch_that_is_more_than_half_full_takes_no_piece_of_the_next_part() -> None:
    box = outbox(5 * RECORD)
    box.add(part_of(b"0000", b"0001", b"0002"))
    box.add(part_of(b"0003", b"0004", b"0005"))
    assert content(take(box)) == [b"0000", b"0001", b"0002"]
    assert content(take(box)) == [b"0003", b"0004", b"0005"]


def test_a_record_that_is_larger_than_a_batch_goes_alone() -> None:
    box = outbox(100)
    box.add(part_of(b"0000", bytes(1000), b"0001"))
    box.add(part_of(bytes(500)))
    sizes = []
    for _ in range(4):
        bound = box.next_size()
        batch = take(box)
        assert batch.size <= bound
        sizes.append((batch.count, batch.size))
        box.written(batch)
    assert not box
    assert sizes == [(1, RECORD), (1, 1036), (1, RECORD), (1, 536)]
    assert box.bytes == 0


def test_sizes_of_split_parts_are_those_of_their_records() -> None:
    part = part_of(b"", bytes(1000), b"x", bytes(50))
    first, second = part.split(1)
    assert (first.size, second.size) == (36, 1036 + 37 + 86)
    left, right = second.split(1)
    assert (left.size, right.size) == (1036, 37 + 86)
    assert part.chunk.parts == [first, left, right]
    assert [place for each in part.chunk.parts for place in each.places] == [0, 2, 4, 6]


def test_what_comes_back_goes_out_before_everything_younger_and_as_it_was() -> None:
    box = filled(4)
    batches = [take(box) for _ in range(3)]
    for number in (2, 0, 1):
        box.back(batches[number], refused=False)
    again = [take(box) for _ in range(4)]
    assert again[:3] == batches
    assert [batch.sequence for batch in again] == [0, 1, 2, 3]


def test_a_pause_holds_everything_back_until_it_is_over_or_another_leads() -> None:
    box = filled(2)
    first = take(box)
    box.back(first, refused=False)
    box.pause(10.0, KafkaConnectionError("lost"))
    until = box.due(10.0, True)
    assert 10.05 < until < 10.2
    box.pause(10.0, KafkaConnectionError("lost"))  # the same moment, the same failure
    assert box.due(10.0, True) == until
    box.led_by(3, 4)
    assert box.due(10.0, False) <= 10.0


def test_after_a_hole_in_the_numbers_the_rest_is_numbered_anew() -> None:
    box = filled(4)
    lost, younger = take(box), take(box)
    box.given_up(lost)
    # The younger one is in flight: first its answer.
    assert box.due(0.0, True) == float("inf")
    box.back(younger, refused=True)
    again = take(box)
    box.written(again)
    next_one = take(box)
    assert again is younger
    assert (again.identity, again.sequence) == (Identity(7, 1), 0)
    assert (next_one.identity, next_one.sequence) == (Identity(7, 1), 1)


def test_a_batch_of_unknown_fate_is_asked_about_under_its_old_number_before_numbering_anew() -> None:
    box = filled(4)
    lost, unknown, refused = take(box), take(box), take(box)
    box.given_up(lost)
    box.back(refused, refused=True)
    box.back(unknown, refused=False)
    again = take(box)
    assert (again, again.identity, again.sequence) == (unknown, ME, 1)
    # Alone: what follows depends on what is said of it.
    assert box.due(0.0, True) == float("inf")
    box.written(unknown)
    assert take(box) is refused
    assert (refused.identity, refused.sequence) == (Identity(7, 1), 0)


def test_a_stranger_waits_for_an_identity_and_then_counts_from_0() -> None:
    box = filled(3)
    first, second = take(box), take(box)
    box.back(first, refused=True)
    box.lost_count(stranger=True)
    box.back(second, refused=True)
    box.lost_count(stranger=True)
    assert box.take() is None
    assert box.identity is None
    assert box.due(0.0, True) == float("inf")
    box.give_identity(Identity(9, 0))
    introduction = take(box)
    box.written(introduction)
    batches = [introduction, take(box), take(box)]
    assert [batch.identity for batch in batches] == [Identity(9, 0)] * 3
    assert [batch.sequence for batch in batches] == [0, 1, 2]


def test_when_epochs_are_used_up_another_producer_id_is_needed() -> None:
    box = outbox()
    box.give_identity(Identity(7, 32_766))
    box.add(part_of(b"0000"))
    for wanted in (Identity(7, 32_766), Identity(7, 32_767)):
        batch = take(box)
        assert batch.identity == wanted
        box.back(batch, refused=True)
        box.lost_count()
    assert box.take() is None
    assert box.identity is None


def test_without_idempotence_nothing_is_numbered() -> None:
    box = outbox(idempotent=False)
    for number in range(2):
        box.add(part_of(b"%04d" % number))
    first, second = take(box), take(box)
    box.given_up(first)
    assert [(batch.identity, batch.sequence) for batch in (first, second)] == [(ANONYMOUS, NO_SEQUENCE)] * 2
    box.back(second, refused=False)
    assert take(box).sequence == NO_SEQUENCE


def test_what_runs_out_of_time_is_named_once_wherever_it_is() -> None:
    box = outbox()
    for number in range(4):
        box.add(part_of(b"%04d" % number, deadline=10.0 + number))
    flying, returned = take(box), take(box)
    box.back(returned, refused=False)
    assert box.next_deadline() == 10.0
    late, parts = box.expire(12.0)
    assert set(late) == {flying, returned}
    assert [part.values for part in parts] == [[b"0002"]]
    assert box.expire(12.0) == ([], [])
    assert box.next_deadline() == 13.0
    # The one in flight stays until its answer, and so does all that is to be numbered anew.
    assert flying.over
    assert box.flying == [flying]
    assert box.due(12.0, True) == float("inf")
    box.given_up(flying)
    assert take(box).identity == Identity(7, 1)
    assert box.bytes == RECORD


def test_clearing_names_everything_and_waits_for_what_is_in_flight() -> None:
    box = filled(3)
    flying, returned = take(box), take(box)
    box.back(returned, refused=False)
    batches, parts = box.clear()
    assert batches == [flying, returned]
    assert len(parts) == 1
    assert flying.over
    assert box.bytes == RECORD
    assert not box
    assert box.clear() == ([], [])
    box.given_up(flying)
    assert box.bytes == 0
    box.add(part_of(b"next"))
    assert take(box).identity == Identity(7, 1)


def test_halves_keep_records_numbers_and_their_place() -> None:
    box = outbox(5 * RECORD)
    box.add(part_of(b"0000", b"0001"))
    box.add(part_of(b"0002", b"0003", b"0004"))
    box.add(part_of(b"0005"))
    whole, younger = take(box), take(box)
    box.back(younger, refused=True)
    box.back_in_halves(whole)
    halves = [take(box) for _ in range(3)]
    assert [(batch.sequence, content(batch)) for batch in halves] == [
        (0, [b"0000", b"0001"]),
        (2, [b"0002", b"0003", b"0004"]),
        (5, [b"0005"]),
    ]
    assert [batch.size for batch in halves] == [2 * RECORD, 3 * RECORD, RECORD]
    box.back_in_halves(halves[1])
    assert [content(take(box)) for _ in range(2)] == [[b"0002"], [b"0003", b"0004"]]
    assert box.bytes == 6 * RECORD


def test_sequence_numbers_go_on_at_0() -> None:
    last = 2**31 - 1
    assert following(last - 2, 2) == last
    assert following(last - 1, 2) == 0
    assert following(last, 5) == 4
    assert following(NO_SEQUENCE, 5) == NO_SEQUENCE
    batch = Batch([part_of(b"a", b"b", b"c", b"d")], (0,), ME, last - 1)
    assert [half.sequence for half in batch.halves()] == [last - 1, 0]


def test_an_encoded_batch_is_renumbered_without_being_encoded_again() -> None:
    batch = Batch([part_of(b"a", time=3), part_of(b"b", b"c", time=4)], (0,), ME, 5)
    batch.encode(Codec.LZ4, None)
    before = batch.records
    batch.encode(Codec.NONE, None)
    assert batch.records is before
    batch.refused = True
    batch.renumber(Identity(8, 3), 9)
    assert not batch.refused
    (read,) = read_batches(batch.records)
    assert isinstance(read, ModernBatch)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (8, 3, 9)
    assert [(record.value, record.timestamp) for record in read.records("t", 0)] == [
        (b"a", 3),
        (b"b", 4),
        (b"c", 4),
    ]


@pytest.mark.parametrize(
    ("error", "first", "count", "verdict"),
    [
        (None, True, 1, Verdict.WRITTEN),
        (DuplicateSequenceNumberError(), True, 1, Verdict.WRITTEN),
        (MessageTooLargeError(), True, 2, Verdict.SPLIT),
        (RecordListTooLargeError(), True, 2, Verdict.SPLIT),
        (MessageTooLargeError(), True, 1, Verdict.FATAL),
        (OutOfOrderSequenceNumberError(), True, 1, Verdict.ANEW),
        (UnknownProducerIdError(), True, 1, Verdict.ANEW),
        (OutOfOrderSequenceNumberError(), False, 1, Verdict.BEHIND),
        (InvalidProducerEpochError(), False, 1, Verdict.STRANGER),
        (KafkaConnectionError("lost"), False, 1, Verdict.AGAIN),
        (TopicAuthorizationFailedError(), True, 2, Verdict.FATAL),
    ],
)
def test_verdicts(error: KafkaError | None, first: bool, count: int, verdict: Verdict) -> None:
    batch = Batch([part_of(*[b"v"] * count)], (0,), ME, 5)
    batch.first = first
    assert judge(error, batch, 10) is verdict


def test_without_a_number_to_lose_its_count_is_an_error_and_retries_are_counted() -> None:
    batch = Batch([part_of(b"v")], (0,), ANONYMOUS, NO_SEQUENCE)
    assert judge(OutOfOrderSequenceNumberError(), batch, 10) is Verdict.FATAL
    batch.attempts = 2
    assert judge(KafkaConnectionError("lost"), batch, 2) is Verdict.AGAIN
    assert judge(KafkaConnectionError("lost"), batch, 1) is Verdict.FATAL
