"""Closing the clients of a real broker that is frozen: in time, and every task, thread and socket is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from kclient.admin import Admin, AsyncAdmin
from kclient.errors import KafkaError
from kclient.threads import COMPRESSION, WAITING
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.versions import DEFAULT_VERSION

SHARED_THREADS = {COMPRESSION.name, WAITING.name}
IMPATIENT: dict[str, Any] = {"request_timeout_ms": 500, "socket_connection_setup_timeout_ms": 500}
KINDS: dict[str, dict[str, Any]] = {
    "assigned": {},
    "classic": {"group_protocol": "classic"},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture(scope="module")
def kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster() as cluster:
        cluster.create_topic("orders")
        with Producer(bootstrap_servers=cluster.bootstrap()) as producer:
            producer.send_and_wait("orders", b"first")
        yield cluster


@contextlib.contextmanager
def frozen(kafka: KafkaCluster) -> Iterator[None]:
    kafka.freeze(1)
    try:
        yield
    finally:
        kafka.thaw(1)


def sockets() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(str(descriptor.readlink()))
    return {target for target in found if target.startswith("socket:")}


def client_threads() -> set[threading.Thread]:
    """Those of single clients; what all clients of a process share ends by itself, some seconds later."""
    return {
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("kclient") and thread.name not in SHARED_THREADS
    }


def nothing_left() -> Callable[[], None]:
    """Gives what checks that no task, thread or socket has come since that is still there."""
    gc.collect()  # what others have left behind may go meanwhile, and must not be counted
    threads, before = client_threads(), sockets()

    def check() -> None:
        tasks = {*asyncio.all_tasks()} - {asyncio.current_task()} if asyncio._get_running_loop() else set()
        assert (tasks, client_threads() - threads, sockets() - before) == (set(), set(), set())

    return check


def options_of(kind: str) -> dict[str, Any]:
    group = {"group_id": uuid.uuid4().hex} if KINDS[kind] else {}
    return {"auto_offset_reset": "earliest", **IMPATIENT, **KINDS[kind], **group}


@pytest.mark.parametrize("kind", KINDS)
def test_an_asyncio_consumer_leaves_nothing(kafka: KafkaCluster, kind: str) -> None:
    async def main() -> None:
        check = nothing_left()
        consumers: list[AsyncConsumer[Any, Any]] = []
        for _ in range(3):
            consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
                bootstrap_servers=kafka.bootstrap(), **options_of(kind)
            )
            if KINDS[kind]:
                consumer.subscribe(["orders"])
            else:
                consumer.assign([TopicPartition("orders", 0)])
            await consumer.start()
            await consumer.getone()
            consumers.append(consumer)
        with frozen(kafka):
            # Until every request in flight is late, and new connections get no answer either.
            assert await consumers[0].getmany(timeout_ms=1_500) == {}
            began = time.monotonic()
            await asyncio.gather(*(consumer.close(timeout_ms=500) for consumer in consumers))
            assert time.monotonic() - began < 30
            check()

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_blocking_consumer_leaves_nothing(kafka: KafkaCluster, kind: str) -> None:
    check = nothing_left()
    consumer: Consumer[Any, Any] = Consumer(bootstrap_servers=kafka.bootstrap(), **options_of(kind))
    if KINDS[kind]:
        consumer.subscribe(["orders"])
    else:
        consumer.assign([TopicPartition("orders", 0)])
    consumer.start()
    assert next(iter(consumer)).value == b"first"
    with frozen(kafka):
        assert consumer.poll(timeout_ms=1_500) == {}
        consumer.close(timeout_ms=500)
        check()


def test_asyncio_producers_and_admins_leave_nothing(kafka: KafkaCluster) -> None:
    async def main() -> None:
        check = nothing_left()
        producer = AsyncProducer(bootstrap_servers=kafka.bootstrap(), **IMPATIENT)
        await producer.send_and_wait("orders", b"x")
        admin = AsyncAdmin(bootstrap_servers=kafka.bootstrap(), **IMPATIENT)
        await admin.list_topics()
        with frozen(kafka):
            delivery = await producer.send("orders", b"y")
            with pytest.raises(KafkaError):
                await admin.list_topics(timeout_ms=1_500)
            with pytest.raises(KafkaError, match="1 of topic orders"):
                await producer.close(timeout_ms=500)
            await admin.close(timeout_ms=500)
            check()
            with pytest.raises(KafkaError):
                await delivery

    asyncio.run(main())


def test_blocking_producers_and_admins_leave_nothing(kafka: KafkaCluster) -> None:
    check = nothing_left()
    producer = Producer(bootstrap_servers=kafka.bootstrap(), **IMPATIENT)
    producer.send_and_wait("orders", b"x")
    admin = Admin(bootstrap_servers=kafka.bootstrap(), **IMPATIENT)
    admin.list_topics()
    with frozen(kafka):
        producer.send("orders", b"y")
        with pytest.raises(KafkaError):
            admin.list_topics(timeout_ms=1_500)
        with pytest.raises(KafkaError, match="1 of topic orders"):
            producer.close(timeout_ms=500)
        admin.close(timeout_ms=500)
        check()
