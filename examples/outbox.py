"""The outbox pattern: an order and the message about it are written in one transaction of the database.

A relay sends what the outbox holds and ticks it off afterwards. A crash between the two sends some messages
again, under the same sequence numbers, so a reader whose table has each number once sees each message once.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from examples.cluster import cluster_with
from kclient import Consumer, Producer

TOPIC = "orders"
PARTITIONS = 3
ORDERS = 20
BATCH = 5
SCHEMA = """
    CREATE TABLE orders (number INTEGER PRIMARY KEY, customer TEXT, cents INTEGER CHECK (cents > 0));
    CREATE TABLE outbox (sequence INTEGER PRIMARY KEY, key TEXT, value TEXT, sent INTEGER DEFAULT 0);
    -- The reader's; with a service of its own it would be in another database.
    CREATE TABLE parcels (sequence INTEGER PRIMARY KEY, customer TEXT, value TEXT);
"""


def place(database: sqlite3.Connection, number: int, customer: str, cents: int) -> None:
    """What the shop does. Nothing is sent here: the database alone decides whether there is an order."""
    with database:
        database.execute("INSERT INTO outbox (key, value) VALUES (?, ?)", (customer, f"order {number}"))
        database.execute("INSERT INTO orders VALUES (?, ?, ?)", (number, customer, cents))


def relay(bootstrap: str, path: Path, crash_after: int | None = None) -> None:
    """One life of the relay; only one runs at a time. It crashes after so many batches, if told to."""
    unsent = "SELECT sequence, key, value FROM outbox WHERE NOT sent ORDER BY sequence LIMIT ?"
    with closing(sqlite3.connect(path)) as database, Producer(bootstrap_servers=bootstrap) as producer:
        batches = 0
        while rows := database.execute(unsent, (BATCH,)).fetchall():
            deliveries = [
                producer.send(TOPIC, value.encode(), key.encode(), headers={"sequence": b"%d" % sequence})
                for sequence, key, value in rows
            ]
            for delivery in deliveries:
                delivery.result()  # raises why it was not written
            batches += 1
            if batches == crash_after:
                raise RuntimeError("power cut")
            with database:
                database.execute("UPDATE outbox SET sent = 1 WHERE sequence <= ?", (rows[-1][0],))


def read(bootstrap: str, database: sqlite3.Connection) -> int:
    """Note down a parcel for each message, until there are no more; tells how many records that were."""
    records = 0
    with Consumer(
        TOPIC, bootstrap_servers=bootstrap, group_id="parcels", auto_offset_reset="earliest"
    ) as consumer:
        lags: list[int | None] = [None]
        while any(lag != 0 for lag in lags):  # a real application would go on for ever
            rows = [
                (int(dict(record.headers)["sequence"] or 0), record.key.decode(), record.value.decode())
                for batch in consumer.poll(timeout_ms=1_000).values()
                for record in batch
                if record.key is not None and record.value is not None
            ]
            with database:
                database.executemany("INSERT OR IGNORE INTO parcels VALUES (?, ?, ?)", rows)
            records += len(rows)
            lags = [consumer.lag(partition) for partition in consumer.assignment()] or [None]
    return records


def main(bootstrap: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        for number in range(ORDERS):
            place(database, number, f"customer-{number % 7}", cents=100 + number)
        try:
            place(database, ORDERS, "customer-1", cents=-5)
        except sqlite3.IntegrityError as error:
            print(f"no order, no message: {error}")
        try:
            relay(bootstrap, path, crash_after=3)
        except RuntimeError as error:
            print(f"{error}: {BATCH} messages are sent and not ticked off")
        relay(bootstrap, path)
        print(f"{read(bootstrap, database)} messages in the topic")
        parcels = database.execute("SELECT count(*), count(DISTINCT value) FROM parcels").fetchone()
        print(f"{parcels[0]} parcels for {parcels[1]} orders")


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _), tempfile.TemporaryDirectory() as directory:
        main(bootstrap, Path(directory) / "shop.db")
