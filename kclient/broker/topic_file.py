"""The file in a data directory that says which topics there are: `kclient-topics.json`.

Kafka keeps this in its metadata log. What a topic holds is in the directories of its partitions. A topic that
is being deleted stays in the file, marked, until its directories are gone: only what is marked is removed.
`topic_journal` keeps the changes since the file was written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from kclient.broker.log.storage import storage_errors, write_file
from kclient.errors import KafkaStorageError
from kclient.topics import illegal

NAME = "kclient-topics.json"


class SavedTopic(NamedTuple):
    """A topic as the file has it. Of every partition: its replicas, and the epoch of its last leader."""

    name: str
    topic_id: uuid.UUID
    replicas: list[tuple[int, ...]]
    epochs: list[int]
    configs: dict[str, str]
    deleted: bool = False


def read_topics(directory: Path) -> list[SavedTopic]:
    """The topics of an earlier run; none if there was none."""
    path = directory / NAME
    if not path.exists():
        return []
    with storage_errors("reading", path):
        data = path.read_bytes()
    try:
        return _topics(json.loads(data.decode()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaStorageError(f"{path} does not hold topics: restore it, or remove it with them") from error


def _topics(saved: Any) -> list[SavedTopic]:
    """What is no list must not be taken for one without topics: all partitions would be set aside."""
    if not isinstance(saved, list):
        raise TypeError("not a list")
    return [topic_of(one) for one in saved]


def topic_of(saved: dict[str, Any]) -> SavedTopic:
    """A topic from its row; raises what Python does about a row that is none."""
    topic = SavedTopic(
        saved["name"],
        uuid.UUID(saved["topic_id"]),
        [tuple(nodes) for nodes in saved["replicas"]],
        list(saved["epochs"]),
        {**saved["configs"]},
        bool(saved.get("deleted", False)),
    )
    numbers = chain(topic.epochs, *topic.replicas)
    words = chain([topic.name], *topic.configs.items())
    if not all(isinstance(one, int) for one in numbers) or not all(isinstance(one, str) for one in words):
        raise TypeError("a word or a number is something else")
    if illegal(topic.name) is not None or len(topic.epochs) != len(topic.replicas):
        raise ValueError("no such topic can be")
    return topic


def row_of(topic: SavedTopic) -> dict[str, Any]:
    """A topic as JSON has it."""
    row = {**topic._asdict(), "topic_id": str(topic.topic_id)}
    if not topic.deleted:
        del row["deleted"]
    return row


def write_topics(directory: Path, topics: Iterable[SavedTopic], *, sync: bool) -> None:
    """Replace the file as a whole."""
    rows = [row_of(topic) for topic in topics]
    write_file(directory / NAME, json.dumps(rows, indent=1).encode(), sync=sync)
