"""What a broker keeps on disk, one level above its logs: which topics there are and how its last run ended.

In Kafka's own files as far as Kafka has them: recovery points, high watermarks, the mark of an orderly end,
`meta.properties`, and in every partition's directory the id of its topic. `Memory` stands in for it where no
directory is given. `TopicCatalogue` opens its logs through one of the two.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from kclient.broker.directory_lock import DirectoryLock
from kclient.broker.log.checkpoints import (
    CLEANER,
    LOG_START,
    RECOVERY_POINT,
    REPLICATION,
    PartitionLine,
    mark_clean_shutdown,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    take_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from kclient.broker.log.config import LogConfig
from kclient.broker.log.partition_log import PartitionLog
from kclient.broker.log.recovery import clean_up
from kclient.broker.log.storage import storage_errors
from kclient.broker.strays import clear_the_way, directory_id, refuse_foreign, remove_deleted, sort_out
from kclient.broker.topic_file import SavedTopic
from kclient.broker.topic_journal import TopicJournal
from kclient.clock import Clock
from kclient.errors import DataDirectoryError
from kclient.types import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

Logs = Mapping[TopicPartition, PartitionLog]


class Storage(Protocol):
    """Where logs are, and what is remembered of them from run to run."""

    def claim(self) -> None: ...

    def release(self) -> None: ...

    def load(self) -> list[SavedTopic]: ...

    def identify(self, cluster_id: str) -> str: ...

    def save(self, topics: Iterable[SavedTopic]) -> None: ...

    def note(self, topic: SavedTopic) -> None: ...

    def forget(self, topic: SavedTopic) -> None: ...

    def open_log(
        self, partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig, clock: Clock
    ) -> PartitionLog: ...

    def checkpoint_marks(self, logs: Logs) -> None: ...

    def checkpoint_recovery(self, logs: Logs) -> None: ...

    def close(self, logs: Logs) -> None: ...


class Memory:
    """Remembers nothing."""

    def claim(self) -> None:
        """Nobody else can want it."""

    def release(self) -> None:
        """Nobody else can want it."""

    def load(self) -> list[SavedTopic]:
        return []

    def identify(self, cluster_id: str) -> str:
        return cluster_id

    def save(self, topics: Iterable[SavedTopic]) -> None:
        """There is nowhere to save to."""

    def note(self, topic: SavedTopic) -> None:
        """There is nowhere to save to."""

    def forget(self, topic: SavedTopic) -> None:
        """There is nowhere to save to."""

    def open_log(
        self,
        partition: TopicPartition,  # noqa: ARG002
        topic_id: uuid.UUID,  # noqa: ARG002
        config: LogConfig,
        clock: Clock,
    ) -> PartitionLog:
        return PartitionLog.open(None, config, clock)

    def checkpoint_marks(self, logs: Logs) -> None:
        """There is nowhere to save to."""

    def checkpoint_recovery(self, logs: Logs) -> None:
        """There is nowhere to save to."""

    def close(self, logs: Logs) -> None:
        """Gone is gone."""


class DataDirectory:
    """A directory with partitions below it. `sync` says whether its own files must survive a power cut."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self._sync = sync
        self._topics = TopicJournal(path, sync=sync)
        self._lock: DirectoryLock | None = None
        self._clean = False
        self._deleted: set[uuid.UUID] = set()
        self._recovery: dict[TopicPartition, int] = {}
        self._marks: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return f"<DataDirectory {self.path}, {'closed in good order' if self._clean else 'to be checked'}>"

    def claim(self) -> None:
        """Make the directory ours alone; `DataDirectoryError` says why not, and nothing was changed then."""
        with storage_errors("opening", self.path):
            refuse_foreign(self.path)
            _make(self.path)
        self._lock = DirectoryLock.take(self.path)

    def release(self) -> None:
        """Let another broker have the directory."""
        if self._lock is not None:
            self._lock.release()

    def load(self) -> list[SavedTopic]:
        """The topics of the last run. From here on this run counts as one that crashed, until `close`."""
        topics = self._topics.load()
        self._recovery = read_offsets(self.path / RECOVERY_POINT)
        self._marks = read_offsets(self.path / REPLICATION)
        for topic in topics:
            if topic.deleted:
                remove_deleted(self.path, topic)
        alive = [topic for topic in topics if not topic.deleted]
        sort_out(self.path, alive)
        # Last: a start that fails before this has changed no log, and leaves the mark.
        self._clean = take_clean_shutdown(self.path)
        return alive

    def identify(self, cluster_id: str) -> str:
        """The id of the cluster whose data this is: the one it was given first."""
        known = read_meta_properties(self.path).get("cluster.id")
        if known:
            return known
        write_meta_properties(
            self.path, cluster_id=cluster_id, node_id=1, directory_id=directory_id(cluster_id)
        )
        return cluster_id

    def save(self, topics: Iterable[SavedTopic]) -> None:
        """Keep the whole list as it is now."""
        kept = list(topics)
        self._topics.replace(kept)
        self._deleted = {topic.topic_id for topic in kept if topic.deleted}

    def note(self, topic: SavedTopic) -> None:
        """Keep one topic as it is now, new or changed."""
        self._topics.note(topic)
        if topic.deleted:
            self._deleted.add(topic.topic_id)

    def forget(self, topic: SavedTopic) -> None:
        """Take from the list what nothing is left of."""
        self._topics.forget(topic.topic_id)
        self._deleted.discard(topic.topic_id)

    def open_log(
        self, partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig, clock: Clock
    ) -> PartitionLog:
        """The log of a partition, checked if need be; a new one where its directory is missing."""
        directory = self.path / f"{partition.topic}-{partition.partition}"
        if read_partition_metadata(directory) != topic_id:
            self._begin(directory, partition, topic_id)
        opened = PartitionLog.open(
            directory, config, clock, clean=self._clean, recovery_point=self._recovery.get(partition, 0)
        )
        known = self._marks.get(partition, 0)
        if opened.end_offset < known:
            log.warning(
                "%s ends at offset %d but had been acknowledged up to %d: the disk lost what was not synced",
                directory.name,
                opened.end_offset,
                known,
            )
        return opened

    def checkpoint_marks(self, logs: Logs) -> None:
        """Note how far records are visible: to the end, as all replicas share a log."""
        marks = {partition: opened.end_offset for partition, opened in logs.items()}
        if marks != self._marks:
            write_offsets(self.path / REPLICATION, marks, sync=self._sync)
            self._marks = marks

    def checkpoint_recovery(self, logs: Logs) -> None:
        """Note from where logs are to be checked after a crash."""
        points = {partition: opened.recovery_point for partition, opened in logs.items()}
        if points != self._recovery:
            write_offsets(self.path / RECOVERY_POINT, points, sync=self._sync)
            self._recovery = points

    def close(self, logs: Logs) -> None:
        """Note that all logs were closed in good order."""
        self.checkpoint_marks(logs)
        self.checkpoint_recovery(logs)
        self._topics.close()
        mark_clean_shutdown(self.path)

    def _begin(self, directory: Path, partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Forget what an earlier topic of that name left, also in the files that partitions share."""
        if read_partition_metadata(directory) in self._deleted:
            clean_up(directory)
        clear_the_way(directory)
        for name in (LOG_START, CLEANER):
            PartitionLine(directory, name).save(None)
        self._recovery.pop(partition, None)
        self._marks.pop(partition, None)
        write_partition_metadata(directory, topic_id)


def _make(directory: Path) -> None:
    """Have a directory to write in, or raise `DataDirectoryError`, which says what to do."""
    if directory.is_symlink() and not directory.exists():
        raise DataDirectoryError(
            f"{directory} is a link to {directory.readlink()}, where nothing is: make that directory (is its "
            "disk mounted?), or choose another one"
        )
    with storage_errors("making", directory):
        directory.mkdir(parents=True, exist_ok=True)
    # Rights are those of the effective user, which `access` does not look at unless told.
    effective = os.access in os.supports_effective_ids
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=effective):
        raise DataDirectoryError(
            f"{directory} cannot be written in by this user: give it the right to (or mount the disk for "
            "writing), or choose another directory"
        )
