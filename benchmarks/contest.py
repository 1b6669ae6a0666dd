"""One contestant in one discipline, in a process of its own, started by `overview`.

Prints one line of JSON: records per second, or latencies in microseconds, and the most memory that the
process ever had. A process of its own keeps one client's garbage, threads and memory out of the figures of
the others. Java's tools are programs already: see `java`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import consume, produce, produce_latency
from benchmarks.produce_memory import resident

KAFKA_PYTHON = "kafka-python"


def kafka_python_produce(bootstrap: str, shape: produce.Shape, keys: Any, values: Any) -> float:
    from kafka import KafkaProducer  # noqa: PLC0415 - one peer per process

    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, compression_type=shape.codec)
    producer.send(produce.TOPIC, b"first").get(timeout=30)
    began = time.perf_counter()
    futures = [producer.send(produce.TOPIC, value, key) for key, value in zip(keys, values, strict=True)]
    producer.flush()
    taken = time.perf_counter() - began
    assert all(future.succeeded() for future in futures)
    producer.close()
    return taken


def kafka_python_consume(bootstrap: str, shape: consume.Shape) -> float:
    from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415

    watch = consume.Stopwatch()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(shape.topic, number) for number in range(consume.PARTITIONS)])
    while watch.count < shape.records:
        found = consumer.poll(timeout_ms=int(consume.PATIENCE * 1000), max_records=consume.AT_ONCE)
        watch.add(sum(map(len, found.values())))
    rate = watch.rate()
    consumer.close()
    return rate


def kafka_python_latency(bootstrap: str) -> list[float]:
    from kafka import KafkaProducer  # noqa: PLC0415

    taken = []
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for key in produce_latency.KEYS:
        began = time.perf_counter()
        producer.send(produce_latency.TOPIC, produce_latency.VALUE, key).get(timeout=30)
        taken.append(time.perf_counter() - began)
    producer.close()
    return taken


def produced(name: str, bootstrap: str, size: int, number: int) -> dict[str, float]:
    shape = produce.Shape(f"{size} B", size, number)
    contestant = kafka_python_produce if name == KAFKA_PYTHON else produce.CONTESTANTS[name]
    warm = shape._replace(number=max(2_000, number // 20))
    contestant(bootstrap, warm, *warm.records())
    return {"rate": number / contestant(bootstrap, shape, *shape.records())}


def consumed(name: str, bootstrap: str, size: int, number: int) -> dict[str, float]:
    shape = consume.Shape(f"{size} B", size, number)
    if name == KAFKA_PYTHON:
        return {"rate": kafka_python_consume(bootstrap, shape)}
    return {"rate": asyncio.run((consume.OURS | consume.PEERS)[name](bootstrap, shape))}


def delayed(name: str, bootstrap: str, *_: int) -> dict[str, float]:
    contestant = kafka_python_latency if name == KAFKA_PYTHON else produce_latency.CONTESTANTS[name]
    taken = sorted(contestant(bootstrap)[produce_latency.WARM_UP :])
    return {"p50": taken[len(taken) // 2] * 1e6, "p99": taken[len(taken) * 99 // 100] * 1e6}


DISCIPLINES: dict[str, Callable[..., dict[str, float]]] = {
    "produce": produced,
    "consume": consumed,
    "latency": delayed,
}


def main(discipline: str, name: str, bootstrap: str, size: str, number: str) -> None:
    found = DISCIPLINES[discipline](name, bootstrap, int(size), int(number))
    # Not `getrusage`, whose maximum begins with that of the process which started this one.
    print(json.dumps({**found, "memory": resident("VmHWM")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
