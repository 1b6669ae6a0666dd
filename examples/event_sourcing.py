"""Orders as event sourcing: what happened is kept, and the state of an order is what its events add up to.

Nothing is changed, only appended. So the state of any moment is had by reading the log up to it, and a
question that nobody thought of before is answered by reading the same events again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

from examples.cluster import cluster_with
from kclient import Consumer, Producer, Record, TopicPartition

TOPIC = "order-events"
PARTITIONS = 3
HAPPENED: list[tuple[str, str, dict[str, Any]]] = [
    ("09:00", "order-1", {"type": "placed", "item": "teapot", "cents": 2_500}),
    ("09:10", "order-2", {"type": "placed", "item": "cup", "cents": 700}),
    ("09:20", "order-1", {"type": "paid"}),
    ("10:00", "order-3", {"type": "placed", "item": "cup", "cents": 1_400}),
    ("10:30", "order-1", {"type": "shipped"}),
    ("11:00", "order-2", {"type": "cancelled"}),
    ("11:30", "order-3", {"type": "paid"}),
]

Event: TypeAlias = Record[Any, Any]


def at(clock: str) -> int:
    """Milliseconds of a time of the first day of 2026."""
    return int(datetime.fromisoformat(f"2026-01-01T{clock}").replace(tzinfo=UTC).timestamp() * 1_000)


def append(bootstrap: str) -> None:
    """The order is the key: its events share a partition, and so keep their order."""
    with Producer(
        bootstrap_servers=bootstrap, value_serializer=lambda event: json.dumps(event).encode()
    ) as log:
        for clock, order, event in HAPPENED:
            log.send(TOPIC, event, order.encode(), timestamp_ms=at(clock))


def events(bootstrap: str, before: str | None = None) -> Iterator[Event]:
    """All that has happened, or all before a time; it ends, however much is appended meanwhile."""
    with Consumer(
        bootstrap_servers=bootstrap, key_deserializer=bytes.decode, value_deserializer=json.loads
    ) as log:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        log.assign(partitions)
        log.seek_to_beginning()
        ends = log.end_offsets(partitions)
        if before is not None:
            found = log.offsets_for_times(dict.fromkeys(partitions, at(before)))
            ends |= {partition: later.offset for partition, later in found.items() if later is not None}
        while any(log.position(partition) < end for partition, end in ends.items()):
            for partition, records in log.poll(timeout_ms=1_000).items():
                yield from (record for record in records if record.offset < ends[partition])


def states(happened: Iterator[Event]) -> dict[str, str]:
    """What became of each order: the last thing that happened to it."""
    found: dict[str, str] = {}
    for event in happened:
        found[event.key] = event.value["type"]
    return dict(sorted(found.items()))


def revenue(happened: Iterator[Event]) -> Counter[str]:
    """Another view of the same events: what was paid for each kind of thing."""
    placed: dict[str, dict[str, Any]] = {}
    cents: Counter[str] = Counter()
    for event in happened:
        if event.value["type"] == "placed":
            placed[event.key] = event.value
        elif event.value["type"] == "paid":
            cents[placed[event.key]["item"]] += placed[event.key]["cents"]
    return cents


def main(bootstrap: str) -> None:
    append(bootstrap)
    print("now:", states(events(bootstrap)))
    print("before 10:00:", states(events(bootstrap, before="10:00")))
    print("before 11:15:", states(events(bootstrap, before="11:15")))
    print("paid, in cents:", dict(sorted(revenue(events(bootstrap)).items())))


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _):
        main(bootstrap)
