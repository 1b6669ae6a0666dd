"""Writing to one real broker with Spark: format("kclient") against format("kafka"), tuned and as it is.

`python -m benchmarks.spark_write` prints rows per second and ratios. All take turns within one run; medians
of the rounds count. The rows are made once and kept in Spark's memory; after every write the topic is asked
how many records it has got.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.spark_session import spark_session
from kclient import Admin
from kclient.types import TopicPartition
from tools.kafka.cluster import KafkaCluster

PARTITIONS = 6
TASKS = 2
ROUNDS = 5
# Found by measurement to be the best for Spark's own connector.
TUNED = {"kafka.linger.ms": "5", "kafka.batch.size": "1000000"}


class Shape(NamedTuple):
    """Rows to write."""

    name: str
    size: int
    rows: int


SHAPES = (Shape("100 B", 100, 2_000_000), Shape("1 KB", 1_000, 200_000))


class Way(NamedTuple):
    """One way of writing."""

    name: str
    format: str
    options: dict[str, str]


OURS = Way("kclient", "kclient", {})
BEST = Way("kafka, tuned", "kafka", TUNED)
PLAIN = Way("kafka, defaults", "kafka", {})
WAYS = (OURS, BEST, PLAIN)

# The least that kclient promises, by shape and against whom.
FLOORS = {("100 B", BEST.name): 1.1}


class Row(NamedTuple):
    """Rows per second of each way."""

    shape: str
    speeds: dict[str, float]

    def ratio(self, against: str) -> float:
        return self.speeds[OURS.name] / self.speeds[against]


def rows_of(session: Any, shape: Shape) -> Any:
    """Rows with a key of some six bytes and a value, made and kept."""
    made = session.range(0, shape.rows, 1, TASKS).selectExpr(
        "cast(id * 7919 % 1000000 as string) as key",
        f"cast(rpad(concat('order ', id, ' '), {shape.size}, 'three apples ') as binary) as value",
    )
    kept = made.persist()
    assert kept.count() == shape.rows
    return kept


def written(servers: str, topic: str) -> int:
    with Admin(bootstrap_servers=servers) as admin:
        ends = admin.list_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)])
    return sum(end.offset for end in ends.values())


def write(rows: Any, servers: str, topic: str, way: Way) -> float:
    """Seconds of one job."""
    options = {"kafka.bootstrap.servers": servers, "topic": topic, **way.options}
    began = time.perf_counter()
    rows.write.format(way.format).options(**options).mode("append").save()
    return time.perf_counter() - began


def measure(
    session: Any, servers: str, create: Callable[[str, int], object], shape: Shape, rounds: int
) -> Row:
    """Medians, after one round that starts Spark's workers and warms everybody up."""
    speeds: dict[str, list[float]] = {way.name: [] for way in WAYS}
    rows = rows_of(session, shape)
    for turn in range(rounds + 1):
        for place, way in enumerate(WAYS):
            topic = f"write-{shape.size}-{turn}-{place}"
            create(topic, PARTITIONS)
            seconds = write(rows, servers, topic, way)
            found = written(servers, topic)
            if found != shape.rows:
                raise RuntimeError(f"{way.name} wrote {found} of {shape}")
            if turn:
                speeds[way.name].append(shape.rows / seconds)
    rows.unpersist()
    return Row(shape.name, {name: statistics.median(found) for name, found in speeds.items()})


def run(session: Any, servers: str, create: Callable[[str, int], object], rounds: int = ROUNDS) -> list[Row]:
    return [measure(session, servers, create, shape, rounds) for shape in SHAPES]


def table(rows: list[Row]) -> str:
    lines: list[str] = []
    for row in rows:
        lines += [
            f"{row.shape:<12} {way:<20} {speed / 1000:8.1f} k rows/s" for way, speed in row.speeds.items()
        ]
        for against in (BEST.name, PLAIN.name):
            floor = FLOORS.get((row.shape, against))
            promised = "" if floor is None else f" (at least {floor:.2f})"
            lines.append(f"{'':<12} kclient / {against}: {row.ratio(against):.2f}{promised}")
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    """What is slower than promised."""
    return [
        f"writing from Spark, {row.shape}: kclient / {against} is {row.ratio(against):.2f}, not {floor:.2f}"
        for row in rows
        for (shape, against), floor in FLOORS.items()
        if shape == row.shape and row.ratio(against) < floor
    ]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with KafkaCluster() as kafka, spark_session() as session:
        rows = run(session, kafka.bootstrap(), kafka.create_topic, rounds)
    print(table(rows))
    print(*behind(rows), sep="\n")


if __name__ == "__main__":
    main()
