"""From the files of a partition's directory to the segments of its log, whatever state a crash left them in.

Unless the log was closed in good order, every segment that reaches beyond the recovery point is checked batch
by batch; the log is cut after the last good one, as a power cut may have taken anything from there on. Older
segments were on the disk once, so they are trusted as far as their indexes fit them, and what is lost of one
leaves a gap: it costs no other segment. Called by `PartitionLog.open`.
"""

from __future__ import annotations

import logging
import shutil
from itertools import zip_longest
from typing import TYPE_CHECKING

from kclient.broker.log.checkpoints import PARTITION_METADATA
from kclient.broker.log.producers import Producers
from kclient.broker.log.segment import MOST_RELATIVE, Segment, segment_path
from kclient.broker.log.snapshots import latest_snapshot, remove_snapshots
from kclient.broker.log.storage import FileStore, storage_errors
from kclient.broker.log.walk import checked_places, places
from kclient.errors import ProtocolError
from kclient.records import parse_control
from kclient.records.layout import CONTROL

if TYPE_CHECKING:
    from pathlib import Path

    from kclient.broker.log.partition_log import PartitionLog
    from kclient.records.layout import BatchHeader

logger: logging.Logger = logging.getLogger(__name__)

SWAP = ".swap"
CLEANED = ".cleaned"
# More than five batches of the largest size that Kafka takes unless told otherwise.
_RECALLED = 8 << 20


def load_segments(log: PartitionLog, start_offset: int, clean: bool) -> list[Segment]:
    """All segments in the log's directory, at least one, with its producers and epochs."""
    directory = log.directory
    assert directory is not None
    with storage_errors("making", directory):
        directory.mkdir(parents=True, exist_ok=True)
    _finish_swaps(directory)
    now, interval = log.now_ms(), log.config.index_interval_bytes
    # Only compaction leaves gaps; elsewhere an offset that does not follow is damage that no checksum shows.
    gaps = log.config.compacted or log.first_dirty_offset > 0
    bases = segment_bases(directory)
    segments: list[Segment] = []
    for base, end in zip_longest(bases, bases[1:]):
        segment = Segment(directory, base, now)
        segments.append(segment)
        trusted = clean or (end is not None and end <= log.recovery_point)
        if trusted and segment.load_indexes() and segment.settle():
            _say_missing(segment, end, gaps)
            continue
        before = segment.size
        torn = scan(segment, interval, gaps=gaps)
        segment.seal()
        if torn and (trusted or end is not None):
            _say_cut(segment, before)
        if not trusted and (torn or not _is_followed(segment, end, gaps)):
            _drop(directory, segment, [later for later in bases if later > base])
            break
        _say_missing(segment, end, gaps)
    if segments and segments[-1].next_offset < start_offset:
        # What was deleted up to there is gone, and so is the rest that a crash took.
        _forget(directory, bases)
        segments.clear()
    if not segments:
        segments.append(Segment.create(directory, start_offset, now))
    log.segments = segments
    remove_snapshots(directory, above=segments[-1].next_offset, keep=set(bases))
    _replay(log)
    return segments


def segment_bases(directory: Path) -> list[int]:
    """The base offsets of all segments on disk."""
    return sorted(int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit())


def scan(segment: Segment, interval: int, *, gaps: bool) -> bool:
    """Index a segment anew from its batches; cut off what is no batch, and say whether there was any."""
    segment.reset_indexes()
    end = 0
    for place in checked_places(segment.store):
        offset = place.header.base_offset
        if offset < segment.base_offset or (offset != segment.next_offset and not gaps):
            break
        if place.last_offset - segment.base_offset > MOST_RELATIVE:
            break
        segment.note(place, interval)
        end = place.end
    torn = end < segment.size
    if torn:
        segment.store.truncate(end)
    return torn


def _is_followed(segment: Segment, end: int | None, gaps: bool) -> bool:
    return end is None or end == segment.next_offset or gaps


def _say_cut(segment: Segment, before: int) -> None:
    logger.warning(
        "%s is damaged: its last %d of %d bytes are no whole batches and were cut, it ends at offset %d now",
        segment.name,
        before - segment.size,
        before,
        segment.next_offset,
    )


def _say_missing(segment: Segment, end: int | None, gaps: bool) -> None:
    """Readers go on behind the gap, so nobody else would tell of it."""
    if end is not None and segment.next_offset < end and not gaps:
        logger.warning(
            "%s ends at offset %d and the next segment begins at %d: the records between them are missing. "
            "Restore the segments from a copy if you have one; readers pass over the gap",
            segment.name,
            segment.next_offset,
            end,
        )


