"""Finding offsets by time and by leader epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.broker.log.partition_log import PartitionLog
from kclient.records import encode_batch
from tests.unit.broker.log.building import NOW, SetClock, batch, open_log


def timed(*times: int) -> bytes:
    return encode_batch([(b"k", b"v", time, ()) for time in times])


def test_the_first_record_as_late_as_a_time_is_found_inside_its_batch() -> None:
    log = open_log()
    log.append(timed(NOW, NOW + 10, NOW + 5), leader_epoch=1)
    log.append(timed(NOW + 3, NOW + 20), leader_epoch=2)
    assert log.offset_at(0) == (0, NOW, 1)
    assert log.offset_at(NOW + 1) == (1, NOW + 10, 1)
    assert log.offset_at(NOW + 10) == (1, NOW + 10, 1)
    assert log.offset_at(NOW + 11) == (4, NOW + 20, 2)
    assert log.offset_at(NOW + 21) is None
    log.delete_before(2)
    assert log.offset_at(NOW) == (2, NOW + 5, 1)
    assert log.max_timestamp == NOW + 20


def test_the_latest_record_is_the_first_of_those_with_the_latest_time() -> None:
    log = open_log()
    assert log.latest_timestamp_offset() is None
    assert log.max_timestamp == -1
    log.append(timed(-1), leader_epoch=0)
    assert log.latest_timestamp_offset() is None
    log.append(timed(NOW, NOW + 5, NOW + 5), leader_epoch=3)
    log.roll()
    log.append(timed(NOW + 5), leader_epoch=3)
    assert log.latest_timestamp_offset() == (2, NOW + 5, 3)


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=60), min_size=1, max_size=30),
    interval=st.sampled_from([0, 100, 4096]),
    segment_bytes=st.sampled_from([1500, 5000]),
    start=st.floats(0, 1),
)
def test_searches_agree_with_a_look_at_every_record(
    times: list[list[int]], interval: int, segment_bytes: int, start: float
) -> None:
    log = open_log(index_interval_bytes=interval, segment_bytes=segment_bytes)
    for group in times:
        log.append(timed(*(NOW + time for time in group)), leader_epoch=0)
    every = [(offset, NOW + time) for offset, time in enumerate(time for group in times for time in group)]
    latest = log.latest_timestamp_offset()
    assert latest is not None
    assert latest[:2] == max(every, key=lambda pair: (pair[1], -pair[0]))
    log.delete_before(int(start * log.end_offset))
    for wanted in range(NOW - 1, NOW + 62):
        expected = next((pair for pair in every if pair[1] >= wanted and pair[0] >= log.start_offset), None)
        found = log.offset_at(wanted)
        assert (found[:2] if found else None) == expected


def epochs_log() -> PartitionLog:
    log = open_log(segment_bytes=len(batch()))
    for epoch in (2, 2, 3, 5, 5):
        log.append(batch(), leader_epoch=epoch)
    return log


def test_epochs_end_where_the_next_begins() -> None:
    log = epochs_log()
    answers = {epoch: log.end_of_epoch(epoch) for epoch in range(-1, 7)}
    assert answers == {
        -1: (-1, -1), 0: (0, 0), 1: (1, 0), 2: (2, 2), 3: (3, 3), 4: (3, 3), 5: (5, 5), 6: (-1, -1)
    }  # fmt: skip
    assert [log.epochs.at(offset) for offset in range(-1, 6)] == [-1, 2, 2, 3, 5, 5, 5]
    assert open_log().end_of_epoch(0) == (-1, -1)


def test_an_epoch_may_begin_before_its_first_record() -> None:
    log = epochs_log()
    log.begin_epoch(8)
    log.begin_epoch(7)
    assert log.end_of_epoch(5) == (5, 5)
    assert log.end_of_epoch(8) == (8, 5)
    log.begin_epoch(9)
    assert log.end_of_epoch(8) == (5, 5)


def test_epochs_follow_the_start_and_the_end_of_the_log() -> None:
    log = epochs_log()
    log.delete_before(3)
    assert log.end_of_epoch(2) == (2, 3)
    assert log.end_of_epoch(3) == (3, 3)
    log.truncate(4)
    assert log.end_of_epoch(5) == (5, 4)
    log.truncate(3)
    assert log.end_of_epoch(5) == (-1, -1)
    assert log.epochs.latest == -1


def test_times_follow_the_end_of_the_log() -> None:
    log = open_log(index_interval_bytes=0)
    for number in range(10):
        log.append(timed(NOW + number), leader_epoch=0)
    log.truncate(4)
    assert log.max_timestamp == NOW + 3
    assert log.latest_timestamp_offset() == (3, NOW + 3, 0)
    log.append(timed(NOW + 2), leader_epoch=0)
    assert log.offset_at(NOW + 4) is None


@pytest.mark.parametrize("clean", [True, False])
def test_searches_work_after_opening_again(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "topic-0", segment_bytes=300, index_interval_bytes=0)
    for number in range(20):
        log.append(timed(NOW + number), leader_epoch=number)
    if clean:
        log.close()
    again = PartitionLog.open(tmp_path / "topic-0", log.config, SetClock(), clean=clean)
    assert [again.offset_at(NOW + number) for number in range(20)] == [
        (number, NOW + number, number) for number in range(20)
    ]
    assert again.latest_timestamp_offset() == (19, NOW + 19, 19)
    assert again.end_of_epoch(7) == (7, 8)
