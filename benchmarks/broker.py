"""The embedded broker against a real one: confluent-kafka writes and reads records of 1 KB, on disk.

`python -m benchmarks.broker` prints records per second both ways and the ratio, how the embedded broker's
memory grows with what it stores, and how long it takes to start. Brokers take turns within one run; the
median of the rounds counts. Each is a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.kafka.cluster import KafkaCluster

RECORDS = 100_000
VALUE = b"v" * 1024
PARTITIONS = 6
ROUNDS = 5
STARTS = 7
# What is promised: a share of the real broker's rate, seconds to start, bytes of growth per stored byte.
FLOOR = 0.5
START_LIMIT = 0.5
GROWTH_LIMIT = 0.05

_SHOWS_MEMORY = Path("/proc/self/status").exists()


class Rate(NamedTuple):
    """Records per second, of the embedded broker and of Kafka."""

    direction: str
    ours: float
    kafka: float

    @property
    def ratio(self) -> float:
        return self.ours / self.kafka


class Result(NamedTuple):
    """What one run found. `memory` is megabytes after N and after 3 N records, where the system tells."""

    rates: list[Rate]
    memory: tuple[float, float] | None
    start: float


class Embedded:
    """`kclient broker` as a process, with compiled modules at hand as an installed package has them."""

    def __init__(self, data: Path, compiled: Path) -> None:
        command = [sys.executable, "-m", "kclient.cli.main", "broker", "--port", "0", "--data", str(data)]
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(compiled)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        self.seconds_to_start = time.perf_counter() - began
        self.bootstrap = said.removeprefix("Listening on ").partition(",")[0]

    def megabytes(self) -> float:
        """Its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def embedded(compiled: Path) -> Iterator[Embedded]:
    with tempfile.TemporaryDirectory() as directory:
        broker = Embedded(Path(directory), compiled)
        try:
            yield broker
        finally:
            broker.stop()


def new_topic(bootstrap: str) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    return topic


def produce(bootstrap: str, topic: str, count: int = RECORDS) -> float:
    """Seconds to write records and have them all acknowledged."""
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 20,
        "queue.buffering.max.messages": count + 1,
        "queue.buffering.max.kbytes": 2_000_000,
        "sticky.partitioning.linger.ms": 10,
    })  # fmt: skip
    producer.list_topics(topic, timeout=30)
    began = time.perf_counter()
    for number in range(count):
        producer.produce(topic, VALUE, partition=number % PARTITIONS)
    left = producer.flush(120)
    assert not left
    return time.perf_counter() - began


def consume(bootstrap: str, topic: str, count: int = RECORDS) -> float:
    """Seconds to read them all."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })  # fmt: skip
    try:
        consumer.list_topics(topic, timeout=30)
        began = time.perf_counter()
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        seen = 0
        while seen < count:
            got = consumer.consume(10_000, timeout=10)
            assert got, f"{seen} of {count} records and no more"
            seen += sum(not message.error() for message in got)
        return time.perf_counter() - began
    finally:
        consumer.close()


def measure_rates(ours: str, kafka: str) -> list[Rate]:
    taken: dict[tuple[str, str], list[float]] = {}
    for number in range(ROUNDS + 1):
        for bootstrap in (ours, kafka):
            topic = new_topic(bootstrap)
            for direction, work in (("produce", produce), ("consume", consume)):
                seconds = work(bootstrap, topic)
                if number:  # the first round warms up
                    taken.setdefault((direction, bootstrap), []).append(RECORDS / seconds)
    return [
        Rate(direction, *(statistics.median(taken[direction, one]) for one in (ours, kafka)))
        for direction in ("produce", "consume")
    ]


def measure_memory(compiled: Path) -> tuple[float, float] | None:
    """Resident megabytes after N and 3 N records, written and read."""
    if not _SHOWS_MEMORY:
        return None
    with embedded(compiled) as broker:
        seen = []
        for rounds in (1, 2):
            for _ in range(rounds):
                topic = new_topic(broker.bootstrap)
                produce(broker.bootstrap, topic)
                consume(broker.bootstrap, topic)
            seen.append(broker.megabytes())
    return seen[0], seen[1]


def measure_start(compiled: Path) -> float:
    """Seconds from the command to a port that listens; the quickest counts, since others only add to it."""
    times = []
    for _ in range(STARTS):
        with embedded(compiled) as broker:
            times.append(broker.seconds_to_start)
    return min(times)


def run() -> Result:
    with tempfile.TemporaryDirectory() as directory:
        compiled = Path(directory)
        start, memory = measure_start(compiled), measure_memory(compiled)
        with embedded(compiled) as broker, KafkaCluster() as kafka:
            return Result(measure_rates(broker.bootstrap, kafka.bootstrap()), memory, start)


def table(result: Result) -> str:
    lines = [f"{'direction':14}{'embedded /s':>12}{'Kafka /s':>12}{'ratio':>8}"]
    lines += [
        f"{rate.direction:14}{rate.ours:>12,.0f}{rate.kafka:>12,.0f}{rate.ratio:>8.2f}"
        for rate in result.rates
    ]
    if result.memory is not None:
        once, thrice = result.memory
        lines.append(f"memory after {RECORDS:,} records {once:.0f} MB, after {3 * RECORDS:,} {thrice:.0f} MB")
    lines.append(f"listens {result.start:.2f} s after the command")
    return "\n".join(lines)


def behind(result: Result) -> list[str]:
    """Where the promise is not kept, in words."""
    found = [
        f"{rate.direction} of 1 KB: {rate.ratio:.2f} x Kafka, promised is {FLOOR}"
        for rate in result.rates
        if rate.ratio < FLOOR
    ]
    if result.memory is not None:
        once, thrice = result.memory
        stored = 2 * RECORDS * len(VALUE) / (1 << 20)
        if thrice - once > GROWTH_LIMIT * stored:
            found.append(f"memory grew by {thrice - once:.0f} MB over {stored:.0f} MB stored")
    if result.start > START_LIMIT:
        found.append(f"a start takes {result.start:.2f} s, promised is {START_LIMIT}")
    return found


if __name__ == "__main__":
    result = run()
    print(table(result))
    print(*behind(result), sep="\n")
