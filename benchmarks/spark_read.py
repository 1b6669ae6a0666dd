"""Reading from one real broker with Spark: format("kclient") against format("kafka"), tuned and as it is.

`python -m benchmarks.spark_read` prints rows per second and ratios; `--rounds`, `--shapes` and `--batches`
make it shorter. All take turns within one run; medians of the rounds count. Every query counts the records
and adds up their sizes, and is checked against what was written. The micro-batches are those of a query that
has caught up: a few records each, at the log's head.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Producer

from benchmarks.spark_session import spark_session
from tools.kafka.cluster import KafkaCluster

PARTITIONS = 6
ROUNDS = 5
BATCHES = 10
HEAD = "spark-head"
MICRO = "micro-batch"
# Found by measurement to be the best for Spark's own connector.
TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.fetch.max.wait.ms": "10",
}


class Shape(NamedTuple):
    """What a topic is filled with."""

    name: str
    size: int
    records: int
    codec: str = "none"

    @property
    def topic(self) -> str:
        return f"spark-{self.size}-{self.codec}"


SHAPES = (
    Shape("100 B", 100, 2_000_000),
    Shape("1 KB", 1_000, 1_000_000),
    Shape("100 B lz4", 100, 2_000_000, "lz4"),
)


class Way(NamedTuple):
    """One way of reading."""

    name: str
    format: str
    options: dict[str, str]
    schema: str | None = None


OURS = Way("kclient", "kclient", {})
VALUE = Way("kclient, value only", "kclient", {}, "value binary")
BEST = Way("kafka, tuned", "kafka", TUNED)
PLAIN = Way("kafka, defaults", "kafka", {})
WAYS = (OURS, VALUE, BEST, PLAIN)
HEAD_WAYS = (OURS, BEST, PLAIN)

# The least that kclient promises: (way, shape, against): ratio. For micro-batches it is a ratio of times.
FLOORS = {
    (OURS.name, "100 B", BEST.name): 1.2,
    (OURS.name, "1 KB", BEST.name): 1.1,
    (OURS.name, "100 B lz4", BEST.name): 1.1,
    (VALUE.name, "100 B", BEST.name): 1.4,
    (OURS.name, "100 B", PLAIN.name): 2.0,
    (OURS.name, MICRO, BEST.name): 1 / 1.2,
    (OURS.name, MICRO, PLAIN.name): 3.0,
}


class Row(NamedTuple):
    """How fast each way was: rows per second, or micro-batches per second."""

    shape: str
    speeds: dict[str, float]

    def ratio(self, way: str, against: str) -> float:
        return self.speeds[way] / self.speeds[against]


def fill(servers: str, shape: Shape) -> None:
    """Texts of one size that compress about as well as JSON does."""
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 1000, "compression.type": shape.codec, "acks": 1}
    )
    padding = "the quick brown fox jumps over the lazy dog; " * (shape.size // 45 + 1)
    for number in range(shape.records):
        text = f'{{"id":{number:09},"total":{number * 2654435761 % 4294967296:010},"note":"{padding}'
        while True:
            try:
                producer.produce(
                    shape.topic, text[: shape.size], f"{number:06}", partition=number % PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise RuntimeError(f"{shape.topic} was not filled")


def read(session: Any, servers: str, shape: Shape, way: Way) -> float:
    """Rows per second of one query."""
    reader = session.read.format(way.format).options(
        **{"kafka.bootstrap.servers": servers, "subscribe": shape.topic, **way.options}
    )
    if way.schema is not None:
        reader = reader.schema(way.schema)
    began = time.perf_counter()
    found = reader.load().selectExpr("count(*) as number", "sum(length(value)) as bytes").first()
    took = time.perf_counter() - began
    if (found["number"], found["bytes"]) != (shape.records, shape.records * shape.size):
        raise RuntimeError(f"{way.name} read {found} of {shape}")
    return shape.records / took


def measure(session: Any, servers: str, shape: Shape, rounds: int) -> Row:
    """Medians, after one round that starts Spark's workers and warms everybody up."""
    speeds: dict[str, list[float]] = {way.name: [] for way in WAYS}
    for turn in range(rounds + 1):
        for way in WAYS:
            speed = read(session, servers, shape, way)
            if turn:
                speeds[way.name].append(speed)
    return Row(shape.name, {name: statistics.median(found) for name, found in speeds.items()})


