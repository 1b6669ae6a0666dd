"""One segment of a log: whole batches in a store, with the two indexes that find them.

Appends and reads cost a call to the store each, however many batches they carry. It knows neither producers
nor configuration; `partition_log` decides what is appended where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from kclient.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from kclient.broker.log.index_files import IndexFiles
from kclient.broker.log.storage import FileStore, MemoryStore, Store, storage_errors
from kclient.broker.log.walk import Place, places
from kclient.records.layout import HEADER_SIZE, PREFIX, PREFIX_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kclient.records.layout import BatchHeader

# What a relative offset, and a position in a file, can be at most.
MOST_RELATIVE = (1 << 31) - 1
_MOST_HINTS = 64
_NEVER = 1 << 62


def segment_path(directory: Path, base_offset: int, kind: str = "log") -> Path:
    """Where Kafka keeps a file of the segment."""
    return directory / f"{base_offset:020}.{kind}"


class Wanted(NamedTuple):
    """What a reader asks for: see `PartitionLog.read`."""

    offset: int
    max_bytes: int
    at_least_one: bool
    up_to: int | None


class Segment:
    """Batches from `base_offset` on. `next_offset` is where the last of them ends."""

    def __init__(self, directory: Path | None, base_offset: int, created_ms: int, suffix: str = "") -> None:
        self.base_offset = base_offset
        self.next_offset: int = base_offset
        self.created_ms = created_ms
        self.directory = directory
        self.store: Store
        self.index_files: IndexFiles | None = None
        if directory is None:
            self.store = MemoryStore()
        else:
            self.store = FileStore(segment_path(directory, base_offset, "log" + suffix))
            self.index_files = IndexFiles(
                segment_path(directory, base_offset, "index"),
                segment_path(directory, base_offset, "timeindex"),
            )
        # The number of entries with which to write the indexes: never in memory, nor while compaction makes
        # a segment, whose indexes have the name of those of the one that it replaces.
        self._write_at = _NEVER
        self._sealed = False
        self.offsets: OffsetIndex = OffsetIndex()
        self.times: TimeIndex = TimeIndex()
        self.max_timestamp: int = -1
        self._max_timestamp_at = base_offset
        self._since_entry = 0
        self._rolling_timestamp: int | None = None
        # Where recent reads ended: the next one of the same consumer begins there.
        self._hints: dict[int, int] = {}

    @classmethod
    def create(cls, directory: Path | None, base_offset: int, created_ms: int) -> Self:
        """An empty segment that will be appended to."""
        segment = cls(directory, base_offset, created_ms)
        if segment.index_files is not None:
            segment.index_files.create()
            segment._write_at = segment.index_files.due()
        return segment

    def __repr__(self) -> str:
        return f"<Segment {self.base_offset}-{self.next_offset}, {self.size} bytes>"

    @property
    def name(self) -> str:
        """What people find it by."""
        if self.directory is None:
            return f"the segment from offset {self.base_offset}"
        return f"{self.directory.name}/{self.base_offset:020}.log"

    @property
    def size(self) -> int:
        return self.store.size

    @property
    def max_timestamp_at(self) -> int:
        """The last offset of the first batch that has `max_timestamp`."""
        return self._max_timestamp_at

    @property
    def rolling_timestamp(self) -> int:
        """The timestamp that rolling by time counts from: that of the first batch, -1 for none."""
        if self._rolling_timestamp is None:
            first = next(places(self.store, 0, window=HEADER_SIZE), None)
            if first is None:
                return -1
            self._rolling_timestamp = first.header.max_timestamp
        return self._rolling_timestamp

    # Writing

    def append(self, data: bytes, headers: Iterable[BatchHeader], interval: int) -> None:
        """Write batches that lie one after the other in `data`."""
        position = self.store.size
        self.store.append(data)
        for header in headers:
            size = PREFIX_SIZE + header.length
            self.note(Place(position, size, header), interval)
            position += size
        if len(self.offsets) >= self._write_at:
            self.write_indexes()

    def write_indexes(self) -> bool:
        """Write the entries of the indexes that wait for more; say whether there were any."""
        if self.index_files is None or not self.index_files.write(self.offsets, self.times):
            return False
        self._write_at, self._sealed = self.index_files.due(), False
        return True

    def note(self, place: Place, interval: int) -> None:
        """Count a batch that is in the store, and index it where `interval` bytes have passed."""
        last_offset = place.last_offset
        if place.header.max_timestamp > self.max_timestamp:
            self.max_timestamp = place.header.max_timestamp
            self._max_timestamp_at = last_offset
        if self._since_entry > interval:
            self.offsets.append(last_offset - self.base_offset, place.position)
            self._index_time()
            self._since_entry = 0
        self._since_entry += place.size
        self.next_offset = last_offset + 1

    def _index_time(self) -> None:
        self.times.maybe_append(self.max_timestamp, self._max_timestamp_at - self.base_offset)

    def truncate(self, offset: int) -> None:
        """Remove the batch with `offset` and all after it."""
        place = self.place_of(offset)
        if place is not None:
            self.store.truncate(place.position)
            self._rolling_timestamp = None
        self._hints.clear()
        self.offsets.truncate(offset - self.base_offset)
        self.times.truncate(offset - self.base_offset)
        self.settle()
        self._replace_indexes()

    def settle(self) -> bool:
        """Learn what the indexes do not say (the end, the latest timestamp) from the batches behind them.

        False if these do not fill the store to its end.
        """
        self.next_offset, self._since_entry = self.base_offset, 0
        self.max_timestamp = self.times.timestamps[-1] if self.times else -1
        self._max_timestamp_at = self.base_offset + (self.times.offsets[-1] if self.times else 0)
        start = self.offsets.positions[-1] if self.offsets else 0
        end = start
        for place in places(self.store, start):
            if place.header.max_timestamp > self.max_timestamp:
                self.max_timestamp = place.header.max_timestamp
                self._max_timestamp_at = place.last_offset
            self._since_entry += place.size
            self.next_offset, end = place.last_offset + 1, place.end
        return end == self.store.size

    # Reading

    def place_of(self, offset: int) -> Place | None:
        """The batch that holds `offset` or, where compaction took that, the next one in this segment."""
        if offset >= self.next_offset:
            return None
        hint = self._hints.get(offset)
        if hint is not None:
            return next(places(self.store, hint, window=HEADER_SIZE), None)
        start = self.offsets.position_before(offset - self.base_offset)
        for place in places(self.store, start, window=8192):
            if place.last_offset >= offset:
                return place
        return None

    def read(self, wanted: Wanted) -> bytes | memoryview:
        """What is wanted, as far as it is in here."""
        place = self.place_of(wanted.offset)
        stop = self._stop(wanted.up_to)
        if place is None or place.position >= stop:
            return b""
        start = place.position
        room = min(wanted.max_bytes, stop - start)
        if place.size > room:
            return self.store.read(start, place.size) if wanted.at_least_one and place.end <= stop else b""
        data = self.store.read(start, room)
        end = self._whole(data, start)
        return data if end == len(data) else memoryview(data)[:end]

    def _stop(self, up_to: int | None) -> int:
        """The position where the batch with `up_to` begins, or the end."""
        if up_to is None or up_to >= self.next_offset:
            return self.size
        place = self.place_of(up_to)
        return place.position if place is not None else 0

    def _whole(self, data: bytes | memoryview, start: int) -> int:
        """How much of `data`, which lies at `start` and begins with a whole batch, is whole batches."""
        room = len(data)
        at = max(self.offsets.position_at_or_before(start + room), start) - start
        while at + PREFIX_SIZE <= room:
            base, length = PREFIX.unpack_from(data, at)
            if at + PREFIX_SIZE + length > room:
                self._remember(base, start + at)
                break
            at += PREFIX_SIZE + length
        if start + at == self.size:
            self._remember(self.next_offset, start + at)
        return at

    def _remember(self, offset: int, position: int) -> None:
        if len(self._hints) >= _MOST_HINTS:
            self._hints.clear()
        self._hints[offset] = position

    def from_time(self, timestamp: int) -> Iterator[Place]:
        """Batches from one on before which no record is as late as `timestamp`."""
        offset = self.times.offset_before(timestamp)
        return places(self.store, self.offsets.position_before(offset))

    # Files

    def seal(self) -> None:
        """Put the indexes in place whole, with the latest time: nothing more will be appended for now."""
        self._index_time()
        self._replace_indexes()

    def _replace_indexes(self) -> None:
        if self.index_files is not None:
            self.index_files.replace(self.offsets, self.times)
            self._write_at, self._sealed = self.index_files.due(), True

    def load_indexes(self) -> bool:
        """Take the indexes from their files; False if they are missing or do not fit the segment."""
        assert self.index_files is not None
        kinds = self.index_files.paths
        if not all(path.exists() for path in kinds):
            return False
        with storage_errors("reading", kinds[0]):
            offsets, times = (path.read_bytes() for path in kinds)
        if len(offsets) % OFFSET_ENTRY or len(times) % TIME_ENTRY:
            return False
        self.offsets, self.times = OffsetIndex.decode(offsets), TimeIndex.decode(times)
        self.index_files.loaded(self.offsets, self.times)
        self._write_at = self.index_files.due()
        if not self.offsets:
            return True
        place = next(places(self.store, self.offsets.positions[-1], window=HEADER_SIZE), None)
        return place is not None and place.last_offset == self.base_offset + self.offsets.offsets[-1]

    def reset_indexes(self) -> None:
        """Forget everything but the store's bytes, before they are scanned again."""
        self.offsets, self.times = OffsetIndex(), TimeIndex()
        self._hints.clear()
        self.next_offset = self._max_timestamp_at = self.base_offset
        self.max_timestamp, self._since_entry = -1, 0

    def files(self) -> list[Path]:
        """What a start after a power cut reads: indexes only if they are sealed, as others are made anew."""
        if self.directory is None or self.index_files is None:
            return []
        log = segment_path(self.directory, self.base_offset)
        return [log, *self.index_files.paths] if self._sealed else [log]

    def close(self) -> None:
        self.store.close()

    def delete(self) -> None:
        """Remove the segment and its files."""
        self.store.delete()
        if self.directory is not None:
            with storage_errors("deleting segments in", self.directory):
                for kind in ("index", "timeindex", "txnindex", "snapshot"):
                    segment_path(self.directory, self.base_offset, kind).unlink(missing_ok=True)


def read_first(segments: Iterable[Segment], wanted: Wanted) -> bytes | memoryview:
    """What is wanted, from the first segment that has any of it: compaction may have left others without."""
    for segment in segments:
        if segment.size and wanted.offset < segment.next_offset:
            return segment.read(wanted)
    return b""
