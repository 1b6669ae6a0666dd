"""The file in a data directory that says which topics there are: `kclient-topics.json`.

Kafka keeps this in its metadata log. What a topic holds is in the directories of its partitions. A topic that
is being deleted stays in the file, marked, until its directories are gone: only what is marked is removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kclient.broker.log.storage import storage_errors, write_file
from kclient.errors import KafkaStorageError

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
        text = path.read_text()
    try:
        return [_topic(saved) for saved in json.loads(text)]
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaStorageError(f"{path} does not hold topics: restore it, or remove it with them") from error


def _topic(saved: dict[str, Any]) -> SavedTopic:
    return SavedTopic(
        saved["name"],
        uuid.UUID(saved["topic_id"]),
        [tuple(nodes) for nodes in saved["replicas"]],
        saved["epochs"],
        saved["configs"],
        saved.get("deleted", False),
    )


def write_topics(directory: Path, topics: Iterable[SavedTopic], *, sync: bool) -> None:
    """Replace the file as a whole."""
    rows = [{**topic._asdict(), "topic_id": str(topic.topic_id)} for topic in topics]
    for row in rows:
        if not row["deleted"]:
            del row["deleted"]
    write_file(directory / NAME, json.dumps(rows, indent=1).encode(), sync=sync)