def _drop(directory: Path, segment: Segment, bases: list[int]) -> None:
    """Remove what lies behind the first damage that a crash did."""
    if bases:
        logger.warning(
            "%s ends at offset %d: removing the %d later segments, as nothing behind the damage of a crash "
            "can be trusted",
            segment.name,
            segment.next_offset,
            len(bases),
        )
    _forget(directory, bases)


def _replay(log: PartitionLog) -> None:
    """Producers from the newest snapshot on; epochs too, where their checkpoint does not know them."""
    assert log.directory is not None
    start = log.segments[0].base_offset
    snapshot = latest_snapshot(log.directory, log.segments[-1].next_offset)
    if snapshot is not None:
        start, known = snapshot
        recent = _recent_producers(log, start)
        for producer in known:
            log.producers.restore(producer)
            log.producers.recall(recent, producer.producer_id)
    replay_producers(log, start)
    if log.epochs.latest < 0:
        start = log.segments[0].base_offset
    for segment in log.segments:
        if segment.next_offset > start:
            for place in places(segment.store, segment.offsets.position_before(start - segment.base_offset)):
                log.epochs.assign(place.header.leader_epoch, place.header.base_offset)


def _recent_producers(log: PartitionLog, end: int) -> Producers:
    """Producers as the last batches before `end` tell of them.

    A snapshot has of every producer the last batch only. But up to five may have been in flight when a broker
    ended, all of them written and none acknowledged, and each will be sent again.
    """
    recent = Producers()
    left = _RECALLED
    tail: list[tuple[Segment, int]] = []
    for segment in reversed(log.segments):
        if left > 0 and segment.base_offset < end:
            tail.append((segment, segment.offsets.position_at_or_before(max(segment.size - left, 0))))
            left -= segment.size
    for segment, position in reversed(tail):
        for place in places(segment.store, position):
            header = place.header
            if header.base_offset < end and header.producer_id >= 0:
                recent.update(header, None)
    return recent


def replay_producers(log: PartitionLog, start: int) -> None:
    """Learn of producers from the batches from offset `start` on."""
    for segment in log.segments:
        if segment.next_offset <= start:
            continue
        for place in places(segment.store, segment.offsets.position_before(start - segment.base_offset)):
            header = place.header
            if header.base_offset >= start and header.producer_id >= 0:
                log.producers.update(header, marker_epoch(segment, header))


def marker_epoch(segment: Segment, header: BatchHeader) -> int | None:
    """Which coordinator wrote the marker behind `header`; None for other batches."""
    if not header.attributes & CONTROL or not header.record_count:
        return None
    place = segment.place_of(header.base_offset)
    if place is None:  # an index that leads elsewhere
        return None
    try:
        record = place.load(segment.store).records("", 0)[0]
        return parse_control(record.key, record.value).coordinator_epoch
    except ProtocolError:
        return None


def _finish_swaps(directory: Path) -> None:
    """End what a crash interrupted: half-cleaned segments go, whole ones replace their origins."""
    with storage_errors("tidying", directory):
        for leftover in [
            *directory.glob("*.cleaned"),
            *directory.glob("*.deleted"),
            *directory.glob("*.tmp"),
        ]:
            leftover.unlink()
    for swap in sorted(directory.glob("*.log" + SWAP)):
        base = int(swap.name.partition(".")[0])
        last = base
        store = FileStore(swap)
        for place in places(store, 0):
            last = place.last_offset
        _forget(directory, [found for found in segment_bases(directory) if base <= found <= last])
        store.rename(segment_path(directory, base))


def _forget(directory: Path, bases: list[int]) -> None:
    with storage_errors("removing segments in", directory):
        for base in bases:
            for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
                segment_path(directory, base, kind).unlink(missing_ok=True)


def clean_up(directory: Path) -> None:
    """Remove a log's directory with all it holds.

    What says whose it is goes last, so that after a crash the rest is known for what it is.
    """
    if directory.is_symlink():
        _unlink(directory)
        return
    last = directory / PARTITION_METADATA
    with storage_errors("removing", directory):
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != last:
                path.unlink()
        last.unlink(missing_ok=True)
        directory.rmdir()


def _unlink(directory: Path) -> None:
    """Remove the link that somebody put in the place of a log's directory.

    Not what it leads to, as in Kafka: it is outside of the data directory, which alone is ours and locked.
    """
    with storage_errors("removing", directory):
        target = directory.readlink()
        directory.unlink()
    logger.warning(
        "%s was a link to %s, which is left: remove it by hand if nobody needs it", directory, target
    )
