"""Memory of a consumer in front of a backlog of 5 GB: what it holds is bounded by `prefetch_max_bytes`.

`python -m benchmarks.consume_memory` prints the most resident memory of a process that reads the backlog from
a real broker: as records and as Arrow, with the client's defaults. Now and then the application stops for
long enough that everything that may be fetched ahead is; it keeps nothing of what it was given.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.produce_memory import resident
from kclient import AsyncConsumer, Consumer, Producer, TopicPartition
from tools.kafka.cluster import KafkaCluster

TOPIC = "backlog"
PARTITIONS = 6
SIZE = 10_000
RECORDS = 500_000
PREFETCH = 64 * 1024 * 1024
MOST_BESIDES = 100_000_000
PAUSES = 5
PAUSE = 0.7
PATIENCE_MS = 30_000
WAYS = ("getmany", "getarrow", "poll")


class Result(NamedTuple):
    """Resident bytes of one way of reading: before the first record, the most, and what was prefetched."""

    way: str
    before: int
    most: int
    prefetched: int


class Meter:
    """Counts records, and says when the application stops."""

    def __init__(self) -> None:
        self.before = resident()
        self.prefetched = 0
        self._count = 0
        self._pause_at = 1

    @property
    def done(self) -> bool:
        return self._count >= RECORDS

    def add(self, count: int) -> bool:
        """Whether it stops here."""
        self._count += count
        if self._count < self._pause_at:
            return False
        self._pause_at = self._count + RECORDS // PAUSES
        return True


async def read(bootstrap: str, way: str) -> Result:
    meter = Meter()
    async with AsyncConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", prefetch_max_bytes=PREFETCH
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        while not meter.done:
            if way == "getarrow":
                count = (await consumer.getarrow(timeout_ms=PATIENCE_MS)).num_rows
            else:
                count = sum(map(len, (await consumer.getmany(timeout_ms=PATIENCE_MS)).values()))
            assert count, "no record came"
            if meter.add(count):
                await asyncio.sleep(PAUSE)
                meter.prefetched = max(meter.prefetched, consumer.metrics().bytes_buffered)
    return Result(way, meter.before, resident("VmHWM"), meter.prefetched)


def read_on_a_thread(bootstrap: str) -> Result:
    meter = Meter()
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", prefetch_max_bytes=PREFETCH
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        while not meter.done:
            count = sum(map(len, consumer.poll(timeout_ms=PATIENCE_MS).values()))
            assert count, "no record came"
            if meter.add(count):
                time.sleep(PAUSE)
                meter.prefetched = max(meter.prefetched, consumer.metrics().bytes_buffered)
    return Result("poll", meter.before, resident("VmHWM"), meter.prefetched)


def fill(bootstrap: str) -> None:
    values = [os.urandom(SIZE) for _ in range(1000)]
    with Producer(bootstrap_servers=bootstrap, batch_size=1_000_000) as producer:
        for number in range(RECORDS // len(values)):
            for first in range(0, len(values), 100):
                producer.send_many(TOPIC, values[first : first + 100], partition=number % PARTITIONS)


def run() -> list[Result]:
    """Nothing where the system does not tell how much memory a process has."""
    if not Path("/proc/self/status").exists():
        return []
    found = []
    with KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        fill(kafka.bootstrap())
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.consume_memory", way, kafka.bootstrap()]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
            found.append(Result(*json.loads(done.stdout)))
    return found


def table(results: list[Result]) -> str:
    lines = [f"{'':<12}{'before MB':>12}{'most MB':>12}{'prefetched MB':>16}"]
    lines += [
        f"{way:<12}{before / 1e6:>12.1f}{most / 1e6:>12.1f}{prefetched / 1e6:>16.1f}"
        for way, before, most, prefetched in results
    ]
    lines.append(f"{'allowed':<12}{'':>12}{(PREFETCH + MOST_BESIDES) / 1e6:>12.1f}{PREFETCH / 1e6:>16.1f}")
    return "\n".join(lines)


def behind(results: list[Result]) -> list[str]:
    """Where the promise is not kept, in words."""
    found = [
        f"{each.way}: {each.most / 1e6:.1f} MB under a backlog, promised are "
        f"{(PREFETCH + MOST_BESIDES) / 1e6:.1f}"
        for each in results
        if each.most > PREFETCH + MOST_BESIDES
    ]
    return found + [
        f"{each.way}: only {each.prefetched / 1e6:.1f} MB were prefetched: memory was not put to the test"
        for each in results
        if each.prefetched < PREFETCH // 2
    ]


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["poll"]:
        print(json.dumps(read_on_a_thread(arguments[1])))
    elif arguments:
        print(json.dumps(asyncio.run(read(arguments[1], arguments[0]))))
    else:
        results = run()
        print(table(results))
        print(*behind(results), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
