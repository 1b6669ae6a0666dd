"""Whatever a crash or a bad disk did to the end of a log, opening it gives what is sound, in sound files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.records import Codec
from tests.broker import segments
from tests.unit.broker.log.building import NOW, SetClock, batch, contents

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)


def write(directory: Path, random: Random, count: int) -> PartitionLog:
    """Several segments: batches of any size and codec, an idempotent producer, times that go back."""
    log = PartitionLog.open(directory, CONFIG, SetClock())
    sequence = 0
    for number in range(count):
        values = [bytes([number]) * random.randrange(60) for _ in range(random.randrange(1, 5))]
        producer = (7, 0, sequence) if number % 2 else (-1, -1, -1)
        sequence += len(values) if number % 2 else 0
        stamped = NOW + random.randrange(1000)
        codec = Codec(random.randrange(5))
        log.append(batch(*values, time=stamped, producer=producer, codec=codec), leader_epoch=number // 7)
    return log


def damage(path: Path, random: Random) -> int:
    """Harm a segment behind some byte as a crash does; gives back the first byte that is not as it was."""
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    kind = random.choice(["cut", "zeros", "noise", "grown", "flip"])
    if kind == "cut":
        del data[at:]
    elif kind == "zeros":
        data[at:] = bytes(len(data) - at)
    elif kind == "noise":
        data[at:] = random.randbytes(len(data) - at)
    elif kind == "grown":
        at = len(data)
        data += random.choice([bytes(300), random.randbytes(200), bytes(data[:150])])
    else:
        data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return at


def harm_the_rest(directory: Path, random: Random) -> None:
    """Indexes and snapshots of a log that was not closed may be anything."""
    for path in [*directory.glob("*index"), *directory.glob("*.snapshot")]:
        fate = random.randrange(4)
        if fate == 0:
            path.unlink()
        elif fate == 1:
            path.write_bytes(random.randbytes(random.randrange(50)))


@pytest.mark.parametrize("seed", range(400))
def test_a_damaged_end_is_cut_off_and_everything_before_it_stays(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    directory = tmp_path / "topic-0"
    log = write(directory, random, random.randrange(5, 40))
    whole = contents(log)
    victim = random.choice(log.segments)
    held = segments.batches(directory / f"{victim.base_offset:020}.log")
    at = damage(directory / f"{victim.base_offset:020}.log", random)
    harm_the_rest(directory, random)
    kept = [one for one, following in pairwise(held) if following.position <= at]
    least = kept[-1].last_offset + 1 if kept else victim.base_offset

    again = PartitionLog.open(directory, CONFIG, SetClock())
    assert again.end_offset >= least
    assert contents(again) == whole[: again.end_offset]
    assert segments.faults(directory) == []
    check_producers(again, directory, tmp_path)
    appended = again.append(batch(b"next"), leader_epoch=9)
    assert appended.base_offset == again.end_offset - 1
    again.close()
    assert segments.faults(directory) == []
    opened = PartitionLog.open(directory, CONFIG, SetClock(), clean=True)
    assert contents(opened) == contents(again)


def check_producers(log: PartitionLog, directory: Path, tmp_path: Path) -> None:
    """They are those that the batches tell of, read from the first on."""
    copy = tmp_path / "copy-0"
    copy.mkdir()
    for path in directory.glob("*.log"):
        shutil.copy(path, copy)
    fresh = PartitionLog.open(copy, CONFIG, SetClock())
    assert list(log.producers.entries()) == list(fresh.producers.entries())


def test_segments_before_the_recovery_point_are_trusted_and_those_behind_it_checked(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", Random(4), 50)
    assert len(log.segments) > 3
    second = log.segments[1]
    path = tmp_path / "topic-0" / f"{second.base_offset:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    trusting = PartitionLog.open(tmp_path / "topic-0", CONFIG, SetClock(), recovery_point=second.next_offset)
    assert (trusting.end_offset, trusting.recovery_point) == (log.end_offset, second.next_offset)
    checking = PartitionLog.open(
        tmp_path / "topic-0", CONFIG, SetClock(), recovery_point=second.next_offset - 1
    )
    assert checking.end_offset < second.next_offset
    assert checking.recovery_point == checking.end_offset


def test_segments_behind_a_gap_go_unless_compaction_makes_gaps(tmp_path: Path) -> None:
    log = write(tmp_path / "topic-0", Random(4), 50)
    first = log.segments[0]
    path = tmp_path / "topic-0" / f"{0:020}.log"
    last = segments.batches(path)[-1]
    path.write_bytes(path.read_bytes()[: last.position])
    shutil.copytree(tmp_path / "topic-0", tmp_path / "table-0")
    assert PartitionLog.open(tmp_path / "topic-0", CONFIG, SetClock()).end_offset == last.base_offset
    table = replace(CONFIG, cleanup_policy=frozenset({"compact"}))
    whole = PartitionLog.open(tmp_path / "table-0", table, SetClock())
    assert (whole.end_offset, whole.segments[1].base_offset) == (log.end_offset, first.next_offset)
