"""Reading from a point in time on: partitions are assigned by hand, without a group, and sought by time."""

from __future__ import annotations

from datetime import UTC, datetime

from examples.cluster import cluster_with, fill
from kclient import Consumer, TopicPartition

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]
RECORDS = 100  # a second apart, from the new year on
BEGIN = datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)


def main(bootstrap: str) -> None:
    begin_ms = int(BEGIN.timestamp() * 1_000)
    with Consumer(bootstrap_servers=bootstrap, consumer_timeout_ms=1_000) as consumer:
        consumer.assign(PARTITIONS)
        consumer.seek_to_timestamp(begin_ms)
        ends = consumer.end_offsets(PARTITIONS)
        for partition in PARTITIONS:
            print(f"partition {partition.partition}: {consumer.position(partition)} to {ends[partition]}")
        values = [record.value.decode() for record in consumer if record.value is not None]
        print(f"{len(values)} records, the first are {sorted(values)[:2]}")

        # The same as a question, which moves nothing. None: no record is as late.
        found = consumer.offsets_for_times({PARTITIONS[0]: begin_ms, PARTITIONS[1]: begin_ms + 60_000})
        first, second = (found[partition] for partition in PARTITIONS)
        print(f"found: {first and first.offset} and {second}")


if __name__ == "__main__":
    with cluster_with(TOPIC, len(PARTITIONS)) as (bootstrap, _):
        fill(bootstrap, TOPIC, RECORDS, len(PARTITIONS))
        main(bootstrap)
