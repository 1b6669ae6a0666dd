"""Memory of Spark's Python workers that read with kclient: flat over a long query, bounded by options.

`python -m benchmarks.spark_memory` reads one topic again and again in batches, with growing limits for what
is fetched and sent at once, and then as a stream of many micro-batches. It prints the most resident memory
that a worker, or the process with the stream's reader, had within each part of a query.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.spark_read import Shape, fill
from benchmarks.spark_session import spark_session
from tools.kafka.cluster import KafkaCluster

PARTITIONS = 6
SHAPE = Shape("memory", 1_001, 300_000)
ROUNDS = 5
PER_BATCH = 1_000  # records of a micro-batch
PARTS = 5
WORKER, READER = "pyspark.worker", "python_streaming_source_runner"
_LOOK_SECONDS = 0.02
_MEGABYTE = 1 << 20
# From the second part on, when everything has run, nothing grows by more than this.
GROWTH_LIMIT = 0.05
# Two answers, the Arrow batch, what is sent of it, what allocators keep of each; and code that runs first.
ANSWERS = 6
CONSTANT = 16 * _MEGABYTE


class Series(NamedTuple):
    """The most resident bytes of one process within each part, and the limit where options set one."""

    name: str
    parts: list[int]
    limit: int | None = None

    @property
    def growth(self) -> float:
        """From the second part, or the mean of its neighbours, to the end."""
        return self.parts[-1] / statistics.mean(self.parts[1:3]) - 1


class Watch:
    """Looks at the processes that Spark started, from a thread."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watch")

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def take(self) -> dict[str, int]:
        """The most that each kind of process had since the last call."""
        most, self._most = self._most, {}
        return most

    def _work(self) -> None:
        pids: list[tuple[int, str]] = []
        looks = 0
        while not self._ended.wait(_LOOK_SECONDS):
            if looks % 25 == 0:
                pids = list(_processes())
            looks += 1
            most = self._most
            for pid, kind in pids:
                most[kind] = max(most.get(kind, 0), _resident(pid))


def _processes() -> Iterator[tuple[int, str]]:
    """Those of this one's that read: the workers, which a daemon forked, and a stream's reader."""
    found: dict[int, tuple[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(path.name)] = parent, (path / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
    for pid, (parent, command) in found.items():
        if _descends(pid, found):
            if READER in command:
                yield pid, READER
            elif WORKER in command and WORKER in found[parent][1]:
                yield pid, WORKER


def _descends(pid: int, found: dict[int, tuple[int, str]]) -> bool:
    while pid in found:
        pid = found[pid][0]
        if pid == os.getpid():
            return True
    return False


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # it has ended
        return 0


def _options(servers: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": SHAPE.topic, **more}


def _read(session: Any, options: dict[str, str], expected: int) -> None:
    found = session.read.format("kclient").options(**options).load().selectExpr("sum(length(value))").first()
    assert found[0] == expected * SHAPE.size, found


def batches(session: Any, servers: str, watch: Watch) -> list[Series]:
    """The whole topic, again and again, with growing limits."""
    few = "{" + ",".join(f'"{number}":10' for number in range(PARTITIONS)) + "}"
    _read(session, _options(servers, endingOffsets=f'{{"{SHAPE.topic}":{few}}}'), 10 * PARTITIONS)
    time.sleep(1)
    before = watch.take()[WORKER]
    found: list[Series] = [Series("worker, almost nothing read", [before] * PARTS)]
    for megabytes in (1, 4, 16):
        size = megabytes * _MEGABYTE
        options = {"kafka.max.partition.fetch.bytes": str(size), "kclient.batchBytes": str(size)}
        parts: list[int] = []
        for _ in range(ROUNDS):
            watch.take()
            _read(session, _options(servers, **options), SHAPE.records)
            parts.append(watch.take()[WORKER])
        limit = before + ANSWERS * size + CONSTANT
        found.append(Series(f"worker, batches, {megabytes} MB at once", parts, limit))
    return found


def stream(session: Any, servers: str, watch: Watch) -> list[Series]:
    """The whole topic in micro-batches."""
    looks: list[tuple[int, dict[str, int]]] = []
    with tempfile.TemporaryDirectory(prefix="kclient-bench-") as checkpoint:
        watch.take()
        query = (
            session.readStream.format("kclient")
            .options(**_options(servers, startingOffsets="earliest", maxOffsetsPerTrigger=str(PER_BATCH)))
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            while query.isActive:
                time.sleep(0.25)
                looks.append((query.lastProgress["batchId"] if query.lastProgress else 0, watch.take()))
        finally:
            query.stop()
    number = SHAPE.records // PER_BATCH
    assert looks[-1][0] >= number - 1, f"{looks[-1][0]} micro-batches of {number}"
    return [
        Series(f"{name}, {number} micro-batches", _by_part(looks, kind, number))
        for name, kind in (("worker", WORKER), ("reader on the driver", READER))
    ]


def _by_part(looks: list[tuple[int, dict[str, int]]], kind: str, number: int) -> list[int]:
    parts = [0] * PARTS
    for batch, most in looks:
        place = min(PARTS - 1, batch * PARTS // number)
        parts[place] = max(parts[place], most.get(kind, 0))
    return parts


def run(session: Any, servers: str, create: Callable[[str, int], object]) -> list[Series]:
    """Nothing where the system does not tell how much memory a process has."""
    if not Path("/proc/self/statm").exists():
        return []
    create(SHAPE.topic, PARTITIONS)
    fill(servers, SHAPE)
    with Watch() as watch:
        return batches(session, servers, watch) + stream(session, servers, watch)


def table(found: list[Series]) -> str:
    lines = []
    for series in found:
        limit = "" if series.limit is None else f" (at most {series.limit / _MEGABYTE:.0f})"
        sizes = " ".join(f"{each / _MEGABYTE:6.1f}" for each in series.parts)
        lines.append(f"{series.name:<40} {sizes} MB{limit}, growth {series.growth:+.1%}")
    return "\n".join(lines)


def behind(found: list[Series]) -> list[str]:
    """What grew, or was more than the options allow."""
    grown = [
        f"Spark, memory: {series.name} grew by {series.growth:.1%}"
        for series in found
        if series.growth > GROWTH_LIMIT
    ]
    return grown + [
        f"Spark, memory: {series.name} had {max(series.parts)} bytes, not {series.limit}"
        for series in found
        if series.limit is not None and max(series.parts) > series.limit
    ]


def main() -> None:
    with KafkaCluster() as kafka, spark_session() as session:
        found = run(session, kafka.bootstrap(), kafka.create_topic)
    print(table(found))
    print(*behind(found), sep="\n")


if __name__ == "__main__":
    main()
