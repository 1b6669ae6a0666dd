"""The small files around partition directories, in Kafka's formats.

One level up from the logs: offsets per partition (`log-start-offset-checkpoint` and its three sisters),
`meta.properties` and `.kafka_cleanshutdown`. In a partition's directory: `partition.metadata`. The server
reads and writes them; a log only its own lines about where it starts and how far it is clean.
"""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING

from kclient.broker.log.storage import read_table, read_text, storage_errors, write_file
from kclient.errors import KafkaStorageError
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOG_START = "log-start-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; none if there is no file."""
    return {TopicPartition(row[0], int(row[1])): int(row[2]) for row in read_table(path, "sii")}


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = False) -> None:
    """Replace a checkpoint file."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
    write_file(path, f"0\n{len(lines)}\n{''.join(lines)}".encode(), sync=sync)


def partition_of(directory: Path) -> TopicPartition:
    """The partition that a directory is named after.

    >>> from pathlib import Path
    >>> partition_of(Path("data/my-topic-3"))
    TopicPartition(topic='my-topic', partition=3)
    """
    topic, _, number = directory.name.rpartition("-")
    if not topic or not number.isdigit():
        raise KafkaStorageError(f"{directory} is not named as a partition is: topic-0")
    return TopicPartition(topic, int(number))


class PartitionLine:
    """One partition's line in a checkpoint that it shares with its neighbours; in memory there is none."""

    def __init__(self, directory: Path | None, name: str) -> None:
        self._path = None if directory is None else directory.parent / name
        self._partition = TopicPartition("", 0) if directory is None else partition_of(directory)

    def load(self) -> int:
        return 0 if self._path is None else read_offsets(self._path).get(self._partition, 0)

    def save(self, offset: int | None, *, sync: bool = False) -> None:
        """Change the line; None removes it."""
        if self._path is None:
            return
        offsets = read_offsets(self._path)
        if offsets.get(self._partition) == offset:
            return
        if offset is None:
            del offsets[self._partition]
        else:
            offsets[self._partition] = offset
        write_offsets(self._path, offsets, sync=sync)


def text_of(identity: uuid.UUID) -> str:
    """An id as Kafka writes it.

    >>> text_of(uuid.UUID(int=1))
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    return base64.urlsafe_b64encode(identity.bytes).rstrip(b"=").decode()


def id_from(text: str) -> uuid.UUID:
    """The id that `text_of` wrote; `ValueError` for anything else."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def write_partition_metadata(directory: Path, topic_id: uuid.UUID) -> None:
    """Say in a partition's directory which topic it belongs to."""
    with storage_errors("making", directory):
        directory.mkdir(parents=True, exist_ok=True)
    write_file(directory / PARTITION_METADATA, f"version: 0\ntopic_id: {text_of(topic_id)}".encode())


def read_partition_metadata(directory: Path) -> uuid.UUID | None:
    """The topic that a partition's directory belongs to, if it says."""
    path = directory / PARTITION_METADATA
    if not path.exists():
        return None
    lines = (read_text(path) or "").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return id_from(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise KafkaStorageError(f"{path} names no topic id: remove it or restore it") from error


def write_meta_properties(directory: Path, *, cluster_id: str, node_id: int, directory_id: uuid.UUID) -> None:
    """Say in a data directory which node of which cluster it belongs to."""
    lines = f"cluster.id={cluster_id}\ndirectory.id={text_of(directory_id)}\nnode.id={node_id}\nversion=1\n"
    write_file(directory / META_PROPERTIES, lines.encode())


def read_meta_properties(directory: Path) -> dict[str, str]:
    """What `meta.properties` says; nothing if it is not there."""
    path = directory / META_PROPERTIES
    if not path.exists():
        return {}
    text = read_text(path)
    if text is None:
        raise KafkaStorageError(f"{path} is not text: restore it")
    pairs = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def mark_clean_shutdown(directory: Path) -> None:
    """Note that every log below was closed in good order."""
    write_file(directory / CLEAN_SHUTDOWN, b"version: 0\nbrokerEpoch: -1")


def take_clean_shutdown(directory: Path) -> bool:
    """Whether the last end was in good order; asking makes it no longer so."""
    path = directory / CLEAN_SHUTDOWN
    found = path.exists()
    with storage_errors("removing", path):
        path.unlink(missing_ok=True)
    return found
