"""Error messages of a log into a search index: only what matters is indexed, and nothing twice.

SQLite's FTS5 stands in for a search engine. A document's id is its record's partition and offset, so what is
written again replaces itself: at-least-once reading fills the index exactly once, crash or not.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from examples.cluster import cluster_with
from kclient import Consumer, Producer, Record

TOPIC = "logs"
PARTITIONS = 3
MESSAGES = [
    {"level": "error", "text": f"payment {number} timed out at the bank"}
    if number % 10 == 0
    else {"level": "error", "text": f"disk of node {number} is full"}
    if number % 10 == 5
    else {"level": "info", "text": f"payment {number} is done"}
    for number in range(200)
]

Message: TypeAlias = Record[bytes | None, Any]


def write(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, message in enumerate(MESSAGES):
            producer.send(TOPIC, json.dumps(message).encode(), partition=number % PARTITIONS)


def document_id(record: Message) -> int:
    return record.partition << 48 | record.offset


def index(database: sqlite3.Connection, records: list[Message]) -> None:
    """One transaction for many documents; what is no error is left out."""
    documents = [
        (document_id(record), record.value["text"]) for record in records if record.value["level"] == "error"
    ]
    with database:
        database.executemany("INSERT OR REPLACE INTO messages (rowid, text) VALUES (?, ?)", documents)


def run(bootstrap: str, path: Path, *, crash: bool) -> int:
    """One life of the application, until nothing is left or it crashes: how many records it read."""
    read = 0
    with (
        closing(sqlite3.connect(path)) as database,
        Consumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id="search",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            value_deserializer=json.loads,
        ) as consumer,
    ):
        database.execute("CREATE VIRTUAL TABLE IF NOT EXISTS messages USING fts5 (text)")
        lags: list[int | None] = [None]
        while any(lag != 0 for lag in lags):  # a real application would go on for ever
            batches = consumer.poll(timeout_ms=1_000, max_records=50)
            records = [record for batch in batches.values() for record in batch]
            index(database, records)
            read += len(records)
            if crash and read > len(MESSAGES) // 2:
                break  # in the index, and not committed
            consumer.commit()
            lags = [consumer.lag(partition) for partition in consumer.assignment()] or [None]
    return read


def main(bootstrap: str, path: Path) -> None:
    write(bootstrap)
    read = run(bootstrap, path, crash=True) + run(bootstrap, path, crash=False)
    print(f"{len(MESSAGES)} messages, some read twice: {read > len(MESSAGES)}")
    with closing(sqlite3.connect(path)) as database:
        count = database.execute("SELECT count(*), count(DISTINCT text) FROM messages").fetchone()
        print(f"{count[0]} documents, {count[1]} different ones")
        search = "SELECT text FROM messages WHERE messages MATCH ? ORDER BY rank, rowid LIMIT 3"
        for question in ("bank AND timed", "disk NOT node", '"node 95"'):
            print(f"{question}: {[text for (text,) in database.execute(search, (question,))]}")


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _), tempfile.TemporaryDirectory() as directory:
        main(bootstrap, Path(directory) / "index.db")
