"""A member of a group in a process of its own, so that it can be killed: `python -m tests.broker.member`.

Speaks as Kafka's `VerifiableConsumer` does: an event per line, as JSON, of partitions that it got and lost
and of every record. Reads from "shared" until it is killed or its parent is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from tests.broker.killing import TOPIC

Report = Callable[[Iterable[Any]], None]


def _print(name: str, **found: Any) -> None:
    print(json.dumps({"name": name, **found}), flush=True)


def _reporter(name: str) -> Report:
    return lambda partitions: _print(
        name, partitions=[{"topic": part.topic, "partition": part.partition} for part in partitions]
    )


_assigned, _revoked = _reporter("partitions_assigned"), _reporter("partitions_revoked")


def _record(value: bytes) -> None:
    _print("record_data", value=value.decode())


def confluent(options: dict[str, Any]) -> None:
    consumer = import_module("confluent_kafka").Consumer({"fetch.wait.max.ms": 100, **options})
    consumer.subscribe(
        [TOPIC], on_assign=lambda _, parts: _assigned(parts), on_revoke=lambda _, parts: _revoked(parts)
    )
    while True:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            _record(message.value())


def aiokafka(options: dict[str, Any]) -> None:
    module: Any = import_module("aiokafka")

    class Listener(module.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            _revoked(revoked)

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            _assigned(assigned)

    async def read() -> None:
        consumer = module.AIOKafkaConsumer(fetch_max_wait_ms=100, **options)
        consumer.subscribe([TOPIC], listener=Listener())
        await consumer.start()
        async for record in consumer:
            _record(record.value)

    asyncio.run(read())


def kafka_python(options: dict[str, Any]) -> None:
    module: Any = import_module("kafka")

    class Listener(module.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            _revoked(revoked)

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            _assigned(assigned)

    consumer = module.KafkaConsumer(fetch_max_wait_ms=100, **options)
    consumer.partitions_for_topic(TOPIC)  # it can lose an assignment that comes before it knows the topic
    consumer.subscribe([TOPIC], listener=Listener())
    while True:
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                _record(record.value)


def _end_with_parent() -> None:
    """Ends the process when the stdin that its parent holds open does."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    clients = {"confluent": confluent, "aiokafka": aiokafka, "kafka-python": kafka_python}
    clients[sys.argv[1]](json.loads(sys.argv[2]))
