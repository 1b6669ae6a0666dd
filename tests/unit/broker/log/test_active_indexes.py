"""The segment that is appended to has its indexes on disk: other tools read them while the broker runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.broker import Broker
from kclient.broker.log.partition_log import PartitionLog
from kclient.net.connection import Connection
from kclient.testing import until
from tests.broker import segments
from tests.broker.records_script import produce, records
from tests.support.embedded import simulated, within
from tests.unit.broker.log.building import NOW, SetClock, batch, contents, open_log

INTERVAL = 50
SIZE = 3000


def append(log: PartitionLog, count: int) -> None:
    """Every batch but the first brings an entry in both indexes."""
    for _ in range(count):
        log.append(batch(b"x" * SIZE, time=NOW + log.end_offset), leader_epoch=0)


def entries(log: PartitionLog) -> tuple[int, int]:
    """How many entries the files of the active segment hold, having found no fault in any."""
    assert log.directory is not None
    assert segments.faults(log.directory) == []
    path = log.directory / f"{log.active.base_offset:020}.log"
    offsets, times = path.with_suffix(".index").stat().st_size, path.with_suffix(".timeindex").stat().st_size
    assert (offsets % 8, times % 12) == (0, 0)
    return offsets // 8, times // 12


def test_a_new_log_has_empty_indexes_whatever_lies_at_their_place(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    for kind in ("index", "timeindex"):
        (tmp_path / "topic-0" / f"{0:020}.{kind}").write_bytes(b"stale" * 24)
    assert entries(open_log(tmp_path / "topic-0")) == (0, 0)


def test_indexes_grow_with_the_log_and_are_never_far_behind(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", index_interval_bytes=INTERVAL)
    for count in range(400):
        append(log, 1)
        offsets, times = entries(log)
        assert offsets == times
        assert max(count - 64, count // 2) <= offsets <= count
    assert log.write_indexes()
    assert entries(log) == (399, 399)
    assert not log.write_indexes()


def test_a_segment_that_was_rolled_to_or_opened_again_has_growing_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", index_interval_bytes=INTERVAL)
    append(log, 10)
    log.roll()
    assert entries(log) == (0, 0)
    append(log, 10)
    log.close()
    for clean in (True, False):
        log = PartitionLog.open(tmp_path / "topic-0", log.config, SetClock(), clean=clean)
        held = entries(log)[0]
        append(log, held + 1)
        assert entries(log)[0] >= 2 * held
        log.close()
    assert len(contents(log)) == log.end_offset


def test_a_truncated_log_has_indexes_that_end_where_it_ends(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", index_interval_bytes=INTERVAL)
    append(log, 40)
    log.truncate(10)
    assert entries(log) == (9, 9)
    append(log, 40)
    log.write_indexes()
    assert entries(log)[0] > 40


def test_cleaning_leaves_the_indexes_of_the_active_segment_alone(tmp_path: Path) -> None:
    log = open_log(
        tmp_path / "topic-0",
        index_interval_bytes=INTERVAL,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
    )
    append(log, 20)
    log.roll()
    append(log, 20)
    log.write_indexes()
    path = tmp_path / "topic-0" / f"{20:020}.index"
    before = path.read_bytes()
    assert log.compact(NOW) is not None
    assert path.read_bytes() == before
    append(log, 20)
    log.write_indexes()
    assert path.stat().st_size > len(before)


def test_an_index_that_finds_no_room_costs_no_record_and_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "topic-0", index_interval_bytes=INTERVAL)
    append(log, 10)
    write = os.pwrite

    def short(descriptor: int, data: Any, position: int) -> int:
        if len(data) > SIZE:  # a batch
            return write(descriptor, data, position)
        write(descriptor, bytes(data)[:3], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        append(log, 100)
        assert entries(log)[0] < 20
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "these entries wait in memory" in caplog.text
    append(log, 1)
    assert entries(log) == (110, 110)
    assert log.end_offset == 111


def test_no_entry_waits_longer_than_a_round_of_checkpoints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        for name in ("orders", "gone"):
            broker.create_topic(name, configs={"index.interval.bytes": "0"})
            for _ in range(8):
                await connection.call(produce(name, records(b"x" * 50)), within(5), version=12)
        broker.topics.delete(broker.topics.by_name["gone"])
        log = broker.topics.partition("orders", 0).log
        assert entries(log)[0] < 7
        await until(lambda: entries(log)[0] == 7)
        assert caplog.text == ""

    simulated(check, data=tmp_path)
