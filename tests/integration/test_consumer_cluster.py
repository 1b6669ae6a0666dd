"""Groups of consumers on three real brokers that are killed, restarted and frozen while records are written.

Two groups read the same topic, one of each protocol: every record reaches both of them, nothing is left out,
and a member goes back only after a rebalance. Two groups of Java's read it beside them, through the same
faults and with the same coordinator: `-s` shows for how long the unluckiest partition brought no records, to
us and to them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from kclient.consumer import AsyncConsumer
from kclient.producer import AsyncProducer
from kclient.types import Record, TopicPartition
from tests.integration.test_producer_cluster import PARTITIONS, all_in_sync, kill_and_put_back, restart
from tests.support.java_readers import JavaReaders
from tests.support.numbered import Numbered
from tools.kafka import KafkaCluster, Node
from tools.kafka.waiting import poll

pytestmark = pytest.mark.kafka

KEYS = 60
MOST = 1_000_000
PACE = 0.02
FROZEN = 8.0
PATIENCE = 60.0
# The names end with letters of one hash in Java, so that all groups have the same coordinator.
GROUPS = {"classic": "AaAa", "consumer": "AaBB"}
GROUPS_OF_JAVA = {"classic": "BBAa", "consumer": "BBBB"}


class Readings:
    """What one group has read, and what was wrong with it."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, set[int]] = defaultdict(set)
        self.values: dict[bytes, set[int]] = defaultdict(set)
        self.wrong: list[str] = []
        self.again = 0
        self.gaps = Gaps()

    @property
    def count(self) -> int:
        return sum(map(len, self.offsets.values()))


class Gaps:
    """For how long partitions bring nothing, and how many records they brought."""

    def __init__(self) -> None:
        self.count = 0
        self._gap = 0.0
        self._last: dict[int, float] = {}

    def arrived(self, partition: int, count: int) -> None:
        now = asyncio.get_running_loop().time()
        self._gap = max(self._gap, now - self._last.get(partition, now))
        self._last[partition] = now
        self.count += count

    def take(self) -> float:
        """The longest time that a partition was without records since the last call, or the first record.

        After a call records are written to all partitions again: whatever does not come from then on counts.
        """
        gap, self._gap = self._gap, 0.0
        self._last = dict.fromkeys(range(PARTITIONS), asyncio.get_running_loop().time())
        return gap


class Member:
    """One consumer, and where it is in its partitions."""

    def __init__(self, readings: Readings, consumer: AsyncConsumer[Any, Any], topic: str) -> None:
        self.consumer = consumer
        self._readings = readings
        self._next: dict[TopicPartition, int] = {}
        consumer.subscribe([topic], listener=self)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    async def read(self) -> None:
        while True:
            got = await self.consumer.getmany(timeout_ms=1_000)
            for partition, records in got.items():
                self._readings.gaps.arrived(partition.partition, len(records))
                self._receive(partition, records)

    def _receive(self, partition: TopicPartition, records: list[Record[Any, Any]]) -> None:
        readings, first = self._readings, records[0].offset
        seen, followed = readings.offsets[partition], self._next.get(partition)
        if followed is not None and first != followed:
            readings.wrong.append(f"{partition} went from {followed} to {first} without a rebalance")
        if followed is None and not seen.issuperset(range(first)):
            readings.wrong.append(f"{partition} began at {first}, and not all before it was read")
        for record in records:
            readings.again += record.offset in seen
            seen.add(record.offset)
            readings.values[record.key].add(int(record.value))
        self._next[partition] = records[-1].offset + 1


