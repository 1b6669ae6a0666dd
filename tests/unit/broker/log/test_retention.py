"""What goes when: by time, by size, by request. And rolling, which decides what can go at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.errors import OffsetOutOfRangeError
from tests.unit.broker.log.building import NOW, SetClock, batch, contents, open_log

SIZE = len(batch())


def filled(count: int, directory: Path | None = None, **config: int) -> PartitionLog:
    """A segment per batch, a second apart."""
    log = open_log(directory, SetClock(NOW + count * 1000), **({"segment_bytes": SIZE} | config))
    for number in range(count):
        log.append(batch(time=NOW + number * 1000), leader_epoch=number)
    return log


def test_segments_go_when_their_latest_record_is_too_old() -> None:
    log = filled(4, retention_ms=5000)
    assert log.enforce_retention(NOW + 5000) == 0
    assert log.enforce_retention(NOW + 6001) == 2
    assert (log.start_offset, log.end_offset, len(log.segments)) == (2, 4, 2)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(1, 100)


def test_when_even_the_last_segment_is_too_old_an_empty_one_takes_over(tmp_path: Path) -> None:
    log = filled(3, tmp_path / "topic-0", retention_ms=5000)
    assert log.enforce_retention(NOW + 60_000) == 3
    assert (log.start_offset, log.end_offset, log.size) == (3, 3, 0)
    assert log.enforce_retention(NOW + 120_000) == 0
    assert log.append(batch(), leader_epoch=3).base_offset == 3
    log.close()
    names = {path.name for path in (tmp_path / "topic-0").iterdir()}
    assert names == {f"{3:020}.{kind}" for kind in ("log", "index", "timeindex", "snapshot")} | {
        f"{4:020}.snapshot",
        "leader-epoch-checkpoint",
    }


def test_segments_go_when_the_log_is_too_large_without_them() -> None:
    log = filled(5, retention_bytes=2 * SIZE, retention_ms=-1)
    assert log.enforce_retention(NOW) == 3
    assert log.size == 2 * SIZE
    log.config = LogConfig(retention_bytes=2 * SIZE - 1, retention_ms=-1)
    assert log.enforce_retention(NOW) == 0


def test_nothing_goes_where_only_compaction_is_wanted() -> None:
    log = filled(3)
    log.config = LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1)
    assert log.enforce_retention(NOW + 10**9) == 0
    log.delete_before(1)
    assert [segment.base_offset for segment in log.segments] == [1, 2]


def test_records_without_a_timestamp_are_as_old_as_their_segment() -> None:
    clock = SetClock()
    log = open_log(None, clock, retention_ms=1000)
    log.append(batch(time=-1), leader_epoch=0)
    assert log.enforce_retention(NOW + 1000) == 0
    assert log.enforce_retention(NOW + 1001) == 1


def test_records_are_deleted_up_to_an_offset_within_a_batch() -> None:
    log = open_log()
    log.append(batch(b"a", b"b", b"c"), leader_epoch=0)
    assert log.delete_before(2) == 2
    assert log.delete_before(2) == 2
    assert contents(log) == [(2, b"key", b"c")]
    assert log.delete_before(1) == 2
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_before(4)
    assert log.delete_before(3) == 3


@pytest.mark.parametrize(("times", "segments"), [((0, 10_000), 1), ((0, 10_001), 2), ((-1, 5), 1)])
def test_a_segment_rolls_when_time_passed_between_its_records(times: tuple[int, int], segments: int) -> None:
    log = open_log(segment_ms=10_000)
    for time in times:
        log.append(batch(time=-1 if time < 0 else NOW + time), leader_epoch=0)
    assert len(log.segments) == segments


def test_records_without_timestamps_roll_by_the_brokers_clock() -> None:
    clock = SetClock()
    log = open_log(None, clock, segment_ms=10_000)
    log.append(batch(time=-1), leader_epoch=0)
    clock.now_ms += 10_001
    log.append(batch(time=-1), leader_epoch=0)
    assert len(log.segments) == 2


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = open_log()
    log.roll()
    log.append(batch(), leader_epoch=0)
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]
