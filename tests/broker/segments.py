"""The files of a partition, read without the code that writes them: batches, indexes, epochs.

Only header fields at their places in Kafka's format; `faults` compares what files say of one another.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">qiibIhiqqqhii")


class Batch(NamedTuple):
    """What a batch's header says, and where it lies in its segment."""

    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int


def batches(path: Path) -> list[Batch]:
    """Every batch of a segment, to the last byte."""
    data = path.read_bytes()
    found: list[Batch] = []
    at = 0
    while at < len(data):
        base, length, epoch, magic, _, _, delta, _, latest, *_ = _HEADER.unpack_from(data, at)
        assert magic == 2, f"{path.name} has no batch at {at}"
        found.append(Batch(at, base, base + delta, epoch, latest))
        at += 12 + length
    assert at == len(data), f"{path.name} is torn at {at}"
    return found


def partition_batches(directory: Path) -> list[Batch]:
    return [batch for path in sorted(directory.glob("*.log")) for batch in batches(path)]


def epoch_starts(directory: Path) -> dict[int, int]:
    """The leader epochs that a partition's checkpoint knows, with their first offsets."""
    lines = (directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    return {int(epoch): int(start) for epoch, start in map(str.split, lines)}


def faults(directory: Path) -> list[str]:
    """What is wrong in a partition's directory: offsets that do not follow, indexes that point elsewhere."""
    found: list[str] = []
    paths = sorted(directory.glob("*.log"))
    following = int(paths[0].stem)
    for path in paths:
        base, held = int(path.stem), batches(path)
        if base != following:
            found.append(f"{path.name} follows offset {following}")
        for batch in held:
            if batch.base_offset != following:
                found.append(f"{path.name}: {batch} follows offset {following}")
            following = batch.last_offset + 1
        found += _offset_faults(path, base, held)
        found += _time_faults(path, base, held)
    return found


def _offset_faults(path: Path, base: int, held: list[Batch]) -> Iterator[str]:
    known = {(batch.last_offset, batch.position) for batch in held}
    last = -1
    for relative, position in _entries(path.with_suffix(".index"), ">ii"):
        if (base + relative, position) not in known or relative <= last:
            yield f"{path.stem}.index has offset {base + relative} at {position}"
        last = relative


def _time_faults(path: Path, base: int, held: list[Batch]) -> Iterator[str]:
    last = -1
    for timestamp, relative in _entries(path.with_suffix(".timeindex"), ">qi"):
        before = [batch for batch in held if batch.last_offset <= base + relative]
        if not before or before[-1].last_offset != base + relative or timestamp <= last:
            yield f"{path.stem}.timeindex has time {timestamp} at {base + relative}"
        elif max(batch.max_timestamp for batch in before) != timestamp:
            yield f"{path.stem}.timeindex has time {timestamp} for {before[-1]}"
        last = timestamp


def _entries(path: Path, layout: str) -> list[tuple[int, ...]]:
    """The entries of an index; a segment that is being written has none yet."""
    return list(struct.iter_unpack(layout, path.read_bytes())) if path.exists() else []