class Scene:
    """Two groups, and two of Java's, that read what one producer writes."""

    def __init__(self, brokers: KafkaCluster, topic: str) -> None:
        self.brokers = brokers
        self.topic = topic
        self.groups = {protocol: Readings() for protocol in GROUPS}
        self.javas = {protocol: Gaps() for protocol in GROUPS_OF_JAVA}
        self.members: dict[str, list[Member]] = {protocol: [] for protocol in GROUPS}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, stack: AsyncExitStack) -> None:
        await self._start_java(stack)
        for protocol, readings in self.groups.items():
            for _ in range(2):
                consumer = AsyncConsumer(
                    bootstrap_servers=self.brokers.bootstrap(),
                    group_id=f"readers of {self.topic} {GROUPS[protocol]}",
                    group_protocol=protocol,
                    auto_offset_reset="earliest",
                    auto_commit_interval_ms=500,
                )
                member = Member(readings, consumer, self.topic)
                await stack.enter_async_context(consumer)
                self.members[protocol].append(member)
                task = asyncio.create_task(member.read())
                stack.callback(task.cancel)
                self._tasks.append(task)

    async def _start_java(self, stack: AsyncExitStack) -> None:
        groups = {protocol: f"readers of {self.topic} {end}" for protocol, end in GROUPS_OF_JAVA.items()}
        readers = await JavaReaders.start(
            self.brokers.bootstrap(),
            self.topic,
            groups,
            lambda protocol, partition, count: self.javas[protocol].arrived(partition, count),
        )
        stack.push_async_callback(readers.close)

    def coordinator(self) -> Node:
        """The broker that coordinates all groups."""
        found = set()
        for members in self.members.values():
            health = members[0].consumer.health().group
            assert health is not None
            found.add(health.coordinator)
        (node,) = found
        assert node is not None, "nobody coordinates"
        return self.brokers.node(node)

    async def write_during(self, numbered: Numbered, fault: Callable[[], object]) -> None:
        """Write at a steady pace for as long as a fault takes."""
        at_work = asyncio.create_task(asyncio.to_thread(fault))
        while not at_work.done():
            await numbered.send(20)
            await asyncio.wait([at_work], timeout=PACE)
        await at_work

    async def all_read(self, count: int) -> None:
        """Until all groups have everything: ours each record, Java's at least as many."""
        async with asyncio.timeout(PATIENCE):
            while self._read_least() < count:
                done, _ = await asyncio.wait(self._tasks, timeout=PACE, return_when=asyncio.FIRST_COMPLETED)
                for failed in done:
                    failed.result()

    def _read_least(self) -> int:
        counts = [readings.count for readings in self.groups.values()]
        return min(*counts, *(gaps.count for gaps in self.javas.values()))

    def shared(self) -> bool:
        """Whether each partition has one owner in each group, and each member has some."""
        return all(
            sorted(partition for member in members for partition in member.consumer.assignment())
            == [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
            and all(member.consumer.assignment() for member in members)
            for members in self.members.values()
        )

    def report(self, fault: str) -> str:
        gaps = ", ".join(
            f"{name} {readings.gaps.take():.2f} s (Java {self.javas[name].take():.2f} s)"
            for name, readings in self.groups.items()
        )
        return f"longest without records of a partition, {fault}: {gaps}"


async def run_scene(brokers: KafkaCluster, topic: str) -> None:
    def freeze() -> None:
        leader = brokers.leader(topic)
        brokers.freeze(leader)
        try:
            time.sleep(FROZEN)  # a fault that lasts: nothing is waited for
        finally:
            brokers.thaw(leader)
        all_in_sync(brokers, topic)

    def restart_all() -> None:
        for node in brokers.nodes:
            restart(brokers, topic, node)

    scene = Scene(brokers, topic)
    kill = partial(kill_and_put_back, brokers, topic)
    faults: dict[str, Callable[[], object]] = {
        "joining": partial(poll, scene.shared, timeout=PATIENCE, failure=lambda: "not shared"),
        "coordinator killed": partial(kill, scene.coordinator),
        "rolling restart": restart_all,
        "leader frozen": freeze,
    }
    async with AsyncExitStack() as stack:
        await scene.start(stack)
        async with AsyncProducer(bootstrap_servers=brokers.bootstrap(), request_timeout_ms=5_000) as producer:
            numbered = Numbered(producer, topic, KEYS, MOST // KEYS)
            for name, fault in faults.items():
                await scene.write_during(numbered, fault)
                await producer.flush()
                await scene.all_read(numbered.acknowledged)
                print(scene.report(name))
        assert scene.shared()
    assert numbered.errors == []
    for protocol, readings in scene.groups.items():
        print(f"{protocol}: {readings.count} read, {readings.again} of them again")
        assert readings.wrong == []
        assert readings.count == numbered.acknowledged
        assert all(values == set(range(len(values))) for values in readings.values.values())


def test_groups_get_every_record_while_brokers_are_killed_restarted_and_frozen(
    three_brokers: KafkaCluster,
) -> None:
    topic = f"numbers-{uuid4().hex[:8]}"
    three_brokers.create_topic(topic, PARTITIONS, replicas=3)
    asyncio.run(run_scene(three_brokers, topic))
