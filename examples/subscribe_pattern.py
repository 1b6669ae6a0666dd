"""Subscribing by pattern: a topic that is created later and matches is read by itself, from its beginning."""

from __future__ import annotations

from examples.cluster import cluster_with, fill
from kclient import Admin, Consumer
from kclient.admin import NewTopic

RECORDS = 10


def main(bootstrap: str) -> None:
    consumer = Consumer(
        bootstrap_servers=bootstrap,
        group_id="pattern",
        auto_offset_reset="earliest",  # else records that come before the topic is noticed are passed by
        metadata_max_age_ms=200,  # how soon a new topic is noticed; 5 minutes otherwise
    )
    consumer.subscribe(pattern=r"orders-[a-z]+")  # the whole name must match
    with consumer:
        read(consumer, "orders-eu")
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic("orders-us", 2), NewTopic("orders-2025", 2)])
        fill(bootstrap, "orders-us", RECORDS, partitions=2)
        read(consumer, "orders-us")
        print(f"subscribed to {sorted(consumer.subscription())}")


def read(consumer: Consumer[bytes | None, bytes | None], topic: str) -> None:
    """Read all records of a topic."""
    count = 0
    while count < RECORDS:
        for key, records in consumer.poll(timeout_ms=1_000).items():
            count += len(records) * (key.topic == topic)
    print(f"{count} records of {topic}")


if __name__ == "__main__":
    with cluster_with("orders-eu") as (bootstrap, _):
        fill(bootstrap, "orders-eu", RECORDS)
        main(bootstrap)
