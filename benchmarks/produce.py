"""Producing to a real broker: kclient against confluent-kafka, aiokafka and kafka-python.

`python -m benchmarks.produce` prints records per second and ratios. Six partitions, records with keys,
idempotence on (kafka-python and aiokafka as well), the fate of every record observed: by a callback per
record where the peer has one, by a future per record where it has that, by one callback per list for
`send_many`. Contestants take turns on one broker within one run; the median of the rounds counts.

What is timed begins when a first record was delivered and ends with the last: connecting is not sending, and
librdkafka takes half a second for the identity of an idempotent producer, which is as long as the rest.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kclient import AsyncProducer, Producer
from tools.kafka.cluster import KafkaCluster

TOPIC = "produce"
PARTITIONS = 6
ROUNDS = 3
# What kclient promises, as a multiple of confluent-kafka's rate, by contestant and shape.
FLOORS = {
    ("asyncio", "100 B"): 1.2,
    ("blocking", "100 B"): 1.0,
    ("send_many", "100 B"): 1.8,
    ("asyncio", "1 KB"): 0.9,
    ("asyncio", "1 KB lz4"): 0.8,
}
AIOKAFKA_FLOOR = 5.0


class Shape(NamedTuple):
    """Records to send."""

    name: str
    size: int
    number: int
    codec: str | None = None

    def records(self) -> tuple[list[bytes], list[bytes]]:
        """Keys, all different, and values: text that compresses to about a third."""
        words = b"orders customer apples three shipped pending 2026 category price amount "
        noise = random.Random(self.size)
        values = [
            (noise.randbytes(self.size // 6).hex().encode() + words * (self.size // len(words) + 1))[
                : self.size
            ]
            for _ in range(1_000)
        ]
        keys = [b"customer-%07d" % number for number in range(self.number)]
        return keys, [values[number % 1_000] for number in range(self.number)]


SHAPES = (
    Shape("100 B", 100, 400_000),
    Shape("1 KB", 1_000, 100_000),
    Shape("1 KB lz4", 1_000, 100_000, "lz4"),
)

# The seconds from the first of the records to the last that was delivered.
Contestant = Callable[[str, Shape, Sequence[bytes], Sequence[bytes]], float]


class Row(NamedTuple):
    """Records per second of every contestant for one shape."""

    shape: str
    rates: dict[str, float]


async def _asyncio(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    seen = 0

    def settled(delivery: Any) -> None:
        nonlocal seen
        if delivery.exception() is None:
            seen += 1

    async with AsyncProducer(bootstrap_servers=bootstrap, compression_type=shape.codec) as producer:
        await producer.send_and_wait(TOPIC, b"first")
        began = time.perf_counter()
        for key, value in zip(keys, values, strict=True):
            (await producer.send(TOPIC, value, key)).add_done_callback(settled)
        await producer.flush()
        taken = time.perf_counter() - began
    assert seen == shape.number
    return taken


def asyncio_(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    return asyncio.run(_asyncio(bootstrap, shape, keys, values))


def blocking(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    seen = 0

    def settled(delivery: Any) -> None:
        nonlocal seen
        if delivery.exception() is None:
            seen += 1

    with Producer(bootstrap_servers=bootstrap, compression_type=shape.codec) as producer:
        producer.send_and_wait(TOPIC, b"first")
        began = time.perf_counter()
        for key, value in zip(keys, values, strict=True):
            producer.send(TOPIC, value, key).add_done_callback(settled)
        producer.flush()
        taken = time.perf_counter() - began
    assert seen == shape.number
    return taken


def send_many(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    async def main() -> float:
        async with AsyncProducer(bootstrap_servers=bootstrap, compression_type=shape.codec) as producer:
            await producer.send_and_wait(TOPIC, b"first")
            began = time.perf_counter()
            sent = [
                await producer.send_many(TOPIC, values[at : at + 10_000], keys[at : at + 10_000])
                for at in range(0, len(values), 10_000)
            ]
            await producer.flush()
            assert sum([len(await each) for each in sent]) == shape.number
            return time.perf_counter() - began

    return asyncio.run(main())


def threads16(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    """Sixteen threads on one producer."""
    seen: list[None] = []

    def settled(delivery: Any) -> None:
        if delivery.exception() is None:
            seen.append(None)

    with Producer(bootstrap_servers=bootstrap, compression_type=shape.codec) as producer:

        def work(first: int) -> None:
            for at in range(first, shape.number, 16):
                producer.send(TOPIC, values[at], keys[at]).add_done_callback(settled)

        producer.send_and_wait(TOPIC, b"first")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        taken = time.perf_counter() - began
    assert len(seen) == shape.number
    return taken


def confluent(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    from confluent_kafka import Producer as Confluent  # noqa: PLC0415

    seen = 0

    def settled(error: Any, _: Any) -> None:
        nonlocal seen
        if error is None:
            seen += 1

    producer = Confluent(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": shape.codec or "none",
        }
    )
    producer.produce(TOPIC, b"first")
    producer.flush()
    began = time.perf_counter()
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        producer.produce(TOPIC, value, key, on_delivery=settled)
        if not number % 1_000:
            producer.poll(0)
    producer.flush()
    taken = time.perf_counter() - began
    assert seen == shape.number
    return taken


def aiokafka(bootstrap: str, shape: Shape, keys: Sequence[bytes], values: Sequence[bytes]) -> float:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415

    async def main() -> float:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, compression_type=shape.codec, linger_ms=5
        )
        await producer.start()
        await producer.send_and_wait(TOPIC, b"first")
        began = time.perf_counter()
        futures = [await producer.send(TOPIC, value, key) for key, value in zip(keys, values, strict=True)]
        await producer.flush()
        assert sum(future.exception() is None for future in futures) == shape.number
        taken = time.perf_counter() - began
        await producer.stop()
        return taken

    return asyncio.run(main())


CONTESTANTS: dict[str, Contestant] = {
    "asyncio": asyncio_,
    "blocking": blocking,
    "16 threads": threads16,
    "send_many": send_many,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka,
}


def race(bootstrap: str, shape: Shape, rounds: int, names: Sequence[str]) -> Row:
    keys, values = shape.records()
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            seconds = CONTESTANTS[name](bootstrap, shape, keys, values)
            if number:  # the first round warms up
                taken[name].append(seconds)
    return Row(shape.name, {name: shape.number / statistics.median(times) for name, times in taken.items()})


def run(
    rounds: int = ROUNDS, names: Sequence[str] = tuple(CONTESTANTS), shapes: Sequence[Shape] = SHAPES
) -> list[Row]:
    with KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        return [race(kafka.bootstrap(), shape, rounds, names) for shape in shapes]


def table(rows: list[Row]) -> str:
    names = list(rows[0].rates)
    lines = ["".join(["records/s".ljust(12), *(name.rjust(17) for name in names)])]
    for row in rows:
        lines.append("".join([row.shape.ljust(12), *(f"{row.rates[name]:17,.0f}" for name in names)]))
        reference = row.rates.get("confluent-kafka")
        if reference:
            ratios = (f"{row.rates[name] / reference:16.2f}x" for name in names)
            lines.append("".join(["".ljust(12), *ratios]))
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    found = []
    for row in rows:
        for (name, shape), floor in FLOORS.items():
            ratio = row.rates[name] / row.rates["confluent-kafka"]
            if shape == row.shape and ratio < floor:
                found.append(f"produce {shape}, {name}: {ratio:.2f} of confluent-kafka, promised {floor}")
        ratio = row.rates["asyncio"] / row.rates["aiokafka"]
        if ratio < AIOKAFKA_FLOOR:
            found.append(f"produce {row.shape}: {ratio:.2f} of aiokafka, promised {AIOKAFKA_FLOOR}")
    return found


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(CONTESTANTS)
    print(table(run(names=chosen)))
