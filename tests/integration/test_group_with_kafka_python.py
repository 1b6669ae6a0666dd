"""kclient's consumers beside kafka-python's in one group: each partition has one owner, nothing is missed."""

from __future__ import annotations

import asyncio

import pytest

from kclient.consumer import AsyncConsumer
from kclient.producer import AsyncProducer
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from tests.integration.kafka_python_member import STRATEGIES, KafkaPythons
from tests.integration.test_group_membership import PARTITIONS, Group, in_a_group
from tools.kafka.provider import PlainKafka


class Ours:
    """A consumer and what it has read."""

    def __init__(self, group: Group, strategy: str) -> None:
        self.read: set[tuple[int, int]] = set()
        self._consumer = AsyncConsumer(
            group.topic,
            bootstrap_servers=group.kafka.bootstrap(),
            group_id=group.id,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=strategy,
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self._consumer.assignment()

    async def start(self) -> None:
        await self._consumer.start()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for record in self._consumer:
            self.read.add((record.partition, record.offset))

    async def close(self) -> None:
        await self._consumer.close()
        if self._task is not None:
            await self._task


async def produce(group: Group, rounds: int) -> None:
    """So many more records for each partition."""
    async with AsyncProducer(bootstrap_servers=group.kafka.bootstrap()) as producer:
        for number in range(rounds):
            for partition in range(PARTITIONS):
                await producer.send(group.topic, b"%d" % number, partition=partition)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("ours_first", [True, False], ids=["we lead", "they lead"])
def test_a_group_with_kafka_python(kafka: PlainKafka, strategy: str, ours_first: bool) -> None:
    async def story(group: Group) -> None:
        async def one_of_ours() -> Ours:
            member = Ours(group, strategy)
            await member.start()
            group.ends_with(member.close)
            return member

        async def one_of_theirs() -> KafkaPythons:
            member = await KafkaPythons.start(
                servers=kafka.bootstrap(), topic=group.topic, group=group.id, strategy=strategy
            )
            group.ends_with(member.close)
            return member

        await produce(group, 50)
        first: Ours | KafkaPythons = await (one_of_ours if ours_first else one_of_theirs)()
        await group.settled(first)
        second: Ours | KafkaPythons = await (one_of_theirs if ours_first else one_of_ours)()
        await produce(group, 50)
        await group.settled(first, second)
        third = await one_of_ours()
        await produce(group, 50)
        await group.settled(first, second, third)
        await first.close()
        await produce(group, 50)
        await group.settled(second, third)
        everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(200)}
        await until(lambda: first.read | second.read | third.read == everything, 60)
        assert all(member.read for member in (first, second, third))

    in_a_group(kafka, story)
