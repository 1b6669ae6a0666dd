"""The list of topics on disk, kept up to date by appending: `kclient-topics.json` and the changes since.

The list itself (`topic_file`) is only written as a whole when a broker starts and stops and when many changes
have come, as that takes longer the more topics there are. In between every change is a line in
`kclient-topics.journal`: a checksum, and a topic as it is now, or the id of one that is gone. The first line
says which list the journal continues, so one that a crash left behind beside a newer list counts for nothing.
`DataDirectory` calls it.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

from kclient.broker.log.storage import FileStore, storage_errors, sync_files
from kclient.broker.topic_file import NAME, SavedTopic, read_topics, row_of, topic_of, write_topics
from kclient.errors import KafkaStorageError

JOURNAL = "kclient-topics.journal"
# So many changes, and as many again as there are topics twice over, are worth a new list.
_LEAST_CHANGES = 1000

log: logging.Logger = logging.getLogger(__name__)


class TopicJournal:
    """All topics of one directory. `sync` says whether they must survive a power cut at once."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self._directory = directory
        self._path = directory / JOURNAL
        self._sync = sync
        self._topics: dict[uuid.UUID, SavedTopic] = {}
        self._store: FileStore | None = None
        self._changes = 0

    def __repr__(self) -> str:
        return f"<TopicJournal of {len(self._topics)} topics, {self._changes} changes in the journal>"

    def load(self) -> list[SavedTopic]:
        """The topics of an earlier run; none if there was none."""
        self._topics = {topic.topic_id: topic for topic in read_topics(self._directory)}
        for change in self._read_changes():
            self._apply(change)
        return list(self._topics.values())

    def replace(self, topics: Iterable[SavedTopic]) -> None:
        """Write the whole list anew; the journal ends with that."""
        self._topics = {topic.topic_id: topic for topic in topics}
        # The journal must not be gone for good before the list that makes it superfluous is there for good.
        sync = self._sync or self._path.exists()
        write_topics(self._directory, self._topics.values(), sync=sync)
        self._end_journal()

    def close(self) -> None:
        """Leave a list without a journal, as earlier versions read it."""
        if self._store is not None:
            self.replace(list(self._topics.values()))

    def note(self, topic: SavedTopic) -> None:
        """A topic is new, or other than it was."""
        self._append(row_of(topic))
        self._topics[topic.topic_id] = topic

    def forget(self, topic_id: uuid.UUID) -> None:
        """Nothing is left of a topic."""
        self._append({"gone": str(topic_id)})
        self._topics.pop(topic_id, None)

    def _append(self, change: dict[str, Any]) -> None:
        if self._changes > _LEAST_CHANGES + 2 * len(self._topics):
            self.replace(list(self._topics.values()))
        lines = _line(change)
        if self._store is None:
            self._store = FileStore(self._path)
            self._store.truncate(0)
        if not self._store.size:
            lines = _line({"continues": self._checksum()}) + lines
        self._store.append(lines)
        self._changes += 1
        if self._sync:
            sync_files([self._path], self._directory)

    def _checksum(self) -> str:
        """What tells the list that is there from every other."""
        path = self._directory / NAME
        if not path.exists():
            return ""
        with storage_errors("reading", path):
            return f"{crc32(path.read_bytes()):08x}"

    def _end_journal(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store, self._changes = None, 0
        with storage_errors("removing", self._path):
            self._path.unlink(missing_ok=True)

    def _read_changes(self) -> list[dict[str, Any]]:
        """The changes that continue the list, without the one that a kill broke off at the end."""
        if not self._path.exists():
            return []
        with storage_errors("reading", self._path):
            lines = self._path.read_bytes().split(b"\n")
        found = [_parsed(line) for line in lines]
        while found and found[-1] is None:
            found.pop()
        if not found:
            return []
        whole = [change for change in found if change is not None]
        if len(whole) < len(found):
            raise self._damaged()
        if whole[0].get("continues") != self._checksum():
            log.warning("%s does not continue the %s beside it, and is not used", self._path, NAME)
            return []
        return whole[1:]

    def _apply(self, change: dict[str, Any]) -> None:
        try:
            if "gone" in change:
                self._topics.pop(uuid.UUID(change["gone"]), None)
            else:
                topic = topic_of(change)
                self._topics[topic.topic_id] = topic
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged() from error

    def _damaged(self) -> KafkaStorageError:
        return KafkaStorageError(f"{self._path} does not hold changes of topics: restore it with {NAME}")


def _line(change: dict[str, Any]) -> bytes:
    data = json.dumps(change, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32(data), data)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The change in a line; None where it is not whole."""
    checksum, _, data = line.partition(b" ")
    if checksum != b"%08x" % crc32(data) or not data:
        return None
    change = json.loads(data)
    return change if isinstance(change, dict) else None
