"""A log that dies at any one of its calls to the operating system comes back with all it acknowledged.

The same work is done again and again, and dies at the first call that changes a file, then at the second, and
so on. What the files hold at that moment is what a killed process leaves.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.errors import OffsetOutOfRangeError
from tests.broker import segments
from tests.support.crash_points import Fuse, Killed
from tests.unit.broker.log.building import NOW, SetClock, contents, keyed

PLAIN = LogConfig(segment_bytes=500, index_interval_bytes=100, flush_messages=3)
COMPACTED = LogConfig(
    segment_bytes=500, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01
)


def work(directory: Path, config: LogConfig, acknowledged: dict[bytes, tuple[int, bytes]]) -> PartitionLog:
    """Write, and do what a broker does besides; `acknowledged` learns of every write that returned."""
    log = PartitionLog.open(directory, config, SetClock())
    for number in range(24):
        if number % 5 == 0:
            log.begin_epoch(number // 5)
        key, value = b"key %d" % (number % 7), b"%d" % number * 20
        offset = log.append(keyed([(key, value)], NOW + number), leader_epoch=number // 5).base_offset
        acknowledged[key] = (offset, value)
        if number == 15:
            log.compact(NOW + number)
        if number == 18:
            log.delete_before(4)
    log.compact(NOW + 30)
    log.close()
    return log


def changes_of(tmp_path: Path, config: LogConfig) -> int:
    with pytest.MonkeyPatch.context() as patch:
        fuse = Fuse(patch, 1_000_000)
        work(tmp_path / "whole-0", config, {})
        return 1_000_000 - fuse.left


@pytest.mark.parametrize("config", [PLAIN, COMPACTED], ids=["plain", "compacted"])
def test_a_log_that_dies_at_any_change_of_a_file_comes_back_with_all_it_acknowledged(
    tmp_path: Path, config: LogConfig
) -> None:
    total = changes_of(tmp_path, config)
    assert total > 40
    for lasts in range(total):
        acknowledged: dict[bytes, tuple[int, bytes]] = {}
        directory = tmp_path / str(lasts) / "topic-0"
        directory.parent.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, lasts)
            with pytest.raises(Killed):
                work(directory, config, acknowledged)
        log = PartitionLog.open(directory, config, SetClock())
        found = {key: (offset, value) for offset, key, value in contents(log)}
        for key, place in acknowledged.items():
            # A write that was not acknowledged may have been done nevertheless.
            assert key in found, f"{key!r} is lost after {lasts} changes"
            assert found[key] >= place, f"{key!r} is old after {lasts} changes"
        if config is PLAIN:
            assert segments.faults(directory) == [], f"after {lasts} changes"
        next_offset = log.end_offset
        assert log.append(keyed([(b"next", b"")], NOW), leader_epoch=9).base_offset == next_offset
        with pytest.raises(OffsetOutOfRangeError):
            log.read(next_offset + 2, 1)
        log.close()
