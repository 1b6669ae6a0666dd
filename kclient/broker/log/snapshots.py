"""Producers as of an offset, in Kafka's `.snapshot` files: they spare opening a log a walk over it.

Written when a segment is begun and when the log is closed. A file that does not fit is passed over: all of it
is in the segments too.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kclient.broker.log.producers import Producer, Producers, Written
from kclient.broker.log.segment import segment_path
from kclient.broker.log.storage import storage_errors, write_file
from kclient.records.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
# id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, start of the transaction
_ENTRY = struct.Struct(">qhiqiqiq")


def write_snapshot(directory: Path | None, offset: int, producers: Producers) -> None:
    """Keep what is known of all producers after `offset` records."""
    if directory is None:
        return
    entries = b"".join(map(_encode, producers.entries()))
    body = _COUNT.pack(len(producers)) + entries
    write_file(segment_path(directory, offset, "snapshot"), _HEAD.pack(_VERSION, crc32c(body)) + body)


def latest_snapshot(directory: Path, most: int) -> tuple[int, list[Producer]] | None:
    """The newest usable snapshot that is not beyond the offset `most`."""
    for offset in sorted(snapshot_offsets(directory), reverse=True):
        if offset <= most:
            with storage_errors("reading snapshots in", directory):
                producers = _decode(segment_path(directory, offset, "snapshot").read_bytes())
            if producers is not None:
                return offset, producers
    return None


def snapshot_offsets(directory: Path) -> list[int]:
    return [int(path.stem) for path in directory.glob("*.snapshot") if path.stem.isdigit()]


def remove_snapshots(directory: Path | None, *, above: int, keep: Container[int] | None = None) -> None:
    """Remove snapshots from beyond an offset and, given `keep`, those that belong to no segment."""
    if directory is None:
        return
    offsets = snapshot_offsets(directory)
    newest = max((offset for offset in offsets if offset <= above), default=-1)
    for offset in offsets:
        if offset > above or (keep is not None and offset != newest and offset not in keep):
            segment_path(directory, offset, "snapshot").unlink(missing_ok=True)


def _encode(producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else Written(-1, -1, 0, -1)
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_start,
    )


def _decode(data: bytes) -> list[Producer] | None:
    if len(data) < _HEAD.size + _COUNT.size:
        return None
    version, crc = _HEAD.unpack_from(data)
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    start = _HEAD.size + _COUNT.size
    if version != _VERSION or crc != crc32c(data[_HEAD.size :]) or len(data) != start + count * _ENTRY.size:
        return None
    return [_producer(fields) for fields in _ENTRY.iter_unpack(data[start:])]


def _producer(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator, txn_start = fields
    producer = Producer(producer_id, epoch, coordinator, timestamp, txn_start)
    if offset >= 0:
        producer.batches.append(Written(sequence, offset, delta, timestamp))
    return producer
