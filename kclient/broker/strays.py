"""Whose the folders in a data directory are: ours, another broker's, or of topics that nobody lists.

`refuse_foreign` looks before anything is changed, so that a Kafka broker's directory stays as it is.
Partitions that the list of topics does not know are renamed as Kafka does it, `orders-0.<hex>-stray`.
Only what the list says was deleted is removed. `DataDirectory` calls all this.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable
from pathlib import Path

from kclient.broker.log.checkpoints import (
    META_PROPERTIES,
    PARTITION_METADATA,
    read_meta_properties,
    read_partition_metadata,
    text_of,
    write_partition_metadata,
)
from kclient.broker.log.recovery import clean_up
from kclient.broker.log.storage import storage_errors
from kclient.broker.topic_file import NAME as LIST
from kclient.broker.topic_file import SavedTopic
from kclient.errors import DataDirectoryError, KafkaStorageError

log: logging.Logger = logging.getLogger(__name__)

_PARTITION = re.compile(r".+-\d+")
_SEGMENT = re.compile(r"\d{20}\.(log|index|timeindex|snapshot)")
_METADATA_LOG = "__cluster_metadata-0"
_LONGEST_NAME = 255


def refuse_foreign(directory: Path) -> None:
    """Raise `DataDirectoryError`, which says what it is, unless a directory is ours or holds no partition."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise DataDirectoryError(f"{directory} is not a directory: choose another path")
    with storage_errors("reading", directory):
        names = {path.name for path in directory.iterdir()}
        partitions = sorted(path.name for path in _partitions(directory))
    if LIST in names and _METADATA_LOG not in names:
        return
    ours = META_PROPERTIES not in names or _is_ours(read_meta_properties(directory))
    if _METADATA_LOG in names or "bootstrap.checkpoint" in names or not ours:
        what = f"is the log directory of a Kafka broker ({_described(directory, partitions)})"
        raise DataDirectoryError(
            f"{directory} {what}, whose topics kclient cannot know: nothing was changed. Give the embedded "
            "broker a directory of its own"
        )
    if partitions:
        raise DataDirectoryError(
            f"{directory} holds {_counted(partitions)}, but {LIST}, which says what they are, is missing: "
            "nothing was changed. Restore that file, or choose another directory"
        )


def directory_id(cluster_id: str) -> uuid.UUID:
    """What we write as `directory.id`; Kafka writes a random one, which is how the two are told apart."""
    return uuid.uuid5(uuid.NAMESPACE_OID, cluster_id)


def _is_ours(properties: dict[str, str]) -> bool:
    return properties.get("directory.id") == text_of(directory_id(properties.get("cluster.id", "")))


def _described(directory: Path, partitions: list[str]) -> str:
    properties = read_meta_properties(directory)
    known = [
        f"{name} {properties[name]}" for name in ("cluster.id", "node.id", "broker.id") if name in properties
    ]
    return ", ".join([*known, _counted(partitions)])


def _counted(partitions: list[str]) -> str:
    if not partitions:
        return "no partitions"
    shown = ", ".join(partitions[:3]) + (", …" if len(partitions) > 3 else "")
    return f"{len(partitions)} {'partition' if len(partitions) == 1 else 'partitions'}: {shown}"


def _partitions(directory: Path) -> list[Path]:
    """The folders that hold a partition, by their names and by what is in them."""
    return [
        path
        for path in directory.iterdir()
        if _PARTITION.fullmatch(path.name) and path.is_dir() and _holds_partition(path)
    ]


def _holds_partition(path: Path) -> bool:
    return any(
        file.name == PARTITION_METADATA or _SEGMENT.fullmatch(file.name) is not None
        for file in path.iterdir()
    )


def sort_out(directory: Path, topics: Iterable[SavedTopic]) -> None:
    """Give every partition's folder its place: one that is on no list is set aside, and said."""
    listed = {
        f"{topic.name}-{index}": topic.topic_id for topic in topics for index in range(len(topic.replicas))
    }
    with storage_errors("reading", directory):
        found = _partitions(directory)
    for path in found:
        expected, written = listed.get(path.name), read_partition_metadata(path)
        if expected is None or (written is not None and written != expected):
            _set_aside(path)
        elif written is None:
            log.warning("%s does not say which topic it belongs to: taken for what its name says", path)
            write_partition_metadata(path, expected)


def remove_deleted(directory: Path, topic: SavedTopic) -> None:
    """End the deletion of a topic; folders that belong to another topic by now are left."""
    for index in range(len(topic.replicas)):
        path = directory / f"{topic.name}-{index}"
        if read_partition_metadata(path) == topic.topic_id:
            log.info("%s belongs to a topic that was deleted, and is removed", path)
            clean_up(path)


def clear_the_way(path: Path) -> None:
    """Make room for a new partition: what is there is set aside if it is a partition, and else refused."""
    if not path.is_dir():
        return
    with storage_errors("reading", path):
        names = {file.name for file in path.iterdir()} - {f"{PARTITION_METADATA}.tmp"}
        partition = _holds_partition(path)
    if partition:
        _set_aside(path)
    elif names:
        raise KafkaStorageError(f"{path} is in the way of a partition, and is none: move it elsewhere")


def _set_aside(path: Path) -> None:
    suffix = f".{uuid.uuid4().hex}-stray"
    aside = path.with_name(path.name[: _LONGEST_NAME - len(suffix)] + suffix)
    with storage_errors("renaming", path):
        path.rename(aside)
    log.warning(
        "%s is not of any topic in %s: set aside as %s, unchanged, and not read", path, LIST, aside.name
    )
