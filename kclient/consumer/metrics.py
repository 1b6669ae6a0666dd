"""Counters of one consumer: cheap enough to be always on, as they count fetches and chunks, not records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """What a consumer has done since it was made, and what it holds now. Times are in seconds."""

    records_consumed: int
    bytes_fetched: int
    fetches: int
    fetch_seconds: float
    polls: int
    records_skipped: int
    bytes_buffered: int
    bytes_reserved: int
    lag: int | None
    """The records not handed out yet of all partitions of which both ends are known; None without any."""

    @property
    def fetch_latency(self) -> float:
        """The mean time from a fetch request to its answer, the broker's waiting included."""
        return self.fetch_seconds / self.fetches if self.fetches else 0.0


class Counters:
    """The figures behind `ConsumerMetrics`."""

    __slots__ = ("bytes", "fetch_seconds", "fetches", "polls", "records")

    def __init__(self) -> None:
        self.records: int = 0
        self.bytes: int = 0
        self.fetches: int = 0
        self.fetch_seconds: float = 0.0
        self.polls: int = 0

    def fetched(self, seconds: float) -> None:
        self.fetches += 1
        self.fetch_seconds += seconds

    def received(self, size: int) -> None:
        self.bytes += size
