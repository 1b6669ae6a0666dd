"""What a topic holds, as confluent-kafka reads it: a client that shares no code with kclient."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tools.kafka.waiting import poll


class Seen(NamedTuple):
    """One record. `stamped_by` is 1 for the producer's time, 2 for the broker's."""

    partition: int
    offset: int
    stamped_by: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_topic(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Seen]:
    """The first `count` records of a topic, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "check.crcs": True})
    records: list[Seen] = []

    def attempt() -> bool:
        for message in consumer.consume(count - len(records), timeout=0.5):
            assert message.error() is None
            records.append(_seen(message))
        return len(records) >= count

    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        poll(attempt, timeout=60, failure=lambda: f"only {len(records)} of {count} records of {topic} came")
    finally:
        consumer.close()
    return sorted(records)


def _seen(message: Any) -> Seen:
    stamped_by, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    place = message.partition(), message.offset(), stamped_by, timestamp
    return Seen(*place, message.key(), message.value(), headers)
