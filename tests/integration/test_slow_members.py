"""Members with slow work on a real broker: while they come and go, nothing is done twice.

All groups run at the same time, those of librdkafka beside them for comparison (`-s` shows the figures).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Lock
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as TheirConsumer

from kclient import Admin, AsyncConsumer, Consumer, Producer
from kclient.admin import NewTopic
from tools.kafka.provider import PlainKafka

PARTITIONS = 4
RECORDS = 200  # more than can be done
BATCH = 8
WORK = 0.8
# When members come, and when they stop asking for records, in seconds: others are in the middle of a batch.
STAYS = ((0.0, 5.0), (1.5, 7.5), (2.6, 3.9), (4.2, 6.6))
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky"},
    "kip848": {"group_protocol": "consumer"},
}
Place = tuple[int, int]


class Group:
    """One group on a topic of its own, and what its members did."""

    def __init__(self, servers: str, client: str, protocol: str, auto: bool) -> None:
        self.name = f"{client} {protocol} {'auto' if auto else 'manual'}"
        self.topic = f"slow-{uuid4().hex[:8]}"
        self.auto = auto
        self.client = client
        self.protocol = protocol
        self.options: dict[str, Any] = {
            "bootstrap_servers": servers,
            "group_id": self.topic,
            "enable_auto_commit": auto,
            "auto_offset_reset": "earliest",
        }
        self._lock = Lock()
        self._in_hand: Counter[Place] = Counter()
        self.done: Counter[Place] = Counter()
        self.in_two_hands = 0

    def taken(self, batch: Iterable[Place]) -> None:
        with self._lock:
            self.in_two_hands += sum(self._in_hand[place] > 0 for place in batch)
            self._in_hand.update(batch)

    def finished(self, batch: Iterable[Place]) -> None:
        with self._lock:
            self._in_hand.subtract(batch)
            self.done.update(batch)

    @property
    def twice(self) -> int:
        return self.done.total() - len(self.done)

    def ours(self) -> dict[str, Any]:
        return self.options | PROTOCOLS[self.protocol] | {"heartbeat_interval_ms": 300}

    def theirs(self) -> dict[str, Any]:
        options = {name.replace("_", "."): value for name, value in self.options.items()}
        if self.protocol == "kip848":
            return options | {"group.protocol": "consumer"}
        return options | {
            "partition.assignment.strategy": self.protocol,
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 6_000,  # it may fail to say good-bye
        }


async def on_a_loop(group: Group, comes: float, goes: float) -> None:
    await asyncio.sleep(comes)
    ends = time.monotonic() + goes - comes
    async with AsyncConsumer(group.topic, **group.ours()) as consumer:
        while time.monotonic() < ends:
            got = await consumer.getmany(timeout_ms=200, max_records=BATCH)
            batch = [(each.partition, each.offset) for records in got.values() for each in records]
            group.taken(batch)
            await asyncio.sleep(WORK if batch else 0)
            group.finished(batch)
            if batch and not group.auto:
                await consumer.commit()


def on_a_thread(group: Group, comes: float, goes: float) -> None:
    time.sleep(comes)
    ends = time.monotonic() + goes - comes
    with Consumer(group.topic, **group.ours()) as consumer:
        while time.monotonic() < ends:
            got = consumer.poll(timeout_ms=200, max_records=BATCH)
            batch = [(each.partition, each.offset) for records in got.values() for each in records]
            group.taken(batch)
            time.sleep(WORK if batch else 0)
            group.finished(batch)
            if batch and not group.auto:
                consumer.commit()


def of_librdkafka(group: Group, comes: float, goes: float) -> None:
    time.sleep(comes)
    ends = time.monotonic() + goes - comes
    consumer = TheirConsumer(group.theirs())
    consumer.subscribe([group.topic])
    while time.monotonic() < ends:
        batch = [_place(message) for message in consumer.consume(BATCH, 0.2) if message.error() is None]
        group.taken(batch)
        time.sleep(WORK if batch else 0)
        group.finished(batch)
        if batch and not group.auto:
            consumer.commit(asynchronous=True)  # it fails a commit that meets a rebalance
    consumer.close()


def _place(message: Any) -> Place:
    return message.partition(), message.offset()


async def run(groups: list[Group]) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(groups) * len(STAYS)) as threads:
        members: list[asyncio.Future[None]] = []
        for group, (comes, goes) in product(groups, STAYS):
            if group.client == "asyncio":
                members.append(asyncio.create_task(on_a_loop(group, comes, goes)))
            else:
                work = on_a_thread if group.client == "blocking" else of_librdkafka
                members.append(loop.run_in_executor(threads, work, group, comes, goes))
        await asyncio.gather(*members)


def fill(servers: str, groups: list[Group]) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(group.topic, PARTITIONS) for group in groups])
    with Producer(bootstrap_servers=servers) as producer:
        for group, number in product(groups, range(RECORDS * PARTITIONS)):
            producer.send(group.topic, b"work", partition=number % PARTITIONS)


@pytest.mark.parametrize("auto", [True, False], ids=["auto commit", "manual commits"])
def test_what_members_work_on_is_not_given_to_others(kafka: PlainKafka, auto: bool) -> None:
    clients = ("asyncio", "blocking", "librdkafka")
    groups = [Group(kafka.bootstrap(), client, each, auto) for client, each in product(clients, PROTOCOLS)]
    fill(kafka.bootstrap(), groups)
    asyncio.run(asyncio.wait_for(run(groups), 120))
    for group in groups:
        print(f"{group.name}: {len(group.done)} done, {group.twice} twice, {group.in_two_hands} in two hands")
    assert all(group.done for group in groups)
    assert {group.name: group.twice for group in groups if group.client != "librdkafka" and group.twice} == {}
    assert not any(group.in_two_hands for group in groups if group.client != "librdkafka")
