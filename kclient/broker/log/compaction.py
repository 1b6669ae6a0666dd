"""Log compaction: of every key the latest record stays, at its offset; the others go.

Kafka's rules. Only sealed segments older than `min.compaction.lag.ms` are touched. A tombstone stays until
`delete.retention.ms` after the first cleaning that met it: its batch then carries the time when it may go. A
batch that holds its producer's last sequence, or the last offset of the cleaned part, stays even when empty.
Control batches stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kclient.broker.log.recovery import CLEANED, SWAP
from kclient.broker.log.segment import MOST_RELATIVE, Segment, segment_path
from kclient.broker.log.stamping import emptied
from kclient.broker.log.storage import FileStore, sync_files
from kclient.broker.log.walk import places
from kclient.records import Stamp, encode_sparse
from kclient.records.layout import HEADER, BatchHeader
from kclient.types import TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kclient.broker.log.partition_log import PartitionLog
    from kclient.records import ModernBatch
    from kclient.records.objects import BytesRecord


class Compacted(NamedTuple):
    """What a cleaning did: the offsets that were dirty, and the log's bytes before and after."""

    from_offset: int
    to_offset: int
    bytes_before: int
    bytes_after: int


class _Round(NamedTuple):
    """What is known while a log is cleaned."""

    log: PartitionLog
    latest: dict[bytes, int]
    end: int
    now_ms: int


def compact(log: PartitionLog, now_ms: int) -> Compacted | None:
    """Clean a log that is dirty enough, or has waited long enough."""
    dirty = log.first_dirty_offset
    if not log.start_offset <= dirty <= log.end_offset:
        dirty = log.start_offset
    end = max(dirty, _first_uncleanable(log, dirty, now_ms))
    sealed = [segment for segment in log.segments[:-1] if segment.base_offset < end]
    cleanable = [segment for segment in sealed if segment.next_offset > dirty]
    if not _worth_it(log, sealed, cleanable, now_ms):
        return None
    before = log.size
    this = _Round(log, _latest_offsets(cleanable, dirty, end), end, now_ms)
    for group in _groups(sealed, log.config.segment_bytes):
        _clean(this, group)
    log.first_dirty_offset = end
    return Compacted(dirty, end, before, log.size)


def _first_uncleanable(log: PartitionLog, dirty: int, now_ms: int) -> int:
    bound = min(log.active.base_offset, log.last_stable_offset)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in log.segments[:-1]:
            if segment.next_offset > dirty and segment.max_timestamp > now_ms - lag:
                return min(bound, segment.base_offset)
    return bound


def _worth_it(log: PartitionLog, sealed: list[Segment], cleanable: list[Segment], now_ms: int) -> bool:
    dirty_bytes = sum(segment.size for segment in cleanable)
    if not dirty_bytes:
        return False
    first_times = [segment.rolling_timestamp for segment in cleanable]
    earliest = min((time for time in first_times if time > 0), default=None)
    if earliest is not None and earliest < now_ms - log.config.max_compaction_lag_ms:
        return True
    total = sum(segment.size for segment in sealed)
    return dirty_bytes / total > log.config.min_cleanable_dirty_ratio


def _latest_offsets(segments: list[Segment], start: int, end: int) -> dict[bytes, int]:
    """The last offset of every key in the dirty part."""
    latest: dict[bytes, int] = {}
    for segment in segments:
        for place in places(segment.store, segment.offsets.position_before(start - segment.base_offset)):
            if place.header.base_offset >= end:
                break
            batch = place.load(segment.store)
            if place.last_offset < start or batch.is_control:
                continue
            for record in batch.records("", 0):
                if record.key is not None and record.offset >= start:
                    latest[record.key] = record.offset
    return latest


def _groups(segments: list[Segment], most_bytes: int) -> Iterator[list[Segment]]:
    """Neighbours that together fit into one segment."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        span = segment.next_offset - group[0].base_offset if group else 0
        if group and (size + segment.size > most_bytes or span > MOST_RELATIVE):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _clean(this: _Round, group: list[Segment]) -> None:
    """Write what stays of a group into a segment of its own, and put that in the group's place.

    The rename to `.swap` is the point of no return: a crash before it leaves the group, a crash after it the
    cleaned segment (`recovery` finishes what is missing).
    """
    log, directory = this.log, this.log.directory
    base = group[0].base_offset
    cleaned = Segment(directory, base, group[-1].created_ms, CLEANED)
    for segment in group:
        for place in places(segment.store, 0):
            kept = _filtered(this, place.load(segment.store), segment.store.read(place.position, place.size))
            if kept is not None:
                cleaned.append(kept[0], [kept[1]], log.config.index_interval_bytes)
    if isinstance(cleaned.store, FileStore) and directory is not None:
        sync_files([cleaned.store.path], directory)
        cleaned.store.rename(segment_path(directory, base, "log" + SWAP))
    for segment in group:
        segment.delete()
    if isinstance(cleaned.store, FileStore) and directory is not None:
        cleaned.store.rename(segment_path(directory, base))
    cleaned.seal()
    log.replace(group, cleaned)


def _filtered(this: _Round, batch: ModernBatch, raw: bytes | memoryview) -> tuple[bytes, BatchHeader] | None:
    """A batch without what need not stay, None if nothing of it does."""
    if batch.is_control or batch.base_offset >= this.end:
        return bytes(raw), batch.header
    records = batch.records("", 0)
    horizon = batch.delete_horizon
    kept = [record for record in records if _stays(this, record, horizon)]
    if not kept and not _stays_empty(this, batch):
        return None
    if kept and horizon is None and any(record.value is None for record in kept):
        horizon = this.now_ms + this.log.config.delete_retention_ms
    elif len(kept) == len(records):
        return bytes(raw), batch.header
    data = _rewritten(batch, kept, horizon) if kept else emptied(batch.header)
    return data, BatchHeader._make(HEADER.unpack_from(data))


def _stays(this: _Round, record: BytesRecord, horizon: int | None) -> bool:
    if record.offset >= this.end:
        return True
    if record.key is None or record.offset < this.latest.get(record.key, 0):
        return False
    return record.value is not None or horizon is None or this.now_ms < horizon


def _stays_empty(this: _Round, batch: ModernBatch) -> bool:
    if batch.next_offset == this.end:
        return True
    return (
        batch.producer_id >= 0 and this.log.producers.last_data_offset(batch.producer_id) == batch.last_offset
    )


def _rewritten(batch: ModernBatch, kept: list[BytesRecord], horizon: int | None) -> bytes:
    by_broker = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    stamp = Stamp(
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        append_time=batch.max_timestamp if by_broker else None,
        delete_horizon=horizon,
    )
    rows = [
        (record.offset - batch.base_offset, (record.key, record.value, record.timestamp, record.headers))
        for record in kept
    ]
    return encode_sparse(rows, batch.header.last_offset_delta, stamp=stamp, codec=batch.codec)
