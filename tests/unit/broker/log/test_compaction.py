"""Compaction keeps of every key the latest record where it was, and tombstones as long as the topic says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.broker.log.partition_log import LogConfig, Origin, PartitionLog
from kclient.records import Codec, ControlType, ModernBatch, Stamp, encode_batch, marker
from tests.unit.broker.log.building import NOW, SetClock, batch, batches, contents, keyed, open_log

COMPACT = frozenset({"compact"})
DAY = 86_400_000


def compacted(directory: Path | None = None, **config: Any) -> PartitionLog:
    options: dict[str, Any] = {"cleanup_policy": COMPACT, "min_cleanable_dirty_ratio": 0.0}
    return open_log(directory, **(options | config))


def put(log: PartitionLog, *records: tuple[bytes, bytes | None]) -> None:
    log.append(keyed(records), leader_epoch=0)


@pytest.fixture(params=["memory", "files"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionLog:
    return compacted(None if request.param == "memory" else tmp_path / "topic-0")


def test_only_the_latest_record_of_a_key_stays_at_its_offset(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"), (b"c", b"1"))
    put(log, (b"a", b"3"))
    log.roll()
    result = log.compact(NOW)
    assert result is not None
    assert (result.from_offset, result.to_offset) == (0, 5)
    assert result.bytes_after < result.bytes_before
    assert contents(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert [one.base_offset for one in batches(log)] == [0, 2, 4]
    assert log.append(keyed([(b"d", b"1")]), leader_epoch=0).base_offset == 5


def test_the_active_segment_is_not_cleaned_and_does_not_count(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    assert log.compact(NOW) is None
    log.roll()
    put(log, (b"a", b"3"))
    log.compact(NOW)
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_what_is_clean_is_not_cleaned_again_until_enough_is_dirty(log: PartitionLog) -> None:
    log.config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.5)
    for number in range(4):
        put(log, (b"%d" % number, b"1"))
    log.roll()
    assert log.compact(NOW) is not None
    assert log.first_dirty_offset == 4
    put(log, (b"0", b"2"))
    log.roll()
    assert log.compact(NOW) is None
    log.config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=1000)
    assert log.compact(NOW + 1000) is None
    assert log.compact(NOW + 1001) is not None
    assert (4, b"0", b"2") in contents(log)
    assert (0, b"0", b"1") not in contents(log)


def test_young_segments_wait_for_the_compaction_lag(log: PartitionLog) -> None:
    log.config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=1000)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    log.append(keyed([(b"a", b"3")], NOW + 500), leader_epoch=0)
    log.roll()
    assert log.compact(NOW + 999) is None
    log.compact(NOW + 1000)
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3")]
    log.compact(NOW + 1500)
    assert contents(log) == [(2, b"a", b"3")]


def test_a_tombstone_goes_a_while_after_the_cleaning_that_met_it(log: PartitionLog) -> None:
    def dirty() -> None:
        put(log, (b"other", b"x"))
        log.roll()

    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"b", b"2"))
    dirty()
    log.compact(NOW)
    assert contents(log)[:2] == [(2, b"a", None), (3, b"b", b"2")]
    first = batches(log)[0]
    assert isinstance(first, ModernBatch)
    assert first.delete_horizon == NOW + DAY
    assert first.records("topic", 0)[0].timestamp == NOW
    dirty()
    log.compact(NOW + DAY - 1)
    assert contents(log)[0] == (2, b"a", None)
    dirty()
    log.compact(NOW + DAY)
    assert contents(log)[0] == (3, b"b", b"2")


def test_segments_are_joined_as_far_as_they_fit_into_one(tmp_path: Path) -> None:
    one = len(keyed([(b"0", b"x" * 100)]))
    log = compacted(tmp_path / "topic-0", segment_bytes=3 * one)
    for number in range(9):
        put(log, (b"%d" % (number % 2), b"x" * 100))
    log.roll()
    assert len(log.segments) == 4
    log.compact(NOW)
    put(log, (b"2", b"x" * 100))
    log.roll()
    log.compact(NOW)
    assert len(log.segments) == 2
    whole = contents(log)
    assert [offset for offset, _, _ in whole] == [7, 8, 9]
    log.close()
    names = sorted(path.name for path in (tmp_path / "topic-0").glob("*.log"))
    assert names == [f"{segment.base_offset:020}.log" for segment in log.segments]
    again = PartitionLog.open(tmp_path / "topic-0", log.config, SetClock())
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\ntopic 0 10\n"
    assert again.first_dirty_offset == 10
    assert contents(again) == whole
    assert again.read(0, 1) == again.read(7, 1)


def test_a_batch_that_holds_its_producers_last_sequence_stays_without_records(log: PartitionLog) -> None:
    log.append(batch(b"1", key=b"a", producer=(9, 0, 0)), leader_epoch=0)
    log.append(batch(b"2", key=b"a", producer=(9, 0, 1)), leader_epoch=0)
    put(log, (b"a", b"3"))
    log.roll()
    log.compact(NOW)
    assert contents(log) == [(2, b"a", b"3")]
    kept = [one for one in batches(log) if isinstance(one, ModernBatch) and one.producer_id == 9]
    assert [(one.base_sequence, one.record_count, one.max_timestamp) for one in kept] == [(1, 0, NOW)]


def test_a_key_whose_tombstone_went_is_gone(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    log.roll()
    log.compact(NOW)
    put(log, (b"b", b"1"))
    log.roll()
    log.compact(NOW + 2 * DAY)
    assert contents(log) == [(2, b"b", b"1")]


def test_records_without_a_key_go_but_the_last_offset_of_what_was_cleaned_stays_known(
    log: PartitionLog,
) -> None:
    log.config = LogConfig(cleanup_policy=frozenset({"delete"}))
    log.append(keyed([(b"a", b"1")]), leader_epoch=0)
    log.append(keyed([(None, b"2")]), leader_epoch=0)
    log.append(keyed([(None, b"3")]), leader_epoch=0)
    log.roll()
    log.config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0)
    log.compact(NOW)
    assert contents(log) == [(0, b"a", b"1")]
    assert [one.base_offset for one in batches(log)] == [0, 2]
    assert log.segments[0].next_offset == log.active.base_offset == 3


def test_markers_stay_and_open_transactions_are_not_cleaned(log: PartitionLog) -> None:
    stamp = Stamp(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.append(encode_batch([(b"a", b"3", NOW, ())], stamp=stamp), leader_epoch=0)
    log.roll()
    log.compact(NOW)
    assert contents(log) == [(1, b"a", b"2"), (2, b"a", b"3")]
    key, value = marker(ControlType.COMMIT, 0)
    end = encode_batch([(key, value, NOW, ())], stamp=stamp._replace(control=True, base_sequence=-1))
    log.append(end, leader_epoch=0, origin=Origin.COORDINATOR)
    log.roll()
    log.compact(NOW)
    assert contents(log) == [(2, b"a", b"3"), (3, key, value)]


def test_compressed_and_stamped_batches_stay_so() -> None:
    log = compacted(message_timestamp_type="LogAppendTime", compression_type="lz4")
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    log.compact(NOW)
    first = batches(log)[0]
    assert first.codec is Codec.LZ4
    assert first.records("topic", 0)[0].timestamp == NOW
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_a_log_that_only_deletes_is_not_cleaned() -> None:
    log = open_log(min_cleanable_dirty_ratio=0.0)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    assert log.compact(NOW) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.lists(
                st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.none() | st.binary(max_size=9)),
                min_size=1,
                max_size=4,
            ),
            st.sampled_from(["roll", "compact", "later"]),
        ),
        max_size=40,
    )
)
def test_a_compacted_log_means_what_the_whole_log_meant(
    steps: list[list[tuple[bytes, bytes | None]] | str],
) -> None:
    clock = SetClock()
    log = open_log(None, clock, cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0, segment_bytes=600)
    every: list[tuple[int, bytes, bytes | None]] = []
    for step in steps:
        if step == "roll":
            log.roll()
        elif step == "later":
            clock.now_ms += DAY
        elif step == "compact":
            log.compact(clock.now_ms)
            _check(log, every)
        elif isinstance(step, list):
            every += [(log.end_offset + delta, key, value) for delta, (key, value) in enumerate(step)]
            log.append(keyed(step, clock.now_ms), leader_epoch=0)
    log.roll()
    log.compact(clock.now_ms)
    _check(log, every)
    found = contents(log)
    assert len({key for _, key, _ in found}) == len(found)


def _check(log: PartitionLog, every: list[tuple[int, bytes, bytes | None]]) -> None:
    """What is left was there, in order; reading it all gives every key its last value, or none if deleted."""
    found = contents(log)
    assert set(found) <= set(every)
    assert found == sorted(found)
    latest = {key: (offset, value) for offset, key, value in every}
    left = {key: (offset, value) for offset, key, value in found}
    for key, (offset, value) in latest.items():
        assert left.get(key, (offset, None)) == (offset, value)
    assert set(left) <= set(latest)
