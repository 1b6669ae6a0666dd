"""Damage to a segment that was on the disk once costs that segment's records alone, and is said."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kclient.broker.log.partition_log import PartitionLog
from kclient.broker.log.segment import Segment
from tests.unit.broker.log.building import NOW, SetClock, batch, contents, open_log

WRITTEN = 40


def closed(directory: Path) -> PartitionLog:
    """A log of several segments, closed in good order."""
    log = open_log(directory, segment_bytes=600, index_interval_bytes=100)
    for number in range(WRITTEN):
        log.append(batch(b"%d" % number, time=NOW + number), leader_epoch=0)
    log.close()
    assert len(log.segments) > 4
    return log


def opened(log: PartitionLog, *, clean: bool, recovery_point: int = 0) -> PartitionLog:
    assert log.directory is not None
    return PartitionLog.open(
        log.directory, log.config, SetClock(), clean=clean, recovery_point=recovery_point
    )


def path_of(log: PartitionLog, segment: Segment) -> Path:
    assert log.directory is not None
    return log.directory / f"{segment.base_offset:020}.log"


def offsets(log: PartitionLog) -> list[int]:
    return [offset for offset, _, _ in contents(log)]


@pytest.mark.parametrize("clean", [True, False], ids=["after an orderly end", "before the recovery point"])
@pytest.mark.parametrize("left", ["all but a byte", "half", "nothing"])
def test_a_torn_closed_segment_hides_no_later_one_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, left: str
) -> None:
    log = closed(tmp_path / "orders-0")
    torn, following = log.segments[1], log.segments[2]
    data = path_of(log, torn).read_bytes()
    path_of(log, torn).write_bytes(data[: {"all but a byte": -1, "half": len(data) // 2, "nothing": 0}[left]])
    with caplog.at_level(logging.WARNING, "kclient.broker"):
        again = opened(log, clean=clean, recovery_point=log.end_offset)
    found = offsets(again)
    lost = [offset for offset in range(WRITTEN) if offset not in found]
    assert lost == list(range(again.segments[1].next_offset, following.base_offset))
    assert (again.end_offset, len(again.segments)) == (WRITTEN, len(log.segments))
    begins = f"ends at offset {lost[0]} and the next segment begins at {following.base_offset}"
    assert f"orders-0/{torn.base_offset:020}.log {begins}" in caplog.text
    assert ("is damaged: its last" in caplog.text) == (left != "nothing")
    assert again.append(batch(), leader_epoch=1).base_offset == WRITTEN
    again.close()
    assert offsets(opened(again, clean=True)) == [*found, WRITTEN]


def test_a_segment_that_is_missing_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = closed(tmp_path / "orders-0")
    gone = log.segments[2]
    path_of(log, gone).unlink()
    again = opened(log, clean=True)
    assert offsets(again) == [*range(gone.base_offset), *range(gone.next_offset, WRITTEN)]
    assert (
        f"ends at offset {gone.base_offset} and the next segment begins at {gone.next_offset}" in caplog.text
    )


def test_what_is_removed_behind_the_damage_of_a_crash_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = closed(tmp_path / "orders-0")
    torn = log.segments[1]
    path_of(log, torn).write_bytes(path_of(log, torn).read_bytes()[:-1])
    again = opened(log, clean=False)
    assert again.end_offset == torn.next_offset - 1
    assert f"removing the {len(log.segments) - 2} later segments" in caplog.text


def test_a_sound_log_and_one_with_the_gaps_of_compaction_say_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = closed(tmp_path / "orders-0")
    assert offsets(opened(log, clean=True)) == list(range(WRITTEN))
    path_of(log, log.segments[2]).unlink()
    table = open_log(log.directory, segment_bytes=600, cleanup_policy=frozenset({"compact"}))
    assert table.end_offset == WRITTEN
    assert caplog.text == ""
