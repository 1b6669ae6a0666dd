"""The files of a segment's two indexes: there from the start, longer with its entries, whole when sealed.

They hold a beginning of what memory holds, and memory counts. A call to the system for every entry would
cost an append a third of its time, so as many entries as are there already, at most 64, are written at once;
`Upkeep` has the rest written every few seconds. What the disk does not take is tried again. A file is never
longer than its entries, where Kafka maps one of `segment.index.bytes`: a mapped file ends the process when
the disk is full. Called by `Segment`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kclient.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from kclient.broker.log.storage import FileStore, storage_errors, write_file
from kclient.errors import KafkaStorageError

if TYPE_CHECKING:
    from pathlib import Path

    from kclient.broker.log.index import OffsetIndex, TimeIndex

logger: logging.Logger = logging.getLogger(__name__)

_MOST_WAITING = 64


class IndexFiles:
    """Both files of one segment."""

    __slots__ = ("_offsets", "_refused", "_times", "paths")

    def __init__(self, offsets: Path, times: Path) -> None:
        self.paths: tuple[Path, Path] = (offsets, times)
        self._offsets = FileStore(offsets, 0)
        self._times = FileStore(times, 0)
        self._refused = False

    def create(self) -> None:
        """Have both, empty, whatever an earlier segment of that name left."""
        for path in self.paths:
            with storage_errors("making", path):
                path.write_bytes(b"")

    def loaded(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Note that the files hold just these entries."""
        self._offsets.size = len(offsets) * OFFSET_ENTRY
        self._times.size = len(times) * TIME_ENTRY

    def due(self) -> int:
        """The number of entries with which to write the next time."""
        written = self._offsets.size // OFFSET_ENTRY
        return written + min(max(written, 1), _MOST_WAITING)

    def write(self, offsets: OffsetIndex, times: TimeIndex) -> bool:
        """Write all entries that wait; say whether there were any."""
        offsets_written = self._offsets.size // OFFSET_ENTRY
        times_written = self._times.size // TIME_ENTRY
        if offsets_written == len(offsets) and times_written == len(times):
            return False
        try:
            if offsets_written < len(offsets):
                self._offsets.append(offsets.encode(offsets_written))
            if times_written < len(times):
                self._times.append(times.encode(times_written))
        except KafkaStorageError as error:
            # The batches are written, and will be acknowledged: nobody must send them again for an index.
            if not self._refused:
                logger.warning("%s; these entries wait in memory", error)
            self._refused = True
        else:
            self._refused = False
        finally:
            # Written too seldom to hold descriptors that the logs of other partitions need.
            self._offsets.close()
            self._times.close()
        return True

    def replace(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Put both in place as they are in memory."""
        for path, data in zip(self.paths, (offsets.encode(), times.encode()), strict=True):
            write_file(path, data)
        self.loaded(offsets, times)
