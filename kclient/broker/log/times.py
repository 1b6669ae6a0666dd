"""Searches by timestamp over a log's segments, for ListOffsets: indexes, then headers, then one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kclient.broker.log.segment import Segment
    from kclient.records import ModernBatch

_FEW = 48


class Stamped(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start_offset: int) -> Stamped | None:
    """The first record from `start_offset` on that is as late as `timestamp`."""
    for segment in segments:
        if segment.max_timestamp < timestamp or segment.next_offset <= start_offset:
            continue
        for place in segment.from_time(timestamp):
            if place.header.max_timestamp < timestamp or place.last_offset < start_offset:
                continue
            found = _first_record(place.load(segment.store), timestamp, start_offset)
            if found is not None:
                return found
    return None


def first_latest(segments: Sequence[Segment]) -> Stamped | None:
    """The first record with the latest timestamp of all."""
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    if latest.max_timestamp < 0:
        return None
    place = latest.place_of(latest.max_timestamp_at)
    return None if place is None else _first_record(place.load(latest.store), latest.max_timestamp, 0)


def _first_record(batch: ModernBatch, timestamp: int, start_offset: int) -> Stamped | None:
    if batch.record_count < _FEW:
        for record in batch.records("", 0):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return Stamped(record.offset, record.timestamp, batch.leader_epoch)
        return None
    columns = batch.columns()
    hits = (columns.timestamps >= timestamp) & (columns.offsets >= start_offset)
    at = int(hits.argmax())
    if not hits[at]:
        return None
    return Stamped(int(columns.offsets[at]), int(columns.timestamps[at]), batch.leader_epoch)
