"""`make bench`: kclient and its peers in one run on one broker; one table, and where kclient is behind.

Every contestant runs in a fresh process (`contest`), contestants take turns, the median of the rounds counts.
The detailed races with the promised floors are the other modules here, see `make bench-all`; `picture` draws
what this one found.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from benchmarks import consume, imports, java, produce, produce_latency, spark_read, spark_write
from benchmarks.spark_session import spark_session
from tools.kafka.cluster import KafkaCluster

ROUNDS = 3
PATIENCE = 300.0
PACKAGES = ("kclient-kafka", "confluent-kafka", "aiokafka", "kafka-python", "pyspark")

# Who runs in which discipline under which name. Java's performance tools need no process of ours.
PRODUCERS = {
    "kclient, asyncio": "asyncio",
    "kclient, blocking": "blocking",
    "kclient, lists": "send_many",
    "confluent-kafka": "confluent-kafka",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka-python",
    "Java": "java",
}
CONSUMERS = {
    "kclient, asyncio": "getmany",
    "kclient, blocking": "poll",
    "kclient, Arrow": "getarrow",
    "confluent-kafka": "confluent-kafka",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka-python",
    "Java": "java",
}
WAITERS = {name: who for name, who in PRODUCERS.items() if who not in ("send_many", "java")}
CONNECTORS = {
    "kclient": "kclient",
    "kclient, value only": "kclient, value only",
    "kafka, tuned": "Spark's own, tuned",
    "kafka, defaults": "Spark's own",
}
# Slow ones are given fewer records, so that a run stays short; rates do not depend on it.
SLOW = {"aiokafka": 4, "kafka-python": 10}


@dataclass
class Discipline:
    """One line of the table: a figure for each contestant."""

    name: str
    unit: str
    more_is_better: bool
    figures: dict[str, float] = field(default_factory=dict)

    def best_peer(self) -> str:
        peers = [name for name in self.figures if not name.startswith("kclient")]
        return (max if self.more_is_better else min)(peers, key=self.figures.__getitem__)

    def ratio(self, name: str) -> float:
        """How many times as good as the best peer; above 1 is better."""
        mine, best = self.figures[name], self.figures[self.best_peer()]
        return mine / best if self.more_is_better else best / mine


def contest(discipline: str, name: str, bootstrap: str, size: int = 0, number: int = 0) -> dict[str, float]:
    """One run of one contestant, in its own process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.contest"]
    done = subprocess.run(
        [*command, discipline, name, bootstrap, str(size), str(number)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def race(
    names: dict[str, str], run: Callable[[str], dict[str, float]], rounds: int
) -> dict[str, dict[str, float]]:
    """The median of every figure of every contestant, who take turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, contestant in names.items():
            found[name].append(run(contestant))
    return {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in found.items()
    }


def producing(kafka: KafkaCluster, size: int, number: int, rounds: int) -> Discipline:
    def run(name: str) -> dict[str, float]:
        if name == "java":
            return {"rate": java.produce(kafka, produce.TOPIC, size, number)}
        return contest("produce", name, kafka.bootstrap(), size, number // SLOW.get(name, 1))

    found = race(PRODUCERS, run, rounds)
    figures = {name: figures["rate"] for name, figures in found.items()}
    return Discipline(f"produce {_size(size)}", "records/s", True, figures)


def consuming(kafka: KafkaCluster, size: int, number: int, rounds: int) -> list[Discipline]:
    """Rates, and the memory that reading took."""
    shape = consume.Shape(_size(size), size, number)
    kafka.create_topic(shape.topic, consume.PARTITIONS)
    consume.fill(kafka.bootstrap(), shape)

    def run(name: str) -> dict[str, float]:
        if name == "java":
            return {"rate": java.consume(kafka, shape.topic, number)}
        return contest("consume", name, kafka.bootstrap(), size, number // SLOW.get(name, 1))

    found = race(CONSUMERS, run, rounds)
    rates = {name: figures["rate"] for name, figures in found.items()}
    memory = {name: figures["memory"] / 1e6 for name, figures in found.items() if "memory" in figures}
    return [
        Discipline(f"consume {_size(size)}", "records/s", True, rates),
        Discipline(f"memory, consuming {_size(size)}", "MB", False, memory),
    ]


def waiting(kafka: KafkaCluster, rounds: int) -> list[Discipline]:
    kafka.create_topic(produce_latency.TOPIC, produce_latency.PARTITIONS)
    found = race(WAITERS, lambda name: contest("latency", name, kafka.bootstrap()), rounds)
    return [
        Discipline(f"latency {key}", "µs", False, {name: figures[key] for name, figures in found.items()})
        for key in ("p50", "p99")
    ]


def importing() -> Discipline:
    names = {"kclient.AsyncProducer": "kclient, asyncio"}
    rows = {names.get(row.name, row.name): row.milliseconds for row in imports.run()}
    wanted = ("kclient, asyncio", "confluent-kafka", "aiokafka", "kafka-python")
    return Discipline("import", "ms", False, {name: rows[name] for name in wanted})


def in_spark(kafka: KafkaCluster, rounds: int) -> list[Discipline]:
    """Batches of 100 B read and written with both connectors in one session."""
    servers, create = kafka.bootstrap(), kafka.create_topic
    reading, writing = spark_read.SHAPES[0], spark_write.SHAPES[0]
    create(reading.topic, spark_read.PARTITIONS)
    spark_read.fill(servers, reading)
    with spark_session() as session:
        read = spark_read.measure(session, servers, reading, rounds).speeds
        written = spark_write.measure(session, servers, create, writing, rounds).speeds
    return [
        Discipline(
            f"Spark, {what} {shape.name}", "rows/s", True, {CONNECTORS[name]: speeds[name] for name in speeds}
        )
        for what, shape, speeds in (("read", reading, read), ("write", writing, written))
    ]


def run(rounds: int = ROUNDS) -> list[Discipline]:
    found = []
    with KafkaCluster() as kafka:
        kafka.create_topic(produce.TOPIC, produce.PARTITIONS)
        found.append(producing(kafka, 100, 400_000, rounds))
        found.append(producing(kafka, 1_000, 200_000, rounds))
        small, *_ = consuming(kafka, 100, 1_000_000, rounds)
        large, memory = consuming(kafka, 1_000, 300_000, rounds)
        found += [small, large, *waiting(kafka, rounds), memory]
        found.append(importing())
        found += in_spark(kafka, rounds)
    return found


def table(found: Sequence[Discipline]) -> str:
    lines = []
    for each in found:
        lines.append(f"\n{each.name} ({each.unit}, {'more' if each.more_is_better else 'less'} is better)")
        for name, figure in each.figures.items():
            ratio = f"{each.ratio(name):8.2f} x the best peer" if name.startswith("kclient") else ""
            lines.append(f"  {name:26}{figure:>14,.0f}{ratio}")
    return "\n".join(lines)


def behind(found: Sequence[Discipline]) -> list[str]:
    """Where the best way to use kclient is behind a peer, in words."""
    said = []
    for each in found:
        best = max((name for name in each.figures if name.startswith("kclient")), key=each.ratio)
        if each.ratio(best) < 1:
            said.append(f"{each.name}: {each.ratio(best):.2f} of {each.best_peer()}")
    return said


def method(rounds: int = ROUNDS) -> str:
    """What was compared and how, in two lines for the table and the picture."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Python {platform.python_version()}, {packages}\n"
        f"one Kafka broker and all clients on one machine, 6 partitions, keys, acks=all with idempotence, "
        f"every delivery observed; each client in a process of its own, taking turns; medians of {rounds}"
    )


def _size(size: int) -> str:
    return f"{size} B" if size < 1_000 else f"{size // 1_000} KB"


def main() -> None:
    from benchmarks import picture  # noqa: PLC0415 - it draws what is declared here

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    found = run(rounds)
    print(method(rounds))
    print(table(found))
    lacking = behind(found)
    print("\nBehind a peer:" if lacking else "\nBehind a peer: nowhere")
    print(*lacking, sep="\n")
    picture.draw(found, method(rounds))
    print(f"\ndrawn: {picture.PATH.relative_to(picture.PATH.parents[1])}")


if __name__ == "__main__":
    main()
