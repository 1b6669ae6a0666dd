"""How much one micro-batch takes: not too little (minOffsetsPerTrigger), not too much (maxOffsetsPerTrigger).

Pure, but for remembering when something was let through last. Spark's Python API has no limit that combines
the two and none with a delay, so both are decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor

from kclient.spark.offsets import Offsets
from kclient.types import TopicPartition


class Admission:
    """Decides where the next micro-batch ends. Times are in milliseconds of whatever clock the caller has."""

    def __init__(self, least: int | None, most: int | None, longest_delay: int) -> None:
        self._least = least
        self._most = most
        self._longest_delay = longest_delay
        self._let_through: float | None = None

    def next_end(
        self, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], now: float
    ) -> Offsets:
        """The end, which is `start` while there is too little. Both know the same partitions."""
        if self._least is not None and self._too_few(start, latest, now):
            return dict(start)
        return dict(latest) if self._most is None else proportional(start, latest, self._most)

    def _too_few(
        self, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], now: float
    ) -> bool:
        new = sum(max(0, end - start[key]) for key, end in latest.items())
        long_ago = self._let_through is None or now - self._let_through >= self._longest_delay
        if not long_ago and new < (self._least or 0):
            return True
        self._let_through = now
        return False


def proportional(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int
) -> Offsets:
    """At most so many records, from each partition by its share of what is there; none is starved."""
    sizes = {key: end - start[key] for key, end in latest.items() if end > start[key]}
    total = sum(sizes.values())
    ends = dict(latest)
    for key, size in sizes.items():
        share = most * (size / total)
        ends[key] = min(latest[key], start[key] + (ceil(share) if share < 1 else floor(share)))
    return ends
