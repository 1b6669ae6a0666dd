"""From the construction of a consumer to its first record: kclient against Java's consumer.

`python -m benchmarks.consume_start` prints milliseconds. Both are told six partitions of one topic on one
real broker and begin at its start. Each round is a new process for each; starting the interpreter or the JVM
and importing `kclient` or loading the main class is not counted, all that comes after it is: Java's loading
of its client's classes, our import of numpy with the first batch. The median of the rounds counts.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import java
from kclient import AsyncConsumer, Consumer, Producer, TopicPartition
from tools.kafka.cluster import KafkaCluster

TOPIC = "first-record"
PARTITIONS = 6
RECORDS = 60_000
ROUNDS = 7
PATIENCE_MS = 30_000
PROGRAM = Path(__file__).with_name("FirstRecord.java")


class Result(NamedTuple):
    """Milliseconds to the first record."""

    ours: dict[str, float]
    java: float


async def getmany(bootstrap: str) -> float:
    began = time.perf_counter()
    async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        found = await consumer.getmany(timeout_ms=PATIENCE_MS)
        assert found, "no record came"
        return (time.perf_counter() - began) * 1000


def poll(bootstrap: str) -> float:
    began = time.perf_counter()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        found = consumer.poll(timeout_ms=PATIENCE_MS)
        assert found, "no record came"
        return (time.perf_counter() - began) * 1000


def ours(way: str, bootstrap: str) -> float:
    command = [sys.executable, "-m", "benchmarks.consume_start", way, bootstrap]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return float(done.stdout)


def run(rounds: int = ROUNDS) -> Result:
    taken: dict[str, list[float]] = {}
    with KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        with Producer(bootstrap_servers=kafka.bootstrap()) as producer:
            producer.send_many(TOPIC, [b"v" * 100] * RECORDS, [b"key-%d" % n for n in range(RECORDS)])
        for _ in range(rounds):
            for way in ("getmany", "poll"):
                taken.setdefault(way, []).append(ours(way, kafka.bootstrap()))
            said = java.run(kafka, str(PROGRAM), kafka.bootstrap(), TOPIC, str(PARTITIONS))
            taken.setdefault("java", []).append(float(said))
    medians = {way: statistics.median(times) for way, times in taken.items()}
    return Result(medians, medians.pop("java"))


def table(result: Result) -> str:
    lines = [f"{way:<12} {ms:>8.0f} ms" for way, ms in result.ours.items()]
    return "\n".join([*lines, f"{'Java':<12} {result.java:>8.0f} ms"])


def behind(result: Result) -> list[str]:
    """Where the promise is not kept, in words."""
    return [
        f"{way}: the first record comes after {ms:.0f} ms, Java's after {result.java:.0f}"
        for way, ms in result.ours.items()
        if ms > result.java
    ]


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["getmany"]:
        print(asyncio.run(getmany(arguments[1])))
    elif arguments[:1] == ["poll"]:
        print(poll(arguments[1]))
    else:
        result = run()
        print(table(result))
        print(*behind(result), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
