"""What a producer has done so far, counted per batch so that it costs nothing per record."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_WINDOW = 30


@dataclass(frozen=True, slots=True)
class ProducerMetrics:
    """Totals since the start; rates per second over the last half minute; latencies in seconds.

    `queue_latency` is the time from the first record of a batch to each sending, `request_latency` from there
    to the answer; both are averages over the last half minute, None where nothing was sent. `bytes` are those
    of keys, values and headers before compression; `compression_ratio` is what batches take of what they
    would take without it, headers of batches and records included.
    """

    records: int
    bytes: int
    batches: int
    requests: int
    retries: int
    errors: int
    record_rate: float
    byte_rate: float
    batch_rate: float
    retry_rate: float
    error_rate: float
    queue_latency: float | None
    request_latency: float | None
    records_per_batch: float | None
    compression_ratio: float | None
    in_flight: int
    buffer_used: int
    buffer_total: int


class Meter:
    """A total, and how much of it came in the last half minute, by seconds."""

    __slots__ = ("_seconds", "total")

    def __init__(self) -> None:
        self.total: float = 0
        self._seconds: deque[tuple[int, float]] = deque(maxlen=_WINDOW + 1)

    def add(self, now: float, amount: float) -> None:
        self.total += amount
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1] = (second, self._seconds[-1][1] + amount)
        else:
            self._seconds.append((second, amount))

    def recent(self, now: float) -> float:
        """What was added in the last half minute."""
        since = now - _WINDOW
        return sum(amount for second, amount in self._seconds if second > since)


class Counters:
    """The counters behind `ProducerMetrics`."""

    def __init__(self, now: float) -> None:
        self._began = now
        self.records: Meter = Meter()
        self.bytes: Meter = Meter()
        self.plain_bytes: Meter = Meter()
        self.encoded_bytes: Meter = Meter()
        self.batches: Meter = Meter()
        self.requests: Meter = Meter()
        self.sent: Meter = Meter()
        self.retries: Meter = Meter()
        self.errors: Meter = Meter()
        self.queued: Meter = Meter()
        self.answered: Meter = Meter()

    def snapshot(self, now: float, in_flight: int, buffer_used: int, buffer_total: int) -> ProducerMetrics:
        span = max(1.0, min(float(_WINDOW), now - self._began))
        batches = self.batches.recent(now)

        def rate(meter: Meter) -> float:
            return meter.recent(now) / span

        def average(meter: Meter, over: float) -> float | None:
            return meter.recent(now) / over if over else None

        return ProducerMetrics(
            records=int(self.records.total),
            bytes=int(self.bytes.total),
            batches=int(self.batches.total),
            requests=int(self.requests.total),
            retries=int(self.retries.total),
            errors=int(self.errors.total),
            record_rate=rate(self.records),
            byte_rate=rate(self.bytes),
            batch_rate=rate(self.batches),
            retry_rate=rate(self.retries),
            error_rate=rate(self.errors),
            queue_latency=average(self.queued, self.sent.recent(now)),
            request_latency=average(self.answered, batches),
            records_per_batch=average(self.records, batches),
            compression_ratio=average(self.encoded_bytes, self.plain_bytes.recent(now)),
            in_flight=in_flight,
            buffer_used=buffer_used,
            buffer_total=buffer_total,
        )