@contextmanager
def trickle(servers: str) -> Iterator[None]:
    """A record a second to each of two partitions: between them nothing is there to be fetched."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(1.0):
            for partition in range(2):
                producer.produce(HEAD, b"x" * 100, partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=work, name="trickle")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(10)


def micro_batches(session: Any, servers: str, way: Way, number: int) -> float:
    """Micro-batches per second: how often a query that has caught up could have gone round."""
    stream = session.readStream.format(way.format).options(
        **{"kafka.bootstrap.servers": servers, "subscribe": HEAD, **way.options}
    )
    with tempfile.TemporaryDirectory(prefix="kclient-bench-") as checkpoint:
        query = stream.load().writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            times: list[float] = []
            seen = -1
            give_up = time.monotonic() + 60
            while len(times) < number + 2 and time.monotonic() < give_up:
                progress = query.lastProgress
                if progress is not None and progress["batchId"] != seen and progress["numInputRows"]:
                    seen = progress["batchId"]
                    times.append(progress["durationMs"]["triggerExecution"] / 1000)
                time.sleep(0.005)
        finally:
            query.stop()
    if len(times) < number:
        raise RuntimeError(f"{way.name} made {len(times)} micro-batches in a minute")
    return 1 / statistics.median(times[2:])


def measure_head(session: Any, servers: str, rounds: int, batches: int) -> Row:
    speeds: dict[str, list[float]] = {way.name: [] for way in HEAD_WAYS}
    with trickle(servers):
        for _ in range(rounds):
            for way in HEAD_WAYS:
                speeds[way.name].append(micro_batches(session, servers, way, batches))
    return Row(MICRO, {name: statistics.median(found) for name, found in speeds.items()})


NAMES = (*(shape.name for shape in SHAPES), MICRO)


class Length(NamedTuple):
    """How much of it is measured."""

    rounds: int = ROUNDS
    batches: int = BATCHES
    shapes: Sequence[str] = NAMES


WHOLE = Length()


def run(
    session: Any, servers: str, create: Callable[[str, int], object], length: Length = WHOLE
) -> list[Row]:
    """All shapes, then micro-batches."""
    rows: list[Row] = []
    for shape in SHAPES:
        if shape.name in length.shapes:
            create(shape.topic, PARTITIONS)
            fill(servers, shape)
            rows.append(measure(session, servers, shape, length.rounds))
    if MICRO in length.shapes:
        create(HEAD, 2)
        rows.append(measure_head(session, servers, min(2, length.rounds), length.batches))
    return rows


def table(rows: list[Row]) -> str:
    """Rows (micro-batches) per second in thousands (in units), and what the floors are about."""
    lines: list[str] = []
    for row in rows:
        unit, scale = ("/s", 1) if row.shape == MICRO else ("k rows/s", 1000)
        lines += [
            f"{row.shape:<12} {way:<20} {speed / scale:8.1f} {unit}" for way, speed in row.speeds.items()
        ]
        lines += [
            f"{'':<12} {way} / {against}: {row.ratio(way, against):.2f} (at least {floor:.2f})"
            for (way, shape, against), floor in FLOORS.items()
            if shape == row.shape
        ]
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    """What is slower than promised."""
    by_shape = {row.shape: row for row in rows}
    return [
        f"Spark, {shape}: {way} / {against} is {by_shape[shape].ratio(way, against):.2f}, not {floor:.2f}"
        for (way, shape, against), floor in FLOORS.items()
        if shape in by_shape and by_shape[shape].ratio(way, against) < floor
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=WHOLE.rounds)
    parser.add_argument("--batches", type=int, default=WHOLE.batches, help="micro-batches per round")
    parser.add_argument("--shapes", nargs="+", choices=WHOLE.shapes, default=WHOLE.shapes)
    length = Length(**vars(parser.parse_args()))
    with KafkaCluster() as kafka, spark_session() as session:
        rows = run(session, kafka.bootstrap(), kafka.create_topic, length)
    print(table(rows))
    print(*behind(rows), sep="\n")


if __name__ == "__main__":
    main()
