"""Reading a topic of six partitions from one real broker: kclient against confluent-kafka and aiokafka.

`python -m benchmarks.consume` prints records per second and ratios; `run()` returns the same as data.
Contestants take turns within one run, each reads the whole topic, the clock runs from the first records to
the last, and the median of the rounds counts. confluent-kafka is tuned: large queues, no back-off between
fetches. Java's is its own performance tool on the same topic, without the time that it takes to get its
partitions; each round is a new JVM, which warms up within it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from benchmarks import java
from kclient.consumer import AsyncConsumer, Consumer
from kclient.types import TopicPartition
from tools.kafka.cluster import KafkaCluster

PARTITIONS = 6
ROUNDS = 5
AT_ONCE = 10_000
PATIENCE = 30.0


class Shape(NamedTuple):
    """What a topic is filled with."""

    name: str
    size: int
    records: int
    codec: str = "none"

    @property
    def topic(self) -> str:
        return f"consume-{self.size}-{self.codec}"


SHAPES = (
    Shape("100 B", 100, 1_000_000),
    Shape("1 KB", 1_000, 200_000),
    Shape("100 B lz4", 100, 500_000, "lz4"),
    Shape("100 B zstd", 100, 500_000, "zstd"),
)
# The least that kclient promises, as a multiple of the better peer: (way of reading, shape).
FLOORS = {
    ("getmany", "100 B"): 1.4,
    ("getmany", "1 KB"): 1.5,
    ("getmany", "100 B lz4"): 1.2,
    ("getmany", "100 B zstd"): 1.2,
    ("getarrow", "100 B"): 3.5,
    ("poll", "100 B"): 1.4,
    ("poll", "1 KB"): 1.5,
    ("async for", "100 B"): 1.5,
}
JAVA = "Java's tool"
JAVA_SHAPE = "100 B"
JAVA_FLOOR = 1.5


class Row(NamedTuple):
    """Records per second of one way of reading, and of the better peer (aiokafka for `async for`)."""

    way: str
    shape: Shape
    ours: float
    peer: str
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def floor(self) -> float | None:
        return JAVA_FLOOR if self.peer == JAVA else FLOORS.get((self.way, self.shape.name))


class Stopwatch:
    """Counts records from the first ones on, which are not counted themselves."""

    def __init__(self) -> None:
        self.count = 0
        self._first = 0
        self._began = 0.0

    def add(self, number: int) -> None:
        if not self.count and number:
            self._first, self._began = number, time.perf_counter()
        self.count += number

    def rate(self) -> float:
        return (self.count - self._first) / (time.perf_counter() - self._began)


Contestant = Callable[[str, Shape], Coroutine[Any, Any, float]]


def ours(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}


async def kclient_getmany(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    async with AsyncConsumer(**ours(bootstrap)) as consumer:
        consumer.assign([TopicPartition(shape.topic, number) for number in range(PARTITIONS)])
        while watch.count < shape.records:
            found = await consumer.getmany(timeout_ms=PATIENCE * 1000, max_records=AT_ONCE)
            watch.add(sum(map(len, found.values())))
        return watch.rate()


async def kclient_for(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    async with AsyncConsumer(**ours(bootstrap)) as consumer:
        consumer.assign([TopicPartition(shape.topic, number) for number in range(PARTITIONS)])
        await consumer.getone()
        watch.add(1)
        left = shape.records - 1
        async for _ in consumer:
            left -= 1
            if not left:
                break
        watch.add(shape.records - 1)
        return watch.rate()


async def kclient_getarrow(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    async with AsyncConsumer(**ours(bootstrap)) as consumer:
        consumer.assign([TopicPartition(shape.topic, number) for number in range(PARTITIONS)])
        while watch.count < shape.records:
            watch.add((await consumer.getarrow(timeout_ms=PATIENCE * 1000)).num_rows)
        return watch.rate()


def poll(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    with Consumer(**ours(bootstrap)) as consumer:
        consumer.assign([TopicPartition(shape.topic, number) for number in range(PARTITIONS)])
        while watch.count < shape.records:
            found = consumer.poll(timeout_ms=PATIENCE * 1000, max_records=AT_ONCE)
            watch.add(sum(map(len, found.values())))
        return watch.rate()


def poll_arrow(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    with Consumer(**ours(bootstrap)) as consumer:
        consumer.assign([TopicPartition(shape.topic, number) for number in range(PARTITIONS)])
        while watch.count < shape.records:
            watch.add(consumer.poll_arrow(timeout_ms=PATIENCE * 1000).num_rows)
        return watch.rate()


def confluent(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            "fetch.queue.backoff.ms": 0,
            "fetch.message.max.bytes": 10_485_760,
        }
    )
    try:
        consumer.assign([ConfluentPartition(shape.topic, number, 0) for number in range(PARTITIONS)])
        while watch.count < shape.records:
            messages = consumer.consume(AT_ONCE, PATIENCE)
            for message in messages:  # what every application does: objects that nobody reads are cheap
                message.value()
            watch.add(len(messages))
        return watch.rate()
    finally:
        consumer.close()


async def aiokafka_getmany(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    consumer = AIOKafkaConsumer(**ours(bootstrap))
    await consumer.start()
    try:
        consumer.assign([AioPartition(shape.topic, number) for number in range(PARTITIONS)])
        while watch.count < shape.records:
            found = await consumer.getmany(timeout_ms=PATIENCE * 1000, max_records=AT_ONCE)
            watch.add(sum(map(len, found.values())))
        return watch.rate()
    finally:
        await consumer.stop()


async def aiokafka_for(bootstrap: str, shape: Shape) -> float:
    watch = Stopwatch()
    consumer = AIOKafkaConsumer(**ours(bootstrap))
    await consumer.start()
    try:
        consumer.assign([AioPartition(shape.topic, number) for number in range(PARTITIONS)])
        await consumer.getone()
        watch.add(1)
        left = shape.records - 1
        async for _ in consumer:
            left -= 1
            if not left:
                break
        watch.add(shape.records - 1)
        return watch.rate()
    finally:
        await consumer.stop()


def on_a_thread(work: Callable[[str, Shape], float]) -> Contestant:
    async def run_it(bootstrap: str, shape: Shape) -> float:
        return work(bootstrap, shape)

    return run_it


OURS: dict[str, Contestant] = {
    "getmany": kclient_getmany,
    "poll": on_a_thread(poll),
    "async for": kclient_for,
    "getarrow": kclient_getarrow,
    "poll_arrow": on_a_thread(poll_arrow),
}
PEERS: dict[str, Contestant] = {
    "confluent-kafka": on_a_thread(confluent),
    "aiokafka": aiokafka_getmany,
    "aiokafka async for": aiokafka_for,
}


def fill(bootstrap: str, shape: Shape) -> None:
    """Values of random bytes in which some text repeats, so that they compress as data does."""
    producer = ConfluentProducer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": shape.codec,
            "linger.ms": 50,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    values = [
        (os.urandom(shape.size // 4).hex() + "x" * shape.size)[: shape.size].encode() for _ in range(1000)
    ]
    for number in range(shape.records):
        producer.produce(shape.topic, values[number % 1000], b"key-%06d" % number, number % PARTITIONS)
        if not number % 10_000:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{shape.topic} could not be filled")


def measure(kafka: KafkaCluster, shape: Shape, rounds: int) -> list[Row]:
    rates: dict[str, list[float]] = {}
    contestants = OURS | PEERS
    if shape.name == JAVA_SHAPE:
        contestants[JAVA] = on_a_thread(lambda _, shape: java.consume(kafka, shape.topic, shape.records))
    for _ in range(rounds):
        for name, contestant in contestants.items():
            gc.collect()
            rates.setdefault(name, []).append(asyncio.run(contestant(kafka.bootstrap(), shape)))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    better = max(("confluent-kafka", "aiokafka"), key=medians.__getitem__)
    rows = []
    for way in OURS:
        peer = "aiokafka async for" if way == "async for" else better
        rows.append(Row(way, shape, medians[way], peer, medians[peer]))
        if way == "getarrow" and JAVA in medians:
            rows.append(Row(way, shape, medians[way], JAVA, medians[JAVA]))
    return rows


def run(shapes: Iterable[Shape] = SHAPES, rounds: int = ROUNDS) -> list[Row]:
    rows: list[Row] = []
    with KafkaCluster() as kafka:
        for shape in shapes:
            kafka.create_topic(shape.topic, PARTITIONS)
            fill(kafka.bootstrap(), shape)
            rows += measure(kafka, shape, rounds)
    return rows


def table(rows: Iterable[Row]) -> str:
    lines = [f"{'':<12} {'':<12} {'kclient/s':>12} {'peer/s':>12}  ratio"]
    lines += [
        f"{row.shape.name:<12} {row.way:<12} {row.ours:>12,.0f} {row.theirs:>12,.0f}"
        f"  {row.ratio:.2f} {row.peer}"
        for row in rows
    ]
    return "\n".join(lines)


def behind(rows: Iterable[Row]) -> list[str]:
    """A sentence for every floor that is not held."""
    return [
        f"{row.way}, {row.shape.name}: {row.ratio:.2f} of {row.peer}, not {floor}"
        for row in rows
        if (floor := row.floor) is not None and row.ratio < floor
    ]


def main() -> None:
    wanted = [shape for shape in SHAPES if not sys.argv[1:] or shape.name in sys.argv[1:]]
    rows = run(wanted)
    print(table(rows))
    print(*behind(rows), sep="\n")


if __name__ == "__main__":
    main()
