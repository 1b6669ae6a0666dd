"""A producer on three real brokers that are killed, restarted, frozen and moved: nothing is lost, nothing is
there twice, and each key keeps its order. Kafka's own client reads the log.

`KCLIENT_FAULT_RECORDS=1000000` sends as many records through the great test as that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import pytest

from kclient.errors import KafkaTimeoutError
from kclient.producer import AsyncProducer
from tests.support.leaders import active_controller, move_leader
from tests.support.numbered import LogVerdict, Numbered, verdict_of_java
from tools.kafka import KafkaCluster, Node
from tools.kafka.fixtures import StartCluster
from tools.kafka.waiting import poll

pytestmark = pytest.mark.kafka

PARTITIONS = 6
KEYS = 100
GREAT = int(os.environ.get("KCLIENT_FAULT_RECORDS", "200000"))
SLICES = 200
PACE = 0.05


@pytest.fixture
def topic(three_brokers: KafkaCluster) -> str:
    name = f"numbers-{uuid4().hex[:8]}"
    three_brokers.create_topic(name, PARTITIONS, replicas=3)
    return name


def all_in_sync(brokers: KafkaCluster, topic: str) -> None:
    poll(
        lambda: all(brokers.in_sync(topic, partition) == {1, 2, 3} for partition in range(PARTITIONS)),
        timeout=60,
        failure=lambda: f"not all replicas are in sync: {brokers!r}",
    )


async def send_during(numbered: Numbered, count: int, fault: Callable[[], object]) -> None:
    """Send records for as long as a fault takes; those that it leaves no time for, right after it."""
    at_work = asyncio.create_task(asyncio.to_thread(fault))
    left = count
    while left and not at_work.done():
        left -= await numbered.send(min(left, max(1, count // SLICES)))
        await asyncio.wait([at_work], timeout=PACE)
    if left:
        await numbered.send(left)
    await at_work


async def send_through(
    brokers: KafkaCluster, topic: str, count: int, faults: list[Callable[[], object]]
) -> None:
    """Send `count` records, a share during each fault; all of them are acknowledged."""
    async with AsyncProducer(bootstrap_servers=brokers.bootstrap(), request_timeout_ms=5_000) as producer:
        numbered = Numbered(producer, topic, KEYS, count // KEYS)
        for fault in faults:
            await send_during(numbered, count // len(faults), fault)
        await numbered.send(count)
        await producer.flush()
    assert numbered.errors == []
    assert numbered.acknowledged == count


def kill_and_put_back(brokers: KafkaCluster, topic: str, which: Callable[[], Node]) -> None:
    node = which()
    brokers.kill(node)
    brokers.leader(topic)
    brokers.restart(node)
    all_in_sync(brokers, topic)


def restart(brokers: KafkaCluster, topic: str, node: Node) -> None:
    brokers.restart(node)
    all_in_sync(brokers, topic)


def test_brokers_are_killed_and_restarted_and_every_record_is_there_once_and_in_order(
    three_brokers: KafkaCluster, topic: str
) -> None:
    kill = partial(kill_and_put_back, three_brokers, topic)
    faults: list[Callable[[], object]] = [
        partial(kill, lambda: three_brokers.leader(topic)),
        partial(kill, lambda: active_controller(three_brokers)),
        *(partial(restart, three_brokers, topic, node) for node in three_brokers.nodes),
    ]
    asyncio.run(send_through(three_brokers, topic, GREAT, faults))
    assert verdict_of_java(three_brokers, topic, KEYS, GREAT // KEYS) == LogVerdict(GREAT, 0, 0, 0)


def test_leaders_that_move_are_followed_and_order_holds(three_brokers: KafkaCluster, topic: str) -> None:
    count = 50_000
    faults: list[Callable[[], object]] = [
        partial(move_leader, three_brokers, topic, partition, 1 + (partition + turn) % 3)
        for turn in range(2)
        for partition in range(PARTITIONS)
    ]
    asyncio.run(send_through(three_brokers, topic, count, faults))
    assert verdict_of_java(three_brokers, topic, KEYS, count // KEYS) == LogVerdict(count, 0, 0, 0)


def test_a_frozen_leader_is_replaced_and_writes_nothing_twice_when_thawed(
    three_brokers: KafkaCluster, topic: str
) -> None:
    def freeze() -> None:
        leader = three_brokers.leader(topic)
        three_brokers.freeze(leader)
        try:
            three_brokers.leader(topic)
        finally:
            three_brokers.thaw(leader)
        all_in_sync(three_brokers, topic)

    count = 50_000
    asyncio.run(send_through(three_brokers, topic, count, [freeze]))
    assert verdict_of_java(three_brokers, topic, KEYS, count // KEYS) == LogVerdict(count, 0, 0, 0)


def test_a_cluster_that_was_down_as_a_whole_gets_its_records_when_it_is_back(
    three_brokers: KafkaCluster, topic: str
) -> None:
    def all_down_and_up() -> None:
        for node in three_brokers.nodes:
            three_brokers.kill(node)
        with ThreadPoolExecutor(len(three_brokers.nodes)) as pool:
            list(pool.map(three_brokers.restart, three_brokers.nodes))
        all_in_sync(three_brokers, topic)

    count = 50_000
    asyncio.run(send_through(three_brokers, topic, count, [all_down_and_up]))
    assert verdict_of_java(three_brokers, topic, KEYS, count // KEYS) == LogVerdict(count, 0, 0, 0)


def test_records_for_a_frozen_broker_fail_in_time_and_later_ones_get_through(
    kafka_cluster: StartCluster,
) -> None:
    broker = kafka_cluster()
    broker.create_topic("numbers", 1)

    async def scenario() -> None:
        async with AsyncProducer(
            bootstrap_servers=broker.bootstrap(), request_timeout_ms=1_000, delivery_timeout_ms=3_000
        ) as producer:
            await producer.send_and_wait("numbers", b"0", b"0")
            broker.freeze(1)
            try:
                lost = [await producer.send("numbers", b"%d" % number, b"0") for number in range(1, 4)]
                for delivery in lost:
                    with pytest.raises(KafkaTimeoutError, match="delivery_timeout_ms"):
                        await asyncio.wait_for(delivery, 30)
            finally:
                broker.thaw(1)
            for number in range(4, 8):
                delivery = await producer.send("numbers", b"%d" % number, b"0")
                await asyncio.wait_for(delivery, 30)

    asyncio.run(scenario())
    found = verdict_of_java(broker, "numbers", keys=1, each=8)
    # Whether the broker wrote what it had received when it froze is its own affair; but not twice.
    assert found.missing in range(4)
    assert (found.duplicates, found.disorder) == (0, 0)
