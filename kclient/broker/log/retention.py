"""Which segments a log need not keep: before its start, over its size, past their time. Decides only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.broker.log.partition_log import PartitionLog
    from kclient.broker.log.segment import Segment


def deletable(log: PartitionLog, now_ms: int, *, by_policy: bool) -> list[Segment]:
    """The oldest segments that may go, in order; the last of a log only if there is something in it."""
    segments, config = log.segments, log.config
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log.start_offset:
        count += 1
    if not by_policy:
        return segments[:count]
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while count < len(segments) and segments[count].size and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    if config.retention_ms >= 0:
        while (
            count < len(segments)
            and _may_go(segments, count)
            and now_ms - _age(segments[count]) > config.retention_ms
        ):
            count += 1
    return segments[:count]


def _may_go(segments: list[Segment], at: int) -> bool:
    return at + 1 < len(segments) or segments[at].size > 0


def _age(segment: Segment) -> int:
    """The time that retention counts from."""
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
