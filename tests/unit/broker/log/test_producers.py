"""Idempotence: sequences go on, repeats get the first answer, everything else is refused as Kafka does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.broker.log.partition_log import Appended, Origin, PartitionLog
from kclient.broker.log.producers import ActiveProducer
from kclient.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
)
from kclient.records import ControlType, Stamp, encode_batch, marker
from tests.unit.broker.log.building import NOW, SetClock, batch, open_log

LARGEST = (1 << 31) - 1


def send(log: PartitionLog, sequence: int, count: int = 1, epoch: int = 0, producer: int = 9) -> Appended:
    return log.append(batch(*[b"v"] * count, producer=(producer, epoch, sequence)), leader_epoch=0)


def test_the_last_five_batches_are_known_again_and_answered_as_the_first_time() -> None:
    log = open_log()
    first = [send(log, number * 2, 2) for number in range(6)]
    assert [send(log, number * 2, 2) for number in range(1, 6)] == [
        Appended(one.base_offset, one.last_offset, NOW, 0, True) for one in first[1:]
    ]
    assert log.end_offset == 12
    with pytest.raises(OutOfOrderSequenceNumberError, match=r"0 \(incoming seq. number\), 11 \(current end"):
        send(log, 0, 2)


def test_a_repeat_of_another_length_is_no_repeat() -> None:
    log = open_log()
    send(log, 0, 2)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 0, 1)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 1, 1)


def test_a_gap_is_refused_and_other_producers_are_not_concerned() -> None:
    log = open_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 2)
    send(log, 0, producer=10)
    send(log, 1)
    log.append(batch(), leader_epoch=0)
    assert log.end_offset == 4


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = open_log()
    send(log, 500)
    send(log, 501)
    assert log.end_offset == 2


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one() -> None:
    log = open_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequenceNumberError, match="new epoch"):
        send(log, 1, epoch=1)
    send(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError, match="smaller than the last seen epoch 1"):
        send(log, 1, epoch=0)


def test_sequences_wrap_around() -> None:
    log = open_log()
    send(log, LARGEST - 1, 1)
    inside = send(log, LARGEST, 3)
    assert send(log, LARGEST, 3) == Appended(inside.base_offset, inside.last_offset, NOW, 0, True)
    send(log, 2, 1)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 4, 1)
    exact = open_log()
    send(exact, LARGEST, 1)
    send(exact, 0, 1)
    assert exact.end_offset == 2


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_producers_are_known_after_opening_again(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "topic-0", segment_bytes=400)
    for number in range(12):
        send(log, number)
    if clean:
        log.close()
    again = PartitionLog.open(tmp_path / "topic-0", log.config, SetClock(), clean=clean)
    assert again.active_producers() == [ActiveProducer(9, 0, 11, NOW, -1, -1)]
    assert send(again, 11).duplicate
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(again, 13)
    assert send(again, 12).base_offset == 12


def test_a_snapshot_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", segment_bytes=400)
    for number in range(12):
        send(log, number)
    log.close()
    for path in (tmp_path / "topic-0").glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    again = PartitionLog.open(tmp_path / "topic-0", log.config, SetClock(), clean=True)
    assert again.active_producers() == [ActiveProducer(9, 0, 11, NOW, -1, -1)]


def test_producers_that_have_been_silent_long_enough_are_forgotten() -> None:
    log = open_log(producer_expiration_ms=1000, retention_ms=-1)
    send(log, 0)
    log.enforce_retention(NOW + 999)
    assert len(log.active_producers()) == 1
    log.enforce_retention(NOW + 1000)
    assert log.active_producers() == []
    send(log, 77)


def transactional(sequence: int) -> bytes:
    stamp = Stamp(producer_id=5, producer_epoch=0, base_sequence=sequence, transactional=True)
    return encode_batch([(b"k", b"v", NOW, ())], stamp=stamp)


def test_an_open_transaction_holds_the_stable_offset_until_its_marker(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    log.append(batch(), leader_epoch=0)
    log.append(transactional(0), leader_epoch=0)
    assert log.last_stable_offset == 1
    with pytest.raises(InvalidTxnStateError):
        send(log, 1, producer=5)
    again = open_log(tmp_path / "topic-0")
    assert again.last_stable_offset == 1
    assert bytes(again.read(0, 10_000, up_to=again.last_stable_offset)) == bytes(again.read(0, 1))
    key, value = marker(ControlType.COMMIT, 2)
    stamp = Stamp(producer_id=5, producer_epoch=0, control=True, transactional=True)
    end = encode_batch([(key, value, NOW, ())], stamp=stamp)
    again.append(end, leader_epoch=0, origin=Origin.COORDINATOR)
    assert again.last_stable_offset == 3
    (producer,) = open_log(tmp_path / "topic-0").active_producers()
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (2, -1)
