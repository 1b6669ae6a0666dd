"""The log of one partition: batches in, batches out, in segments on disk or in memory.

Synchronous: an append or a read is a few calls to the operating system, whatever the number of records. The
server calls it on the event loop, one call at a time. What may be appended is decided in `validate` and
`producers`; retention is in `retention`, compaction in `compaction`, opening in `recovery`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kclient.broker.log.checkpoints import CLEANER, LOG_START, PartitionLine
from kclient.broker.log.compaction import compact
from kclient.broker.log.config import LogConfig
from kclient.broker.log.epochs import LeaderEpochs
from kclient.broker.log.producers import ActiveProducer, Producers
from kclient.broker.log.recovery import clean_up, load_segments, marker_epoch, replay_producers
from kclient.broker.log.retention import deletable
from kclient.broker.log.rolling import must_roll
from kclient.broker.log.segment import Segment, Wanted, read_first
from kclient.broker.log.snapshots import remove_snapshots, write_snapshot
from kclient.broker.log.stamping import Appended, Stamps, Stored, stored_form
from kclient.broker.log.storage import sync_files
from kclient.broker.log.times import Stamped, first_at_or_after, first_latest
from kclient.broker.log.validate import Origin, check_payload, split
from kclient.errors import OffsetOutOfRangeError, RecordListTooLargeError

if TYPE_CHECKING:
    from pathlib import Path

    from kclient.broker.log.compaction import Compacted
    from kclient.clock import Clock

__all__ = ["Appended", "LogConfig", "Origin", "PartitionLog"]


class PartitionLog:
    """Use `open`. Offsets `start_offset` to `end_offset` (exclusive) can be read."""

    def __init__(self, directory: Path | None, config: LogConfig, clock: Clock) -> None:
        self.directory = directory
        self.config = config
        self.start_offset: int = 0
        # Where compaction goes on.
        self.first_dirty_offset: int = 0
        self.segments: list[Segment] = []
        # Everything before it is on the disk.
        self.recovery_point: int = 0
        # When the first record came that is not, in milliseconds.
        self.unsynced_since: int | None = None
        self.epochs: LeaderEpochs = LeaderEpochs(directory)
        self.producers: Producers = Producers()
        self._clock = clock
        self._deleted = False
        self._start_line = PartitionLine(directory, LOG_START)
        self._clean_line = PartitionLine(directory, CLEANER)
        self._bases: list[int] = []

    @classmethod
    def open(
        cls,
        directory: Path | None,
        config: LogConfig,
        clock: Clock,
        *,
        clean: bool = False,
        recovery_point: int = 0,
    ) -> PartitionLog:
        """The log in `directory` (named topic-partition), made if it is not there; None keeps it in memory.

        Unless `clean` says that it was closed in good order, it is checked from `recovery_point` on and what
        a crash left of a batch is cut off.
        """
        log = cls(directory, config, clock)
        log.recovery_point = recovery_point
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
        if must_roll(self.active, stored, config, now):
            self.roll()
        self.active.append(stored.data, headers, config.index_interval_bytes)
        for header in headers:
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.producers.update(header, marker_epoch(self.active, header))
        if self.unsynced_since is None:
            self.unsynced_since = now
        if self.end_offset - self.recovery_point >= config.flush_messages:
            self.flush()

    def roll(self) -> None:
        """Begin a new segment; nothing happens to a log whose last one is empty."""
        if not self.active.size and self.active.base_offset == self.end_offset:
            return
        self.active.seal()
        write_snapshot(self.directory, self.end_offset, self.producers)
        self._adopt([*self.segments, Segment.create(self.directory, self.end_offset, self.now_ms())])

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
        segments = self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]
        return read_first(segments, Wanted(offset, max_bytes, at_least_one, up_to))

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
        self._check_range(max(offset, self.start_offset))
        if offset > self.start_offset:
            self._advance_start(offset)
            self._start_line.save(offset, sync=self.config.syncs)
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
            self._start_line.save(self.start_offset, sync=self.config.syncs)
        self.first_dirty_offset = min(self.first_dirty_offset, self.end_offset)
        self.epochs.truncate_to(self.end_offset)
        self.recovery_point = min(self.recovery_point, self.end_offset)
        remove_snapshots(self.directory, above=self.end_offset)
        self.producers.clear()
        replay_producers(self, self.segments[0].base_offset)

    def compact(self, now_ms: int) -> Compacted | None:
        """Clean the log if its policy says so and it is dirty enough; None if there was nothing to do."""
        done = compact(self, now_ms) if self.config.compacted else None
        if done is not None:
            self._clean_line.save(self.first_dirty_offset)
        return done

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one segment in the place of neighbours whose batches it holds; their files are gone already."""
        at = self.segments.index(old[0])
        self._adopt([*self.segments[:at], new, *self.segments[at + len(old) :]])

    # The end

    def unsynced(self) -> list[Path]:
        """The files that a power cut may take something of; none in memory."""
        late = [segment for segment in self.segments if segment.next_offset > self.recovery_point]
        paths = [path for segment in late for path in segment.files()]
        return paths if self.epochs.path is None else [*paths, self.epochs.path]

    def synced(self, offset: int) -> None:
        """Note that everything before `offset` is on the disk."""
        self.recovery_point = offset
        self.unsynced_since = None if offset >= self.end_offset else self.now_ms()

    def flush(self) -> None:
        """Return when everything appended would survive a power cut."""
        if self.directory is not None:
            sync_files(self.unsynced(), self.directory)
        self.synced(self.end_offset)

    def close(self) -> None:
        """Write what only memory holds and give files back; `open` with `clean` needs no check then."""
        self.active.seal()
        write_snapshot(self.directory, self.end_offset, self.producers)
        if self.unsynced_since is not None:
            self.flush()
        for segment in self.segments:
            segment.close()

    def write_indexes(self) -> bool:
        """Have the active segment's indexes on disk up to date; say whether there was anything to write."""
        return not self._deleted and self.active.write_indexes()

    def delete(self) -> None:
        """Remove the log and its directory."""
        self._deleted = True
        for segment in self.segments:
            segment.close()
        if self.directory is not None:
            clean_up(self.directory)
            self._start_line.save(None)
            self._clean_line.save(None)

    def _adopt(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def _load(self, clean: bool) -> None:
        if self.directory is None:
            self._adopt([Segment.create(None, 0, self.now_ms())])
            return
        start, self.first_dirty_offset = self._start_line.load(), self._clean_line.load()
        self._adopt(load_segments(self, start, clean))
        self.start_offset = max(start, self.segments[0].base_offset)
        self.epochs.truncate_to(self.end_offset + 1)
        self.recovery_point = min(self.recovery_point, self.end_offset)
        if self.recovery_point < self.end_offset:
            self.unsynced_since = self.now_ms()
