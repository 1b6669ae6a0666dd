"""What the tests of the log share: a clock to set, batches to append, logs to put them in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kclient.broker.log.partition_log import LogConfig, PartitionLog
from kclient.records import Codec, RecordBatch, Stamp, encode_batch, read_batches
from kclient.records.pieces import RecordTuple

NOW = 1_700_000_000_000


class SetClock:
    """A clock that stands until it is set."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.now_ms = now_ms

    def wall(self) -> float:
        return self.now_ms / 1000


def batch(
    *values: bytes | None,
    key: bytes | None = b"key",
    time: int = NOW,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: Codec = Codec.NONE,
) -> bytes:
    """A batch as a producer sends it; `producer` is id, epoch and first sequence."""
    producer_id, epoch, sequence = producer
    stamp = Stamp(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return encode_batch([(key, value, time, ()) for value in values or (b"value",)], stamp=stamp, codec=codec)


def keyed(records: Sequence[tuple[bytes | None, bytes | None]], time: int = NOW) -> bytes:
    rows: list[RecordTuple] = [(key, value, time, ()) for key, value in records]
    return encode_batch(rows)


def open_log(directory: Path | None = None, clock: SetClock | None = None, **config: Any) -> PartitionLog:
    return PartitionLog.open(directory, LogConfig(**config), clock or SetClock())


def batches(log: PartitionLog) -> list[RecordBatch]:
    """All batches, read one by one."""
    found: list[RecordBatch] = []
    offset = log.start_offset
    while offset < log.end_offset:
        (one,) = read_batches(log.read(offset, 1))
        found.append(one)
        offset = one.next_offset
        if not log.read(offset, 1):
            break
    return found


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record."""
    return [
        (record.offset, record.key, record.value)
        for one in batches(log)
        for record in one.records("topic", 0)
        if record.offset >= log.start_offset
    ]
