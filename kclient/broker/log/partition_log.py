"""The log of one partition: batches in, batches out, in segments on disk or in memory.

Synchronous: an append or a read is a few calls to the operating system, whatever the number of records. The
server calls it on the event loop, one call at a time. What may be appended is decided in `validate` and
`producers`; retention is in `retention`, compaction in `compaction`, opening in `recovery`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kclient.broker.log.checkpoints import LogStartOffsets
from kclient.broker.log.compaction import compact
from kclient.broker.log.config import LogConfig
from kclient.broker.log.epochs import LeaderEpochs
from kclient.broker.log.producers import ActiveProducer, Producers
from kclient.broker.log.recovery import clean_up, coordinator_epoch, load_segments, replay_producers
from kclient.broker.log.retention import deletable
from kclient.broker.log.segment import Segment
from kclient.broker.log.snapshots import remove_snapshots, write_snapshot
from kclient.broker.log.stamping import Stamps, Stored, stored_form
from kclient.broker.log.storage import storage_errors
from kclient.broker.log.times import Stamped, first_at_or_after, first_latest
from kclient.broker.log.validate import Origin, check_payload, split
from kclient.errors import OffsetOutOfRangeError, RecordListTooLargeError
from kclient.records.layout import CONTROL

if TYPE_CHECKING:
    from pathlib import Path

    from kclient.broker.log.compaction import Compacted
    from kclient.clock import Clock
    from kclient.records.layout import BatchHeader

__all__ = ["Appended", "LogConfig", "Origin", "PartitionLog"]


class Appended(NamedTuple):
    """Where a payload went. For a duplicate, where it went the first time (with the timestamp of then)."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    duplicate: bool


