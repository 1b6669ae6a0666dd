"""How long one record takes, one at a time: kclient against confluent-kafka and aiokafka on one real broker.

`python -m benchmarks.produce_latency` prints p50 and p99 of a send that waits for its record, in
microseconds, with nothing else under way. Nobody lingers, idempotence is on, six partitions, keys.
Contestants take turns within one run on one broker, each with a warm client of its own; the median of the
rounds counts.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kclient import AsyncProducer, Producer
from tools.kafka.cluster import KafkaCluster

TOPIC = "latency"
PARTITIONS = 6
WARM_UP = 100
RECORDS = 1_000
ROUNDS = 7
VALUE = b"v" * 100
KEYS = [b"customer-%d" % number for number in range(WARM_UP + RECORDS)]
# Ours must not be above theirs. Two equals differ by about as much in a run, the more so in their tails.
NOISE = {50: 1.05, 99: 1.15}

Contestant = Callable[[str], list[float]]


class Row(NamedTuple):
    """Seconds within which half of a contestant's records, and nearly all of them, were delivered."""

    name: str
    p50: float
    p99: float


def asyncio_(bootstrap: str) -> list[float]:
    async def main() -> list[float]:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            return await _timed(lambda key: producer.send_and_wait(TOPIC, VALUE, key))

    return asyncio.run(main())


def blocking(bootstrap: str) -> list[float]:
    taken = []
    with Producer(bootstrap_servers=bootstrap) as producer:
        for key in KEYS:
            began = time.perf_counter()
            producer.send_and_wait(TOPIC, VALUE, key)
            taken.append(time.perf_counter() - began)
    return taken


def confluent(bootstrap: str) -> list[float]:
    from confluent_kafka import Producer as Confluent  # noqa: PLC0415

    seen = 0

    def settled(error: Any, _: Any) -> None:
        nonlocal seen
        assert error is None, error
        seen += 1

    taken = []
    producer = Confluent({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for number, key in enumerate(KEYS):
        began = time.perf_counter()
        producer.produce(TOPIC, VALUE, key, on_delivery=settled)
        while seen <= number:
            producer.poll(1)
        taken.append(time.perf_counter() - began)
    return taken


def aiokafka(bootstrap: str) -> list[float]:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415

    async def main() -> list[float]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            return await _timed(lambda key: producer.send_and_wait(TOPIC, VALUE, key))
        finally:
            await producer.stop()

    return asyncio.run(main())


async def _timed(send: Callable[[bytes], Any]) -> list[float]:
    taken = []
    for key in KEYS:
        began = time.perf_counter()
        await send(key)
        taken.append(time.perf_counter() - began)
    return taken


CONTESTANTS: dict[str, Contestant] = {
    "asyncio": asyncio_,
    "blocking": blocking,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka,
}
OURS = ("asyncio", "blocking")


def race(bootstrap: str, names: Sequence[str], rounds: int = ROUNDS) -> list[Row]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            gc.collect()
            taken = sorted(CONTESTANTS[name](bootstrap)[WARM_UP:])
            if number:  # the first round warms up the broker and the code
                found[name].append((taken[len(taken) // 2], taken[len(taken) * 99 // 100]))
    return [
        Row(name, *(statistics.median(each) for each in zip(*rows, strict=True)))
        for name, rows in found.items()
    ]


def run(names: Sequence[str] = tuple(CONTESTANTS)) -> list[Row]:
    with KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        return race(kafka.bootstrap(), names)


def table(rows: list[Row]) -> str:
    lines = [f"{'microseconds':18}{'p50':>10}{'p99':>10}"]
    lines += [f"{row.name:18}{row.p50 * 1e6:>10,.0f}{row.p99 * 1e6:>10,.0f}" for row in rows]
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    """Where a record takes longer than with a peer, in words."""
    ours, theirs = ([row for row in rows if (row.name in OURS) is mine] for mine in (True, False))
    found = []
    for one in ours:
        for peer in theirs:
            for percent, mine, limit in ((50, one.p50, peer.p50), (99, one.p99, peer.p99)):
                if mine > limit * NOISE[percent]:
                    found.append(
                        f"latency p{percent}, {one.name}: {mine / limit:.2f} x {peer.name}, promised is 1"
                    )
    return found


if __name__ == "__main__":
    result = run(sys.argv[1:] or tuple(CONTESTANTS))
    print(table(result))
    print(*behind(result), sep="\n")
