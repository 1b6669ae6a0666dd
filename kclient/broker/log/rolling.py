"""When a log begins a new segment: by size, by time, or because an index cannot take more. Decides only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from kclient.broker.log.segment import MOST_RELATIVE

if TYPE_CHECKING:
    from kclient.broker.log.config import LogConfig
    from kclient.broker.log.segment import Segment
    from kclient.broker.log.stamping import Stored


def must_roll(segment: Segment, stored: Stored, config: LogConfig, now_ms: int) -> bool:
    """Whether batches have to go into another segment than the one that is appended to."""
    size = len(stored.data)
    if not (
        segment.size <= min(config.segment_bytes, MOST_RELATIVE) - size
        and stored.next_offset - 1 - segment.base_offset <= MOST_RELATIVE
        and len(segment.offsets) < config.segment_index_bytes // OFFSET_ENTRY
        and len(segment.times) < config.segment_index_bytes // TIME_ENTRY - 1
    ):
        return True
    if not segment.size:
        return False
    first = segment.rolling_timestamp
    latest = max(header.max_timestamp for header in stored.headers)
    waited = latest - first if first >= 0 and latest >= 0 else now_ms - segment.created_ms
    return waited > config.segment_ms - _jitter(segment, config)


def _jitter(segment: Segment, config: LogConfig) -> int:
    """So that not all segments that began together end together. The same for a segment every time."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return (segment.base_offset * 2654435761 + segment.created_ms) % most if most else 0
