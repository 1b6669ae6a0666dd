"""confluent-kafka for tests: its clients with short waits, and every wait bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer

PATIENCE = 15.0


def produce(servers: str, topic: str, values: list[bytes], **config: Any) -> list[Any]:
    """Send values, wait for all reports, give back the messages of those that came."""
    reported: list[Any] = []

    def report(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        reported.append(message)

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **config})
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"%d" % number, headers={"n": b"%d" % number}, on_delivery=report)
    assert producer.flush(PATIENCE) == 0
    return reported


def produce_at(servers: str, topic: str, times: Mapping[str, int]) -> None:
    """Send values as their own keys, with timestamps, in zstd."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "zstd"})
    for value, timestamp in times.items():
        producer.produce(topic, value, value, timestamp=timestamp, headers={"from": "librdkafka"})
    assert producer.flush(PATIENCE) == 0


@contextmanager
def consumer(servers: str, **config: Any) -> Iterator[Any]:
    made = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "strangers",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            **config,
        }
    )
    with closing(made):
        yield made


def take(source: Any, count: int) -> list[Any]:
    """So many messages, or a failure that says how many came."""
    found: list[Any] = []
    until(lambda: _poll(source, found) or len(found) >= count, lambda: f"{len(found)} of {count} came")
    return found


def _poll(source: Any, found: list[Any]) -> bool:
    message = source.poll(0.1)
    if message is not None:
        assert message.error() is None, message.error()
        found.append(message)
    return False


def until(done: Callable[[], object], failure: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, failure()
