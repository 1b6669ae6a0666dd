"""User code that raises `CancelledError`, on real brokers: memberships, commits and records go on."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import KafkaError
from kclient.types import TopicPartition
from tests.integration.test_consumer import PATIENCE_MS, new_topic, produce
from tools.kafka.provider import PlainKafka

Partitions = frozenset[TopicPartition]
Place = tuple[int, int]
BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
PARTITIONS = 2
COUNT = 100


class Workers:
    """A listener with a task for each partition, which it cancels and awaits when the partition goes."""

    def __init__(self) -> None:
        self.tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self.ended = 0

    async def on_partitions_assigned(self, assigned: Partitions) -> None:
        for each in assigned:
            self.tasks[each] = asyncio.create_task(asyncio.sleep(3_600))

    async def on_partitions_revoked(self, revoked: Partitions) -> None:
        gone = [self.tasks.pop(each) for each in revoked]
        for task in gone:
            task.cancel()
        self.ended += len(gone)
        await asyncio.gather(*gone)


def options(kafka: PlainKafka, group: str, protocol: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap(),
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


async def shares(
    members: list[AsyncConsumer[Any, Any]], topic: str, told: list[KafkaError], seen: set[Place], count: int
) -> None:
    """Ask for records until so many were seen, every partition has an owner, and each member its share."""
    everything = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            for member in members:
                try:
                    got = await member.getmany(timeout_ms=100)
                    await member.commit()
                except KafkaError as error:
                    told.append(error)
                else:
                    seen |= {(record.partition, record.offset) for each in got.values() for record in each}
            owned = [partition for member in members for partition in member.assignment()]
            if len(seen) == count and sorted(owned) == everything and all(m.assignment() for m in members):
                return


@BOTH_PROTOCOLS
def test_a_listener_that_cancels_its_workers_and_awaits_them_keeps_its_member_in_the_group(
    kafka: PlainKafka, protocol: str
) -> None:
    topic, group = new_topic(kafka, PARTITIONS), f"group-{uuid4().hex[:8]}"
    told: list[KafkaError] = []
    seen: set[Place] = set()

    async def main() -> None:
        listener = Workers()
        produce(kafka.bootstrap(), topic, COUNT, PARTITIONS)
        async with AsyncConsumer(**options(kafka, group, protocol)) as first:
            first.subscribe([topic], listener=listener)
            await shares([first], topic, told, seen, COUNT)
            async with AsyncConsumer(topic, **options(kafka, group, protocol)) as second:
                await shares([first, second], topic, told, seen, COUNT)
                produce(kafka.bootstrap(), topic, COUNT, PARTITIONS)
                await shares([first, second], topic, told, seen, 2 * COUNT)
            produce(kafka.bootstrap(), topic, COUNT, PARTITIONS)
            await shares([first], topic, told, seen, 3 * COUNT)
            assert first.health().cluster.failure is None
            assert listener.ended
        for task in listener.tasks.values():
            task.cancel()

    asyncio.run(main())
    own = [error for error in told if "Workers.on_partitions_revoked failed" in str(error)]
    assert own
    assert {type(error.__cause__) for error in own} == {asyncio.CancelledError}


@BOTH_PROTOCOLS
def test_commits_go_on_after_a_callback_that_raises_cancelled_error(kafka: PlainKafka, protocol: str) -> None:
    topic, group = new_topic(kafka), f"group-{uuid4().hex[:8]}"
    produce(kafka.bootstrap(), topic, COUNT)
    partition = TopicPartition(topic, 0)
    called: list[object] = []

    def callback(*said: object) -> None:
        called.append(said)
        raise asyncio.CancelledError

    with Consumer[bytes | None, bytes | None](topic, **options(kafka, group, protocol)) as consumer:
        assert consumer.poll(timeout_ms=PATIENCE_MS)
        for offset in range(1, 6):
            consumer.commit_nowait({partition: offset}, callback)
            consumer.commit({partition: offset + 1}, timeout_ms=PATIENCE_MS)
        committed = consumer.committed(partition)
        assert committed is not None
        assert committed.offset == 6
    assert len(called) == 5
