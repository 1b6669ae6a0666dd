"""A log is whole again after a kill: torn tails go, indexes are rebuilt, swaps are finished."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.log.index import OffsetIndex, TimeIndex
from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.broker.log.rolling import must_roll
from kclient.broker.log.stamping import Stored
from kclient.broker.log.storage import _MOST_OPEN, _open_files
from kclient.errors import KafkaStorageError
from tests.unit.broker.log.building import NOW, SetClock, batch, contents, open_log


def write(directory: Path, count: int = 12, **config: Any) -> PartitionLog:
    log = open_log(directory, **config)
    for number in range(count):
        log.append(batch(b"%d" % number * 30, time=NOW + number), leader_epoch=number // 4)
    return log


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_tail_cut_at_any_byte_of_the_last_batch_goes_and_nothing_else(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", index_interval_bytes=100)
    whole = contents(log)
    last = len(log.read(11, 1))
    data = (tmp_path / "topic-0" / f"{0:020}.log").read_bytes()
    for cut in range(1, last + 1):
        directory = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "topic-0", directory)
        (directory / f"{0:020}.log").write_bytes(data[:-cut])
        again = open_log(directory, index_interval_bytes=100)
        assert contents(again) == whole[:-1]
        assert again.active.size == len(data) - last
        assert again.append(batch(), leader_epoch=2).base_offset == 11


def test_a_tail_with_a_wrong_byte_anywhere_under_the_checksum_goes(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0")
    data = (tmp_path / "topic-0" / f"{0:020}.log").read_bytes()
    start = len(data) - len(log.read(11, 1))
    for at in range(start + 17, len(data)):
        directory = tmp_path / f"flip-{at}"
        shutil.copytree(tmp_path / "topic-0", directory)
        broken = bytearray(data)
        broken[at] ^= 0x40
        (directory / f"{0:020}.log").write_bytes(broken)
        assert open_log(directory).end_offset == 11


def test_garbage_behind_the_last_batch_goes(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0")
    whole = contents(log)
    path = tmp_path / "topic-0" / f"{0:020}.log"
    size = path.stat().st_size
    for garbage in (b"\0", bytes(500), b"\xff" * 500, path.read_bytes()[:200]):
        with path.open("ab") as file:
            file.write(garbage)
        assert contents(open_log(tmp_path / "topic-0")) == whole
        assert path.stat().st_size == size


def test_indexes_after_a_crash_are_those_of_an_orderly_end(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", 30, index_interval_bytes=200, segment_bytes=1500)
    shutil.copytree(tmp_path / "topic-0", tmp_path / "killed-0")
    log.close()
    for path in (tmp_path / "killed-0").glob("*index"):
        path.unlink()
    again = open_log(tmp_path / "killed-0", index_interval_bytes=200, segment_bytes=1500)
    again.close()
    assert files(tmp_path / "killed-0") == files(tmp_path / "topic-0")
    assert sum(len(segment.offsets) for segment in again.segments) > 10


@pytest.mark.parametrize("damage", ["missing", "odd", "wrong"])
def test_an_index_that_does_not_fit_is_rebuilt(tmp_path: Path, damage: str) -> None:
    log = write(tmp_path / "topic-0", 30, index_interval_bytes=200, segment_bytes=1500)
    whole = contents(log)
    log.close()
    path = tmp_path / "topic-0" / f"{0:020}.index"
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(good[:-1] if damage == "odd" else good[:-4] + bytes(4))
    again = PartitionLog.open(tmp_path / "topic-0", log.config, SetClock(), clean=True)
    assert again.segments[0].offsets.encode() == good
    assert contents(again) == whole


def test_what_follows_a_torn_older_segment_goes_with_it(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", segment_bytes=500)
    middle = log.segments[len(log.segments) // 2]
    path = tmp_path / "topic-0" / f"{middle.base_offset:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = open_log(tmp_path / "topic-0", segment_bytes=500)
    assert again.end_offset == middle.next_offset - 1
    names = sorted(path.name for path in (tmp_path / "topic-0").glob("*.log"))
    assert names == [f"{segment.base_offset:020}.log" for segment in again.segments]
    assert [offset for offset, _, _ in contents(again)] == list(range(again.end_offset))


def test_the_start_that_records_were_deleted_to_survives(tmp_path: Path) -> None:
    log = write(tmp_path / "my-topic-0")
    write(tmp_path / "my-topic-1").delete_before(3)
    assert log.delete_before(5) == 5
    checkpoint = (tmp_path / "log-start-offset-checkpoint").read_text()
    assert checkpoint == "0\n2\nmy-topic 0 5\nmy-topic 1 3\n"
    again = open_log(tmp_path / "my-topic-0")
    assert (again.start_offset, again.end_offset) == (5, 12)
    again.delete()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nmy-topic 1 3\n"
    assert not (tmp_path / "my-topic-0").exists()


def test_an_empty_log_begins_where_its_records_were_deleted_to(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0")
    log.delete_before(12)
    shutil.rmtree(tmp_path / "topic-0")
    assert open_log(tmp_path / "topic-0").append(batch(), leader_epoch=0).base_offset == 12


def test_a_lost_epoch_checkpoint_is_rebuilt(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", segment_bytes=500)
    log.close()
    good = (tmp_path / "topic-0" / "leader-epoch-checkpoint").read_text()
    assert good == "0\n3\n0 0\n1 4\n2 8\n"
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").unlink()
    open_log(tmp_path / "topic-0")
    assert (tmp_path / "topic-0" / "leader-epoch-checkpoint").read_text() == good


def test_a_checkpoint_that_is_none_is_named(tmp_path: Path) -> None:
    write(tmp_path / "topic-0").close()
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    with pytest.raises(KafkaStorageError, match="leader-epoch-checkpoint is not a checkpoint"):
        open_log(tmp_path / "topic-0")


def test_a_cleaning_that_a_crash_interrupted_is_undone_or_finished(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", segment_bytes=500)
    whole = contents(log)
    directory = tmp_path / "topic-0"
    first, second = log.segments[:2]
    both = b"".join((directory / f"{one.base_offset:020}.log").read_bytes() for one in (first, second))
    (directory / f"{0:020}.log.cleaned").write_bytes(both[:100])
    assert contents(open_log(directory, segment_bytes=500)) == whole
    assert not list(directory.glob("*.cleaned"))
    (directory / f"{0:020}.log.swap").write_bytes(both)
    again = open_log(directory, segment_bytes=500)
    assert contents(again) == whole
    assert len(again.segments) == len(log.segments) - 1
    assert not list(directory.glob("*.swap"))


def test_many_logs_need_few_open_files(tmp_path: Path) -> None:
    logs = [open_log(tmp_path / f"topic-{number}") for number in range(_MOST_OPEN + 20)]
    for _ in range(2):
        for log in logs:
            log.append(batch(), leader_epoch=0)
    assert len(_open_files) <= _MOST_OPEN
    assert all(len(contents(log)) == 2 for log in logs)
    for log in logs:
        log.close()
    assert not any(store in _open_files for log in logs for store in [log.active.store])


def test_indexes_are_read_back_as_they_were_written() -> None:
    offsets, times = OffsetIndex(), TimeIndex()
    for number in range(5):
        offsets.append(number * 3, number * 1000)
        times.maybe_append(NOW + number * 7, number * 3)
        times.maybe_append(NOW + number * 7, number * 3 + 1)
    assert offsets.encode()[8:16] == bytes([0, 0, 0, 3, 0, 0, 3, 232])
    assert times.encode()[:12] == NOW.to_bytes(8, "big") + bytes(4)
    assert OffsetIndex.decode(offsets.encode()).positions == offsets.positions
    again = TimeIndex.decode(times.encode())
    assert (again.timestamps, again.offsets, len(again)) == (times.timestamps, times.offsets, 5)


def test_a_log_rolls_when_its_index_or_its_relative_offsets_are_full(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", 20, index_interval_bytes=0, segment_index_bytes=60)
    assert max(len(segment.times) for segment in log.segments) <= 5
    assert len(log.segments) > 3
    far = Stored(b"", [], log.active.base_offset + (1 << 31) + 1)
    assert must_roll(log.active, far, LogConfig(), NOW)