class PartitionLog:
    """Use `open`. Offsets `start_offset` to `end_offset` (exclusive) can be read."""

    def __init__(self, directory: Path | None, config: LogConfig, clock: Clock) -> None:
        self.directory = directory
        self.config = config
        self.start_offset = 0
        # Where compaction goes on; the server keeps it in `cleaner-offset-checkpoint`.
        self.first_dirty_offset = 0
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs(directory)
        self.producers = Producers()
        self._clock = clock
        self._bases: list[int] = []
        self._unflushed = 0

    @classmethod
    def open(
        cls, directory: Path | None, config: LogConfig, clock: Clock, *, clean: bool = False
    ) -> PartitionLog:
        """The log in `directory` (named topic-partition), made if it is not there; None keeps it in memory.

        Unless `clean` says that it was closed in good order, its end is checked and what a crash left of a
        batch is cut off.
        """
        log = cls(directory, config, clock)
        log._load(clean)
        return log

    def __repr__(self) -> str:
        where = self.directory.name if self.directory else "in memory"
        return f"<PartitionLog {where}: {self.start_offset}-{self.end_offset}, {len(self.segments)} segments>"

    @property
    def end_offset(self) -> int:
        return self.active.next_offset

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def max_timestamp(self) -> int:
        """The latest timestamp of all records, -1 without any."""
        return max(segment.max_timestamp for segment in self.segments)

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def last_stable_offset(self) -> int:
        """Up to where all transactions have ended."""
        first_open = self.producers.first_open_transaction()
        return self.end_offset if first_open is None else first_open

    def now_ms(self) -> int:
        return int(self._clock.wall() * 1000)

    # Writing

    def append(
        self, data: bytes | memoryview, *, leader_epoch: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """Give one produce payload its offsets and write it, or raise the error that Kafka answers with."""
        config, now = self.config, self.now_ms()
        views = split(data)
        headers = check_payload(views, config, now, origin)
        if origin is Origin.CLIENT and headers[0].producer_id >= 0:
            written = self.producers.duplicate_of(headers[0])
            if written is not None:
                first, last = written.first_offset, written.last_offset
                return Appended(first, last, written.timestamp, self.start_offset, True)
        base_offset = self.end_offset
        stored = stored_form(zip(views, headers, strict=True), Stamps(config, leader_epoch, now), base_offset)
        self._write(stored, now, origin)
        append_time = now if config.stamps else -1
        return Appended(base_offset, stored.next_offset - 1, append_time, self.start_offset, False)

    def _write(self, stored: Stored, now: int, origin: Origin) -> None:
        config, size, headers = self.config, len(stored.data), stored.headers
        if size > config.segment_bytes:
            raise RecordListTooLargeError(
                f"Message batch size is {size} bytes, which exceeds the maximum configured segment size of "
                f"{config.segment_bytes}."
            )
        for header in headers:
            if header.producer_id >= 0:
                self.producers.check(header, sequences=origin is Origin.CLIENT)
        latest = max(header.max_timestamp for header in headers)
        if self._must_roll(size, stored.next_offset - 1, latest, now):
            self.roll()
        self.active.append(stored.data, headers, config.index_interval_bytes)
        for header in headers:
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.producers.update(header, self._coordinator_epoch(header))
            self._unflushed += header.record_count
        if config.flush == "always" or self._unflushed >= config.flush_messages:
            self.flush()

    def _coordinator_epoch(self, header: BatchHeader) -> int | None:
        if not header.attributes & CONTROL:
            return None
        place = self.active.place_of(header.base_offset)
        return None if place is None else coordinator_epoch(place, self.active.store)

    def _must_roll(self, size: int, last_offset: int, latest: int, now: int) -> bool:
        active, config = self.active, self.config
        if not active.fits(size, last_offset, config.segment_bytes, config.segment_index_bytes):
            return True
        if not active.size:
            return False
        first = active.rolling_timestamp
        waited = latest - first if first >= 0 and latest >= 0 else now - active.created_ms
        return waited > config.segment_ms

    def roll(self) -> None:
        """Begin a new segment; nothing happens to a log whose last one is empty."""
        if not self.active.size and self.active.base_offset == self.end_offset:
            return
        self.active.seal()
        write_snapshot(self.directory, self.end_offset, self.producers)
        self._adopt([*self.segments, Segment(self.directory, self.end_offset, self.now_ms())])

    def begin_epoch(self, leader_epoch: int) -> None:
        """Note that a leader of this epoch writes from here on."""
        self.epochs.assign(leader_epoch, self.end_offset)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, up_to: int | None = None
    ) -> bytes | memoryview:
        """Whole batches as stored, from the one that contains `offset`; none at the end of the log.

        At most `max_bytes`, but the first batch even if it is larger, when `at_least_one`. Batches that reach
        to `up_to` (the high watermark, the last stable offset) or beyond are left out.
        """
        self._check_range(offset)
        for segment in self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]:
            if not segment.size or offset >= segment.next_offset:
                continue
            limit = None
            if up_to is not None and up_to < segment.next_offset:
                place = segment.place_of(up_to)
                limit = place.position if place is not None else 0
            return segment.read(offset, max_bytes, at_least_one=at_least_one, limit=limit)
        return b""

    def _check_range(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"Received request for offset {offset}, but we only have log segments from offset "
                f"{self.start_offset} to {self.end_offset}."
            )

    def offset_at(self, timestamp_ms: int) -> Stamped | None:
        """Offset, timestamp and leader epoch of the first record that is as late as `timestamp_ms`."""
        return first_at_or_after(self.segments, timestamp_ms, self.start_offset)

    def latest_timestamp_offset(self) -> Stamped | None:
        """Offset, timestamp and leader epoch of the first record with the latest timestamp of all."""
        return first_latest(self.segments)

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one and the offset where it ended; (-1, -1) if unknown."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    def active_producers(self) -> list[ActiveProducer]:
        return self.producers.describe()

    # Removing

    def delete_before(self, offset: int) -> int:
        """Make `offset` the first that can be read; returns the first that can."""
        self._check_range(offset)
        if offset > self.start_offset:
            self._advance_start(offset)
            self._save_start()
            self._remove(deletable(self, self.now_ms(), by_policy=False))
        return self.start_offset

    def enforce_retention(self, now_ms: int) -> int:
        """Remove what the topic's limits of time and size do not cover; returns how many segments went."""
        self.producers.expire(now_ms - self.config.producer_expiration_ms)
        return self._remove(deletable(self, now_ms, by_policy=self.config.deletes))

    def _remove(self, segments: list[Segment]) -> int:
        if segments and segments[-1] is self.active:
            self.roll()
        if segments:
            self._adopt(self.segments[len(segments) :])
            self._advance_start(self.segments[0].base_offset)
            for segment in segments:
                segment.delete()
        return len(segments)

    def _save_start(self) -> None:
        if self.directory is not None:
            sync = self.config.flush == "always"
            LogStartOffsets(self.directory).save(self.start_offset, sync=sync)

    def _advance_start(self, offset: int) -> None:
        self.start_offset = max(self.start_offset, offset)
        self.epochs.advance_to(self.start_offset)

    def truncate(self, offset: int) -> None:
        """Remove everything from `offset` on, as a replica does that had more than its leader."""
        if offset >= self.end_offset:
            return
        keep = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self.segments[keep + 1 :]:
            segment.delete()
        self._adopt(self.segments[: keep + 1])
        self.active.truncate(offset)
        if self.start_offset > self.end_offset:
            self.start_offset = self.end_offset
            self._save_start()
        self.first_dirty_offset = min(self.first_dirty_offset, self.end_offset)
        self.epochs.truncate_to(self.end_offset)
        remove_snapshots(self.directory, above=self.end_offset)
        self.producers.clear()
        replay_producers(self, self.segments[0].base_offset)

    def compact(self, now_ms: int) -> Compacted | None:
        """Clean the log if its policy says so and it is dirty enough; None if there was nothing to do."""
        return compact(self, now_ms) if self.config.compacted else None

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one segment in the place of neighbours whose batches it holds; their files are gone already."""
        at = self.segments.index(old[0])
        self._adopt([*self.segments[:at], new, *self.segments[at + len(old) :]])

    # The end

    def flush(self) -> None:
        """Return when everything appended would survive a power cut."""
        self.active.store.flush()
        self._unflushed = 0

    def close(self) -> None:
        """Write what only memory holds and give files back; `open` with `clean` needs no check then."""
        self.active.seal()
        write_snapshot(self.directory, self.end_offset, self.producers)
        if self.config.flush == "always":
            self.flush()
        for segment in self.segments:
            segment.close()

    def delete(self) -> None:
        """Remove the log and its directory."""
        for segment in self.segments:
            segment.close()
        if self.directory is not None:
            clean_up(self.directory)
            LogStartOffsets(self.directory).save(None)

    def _adopt(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def _load(self, clean: bool) -> None:
        if self.directory is None:
            self._adopt([Segment(None, 0, self.now_ms())])
            return
        with storage_errors("making", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        start = LogStartOffsets(self.directory).load()
        self._adopt(load_segments(self, start, clean))
        self.start_offset = max(start, self.segments[0].base_offset)
        self.epochs.truncate_to(self.end_offset + 1)
