"""Exactly once into a database: results and offsets are written in one transaction of SQLite.

Either both are there or neither, so the database says where to go on. The group only shares the partitions;
nothing is committed to Kafka. The update that refuses an offset already passed keeps out a consumer that lost
a partition and does not know it yet: its transaction finds a later offset and is taken back.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from examples.cluster import cluster_with, fill
from kclient import Consumer, Record, TopicPartition
from kclient.consumer import ConsumerRebalanceListener

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 100
SCHEMA = """
    CREATE TABLE IF NOT EXISTS results (partition INTEGER, value TEXT);
    CREATE TABLE IF NOT EXISTS offsets (partition INTEGER PRIMARY KEY, next INTEGER);
"""


class GoOnWhereTheDatabaseIs(ConsumerRebalanceListener):
    def __init__(self, consumer: Consumer[bytes | None, bytes | None], database: sqlite3.Connection) -> None:
        self._consumer = consumer
        self._database = database

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        for partition in assigned:
            self._consumer.seek(partition, next_offset(self._database, partition.partition))


def next_offset(database: sqlite3.Connection, partition: int) -> int:
    with database:
        database.execute("INSERT OR IGNORE INTO offsets VALUES (?, 0)", (partition,))
    row = database.execute("SELECT next FROM offsets WHERE partition = ?", (partition,)).fetchone()
    return int(row[0])


def store(
    database: sqlite3.Connection,
    partition: int,
    records: list[Record[Any, Any]],
    crash: bool,
) -> None:
    with database:  # commits at the end, rolls back on an exception
        rows = [(partition, record.value.decode()) for record in records]
        database.executemany("INSERT INTO results VALUES (?, ?)", rows)
        if crash:
            raise RuntimeError("power cut")
        moved = database.execute(
            "UPDATE offsets SET next = ? WHERE partition = ? AND next <= ?",
            (records[-1].offset + 1, partition, records[0].offset),
        )
        if moved.rowcount != 1:
            raise RuntimeError("another consumer has written these already")


def run(bootstrap: str, path: Path, crash_after: int) -> None:
    """One life of the application; it crashes in a transaction when it has stored so many records."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        consumer = Consumer(bootstrap_servers=bootstrap, group_id="exactly-once", enable_auto_commit=False)
        consumer.subscribe([TOPIC], listener=GoOnWhereTheDatabaseIs(consumer, database))
        stored = count(database)
        with consumer:
            while stored < RECORDS:
                for key, records in consumer.poll(timeout_ms=1_000, max_records=7).items():
                    store(database, key.partition, records, crash=stored >= crash_after)
                    stored += len(records)


def count(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT count(*) FROM results").fetchone()[0])


def main(bootstrap: str, path: Path) -> None:
    try:
        run(bootstrap, path, crash_after=RECORDS // 2)
    except RuntimeError as error:
        print(f"{error} in the middle of a transaction")
    run(bootstrap, path, crash_after=RECORDS)
    with closing(sqlite3.connect(path)) as database:
        distinct = database.execute("SELECT count(DISTINCT value) FROM results").fetchone()[0]
        print(f"{count(database)} results, {distinct} different ones")


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _), tempfile.TemporaryDirectory() as directory:
        fill(bootstrap, TOPIC, RECORDS, PARTITIONS)
        main(bootstrap, Path(directory) / "results.db")
