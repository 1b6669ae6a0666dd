"""kclient's memberships on real brokers, beside librdkafka's in one group: every partition has one owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as TheirTopicPartition

from kclient import Admin
from kclient.admin import NewTopic
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.consumer.group.membership import Membership
from kclient.consumer.seam import GroupSettings
from kclient.errors import IncompatibleBrokerError
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support.positions import FakePositions
from tests.unit.consumer.members import Member
from tools.kafka.provider import PlainKafka

PARTITIONS = 12


class Owner(Protocol):
    """Whoever has partitions."""

    @property
    def owned(self) -> frozenset[TopicPartition]: ...


class Theirs:
    """A consumer of librdkafka that is polled by a task."""

    def __init__(self, options: dict[str, Any], topic: str) -> None:
        self._consumer = Consumer(options)
        self._consumer.subscribe([topic])
        self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            await asyncio.to_thread(self._consumer.poll, 0.05)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(each.topic, each.partition) for each in self._consumer.assignment())

    async def committed(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str | None]]:
        asked = [TheirTopicPartition(*partition) for partition in partitions]
        found = await asyncio.to_thread(self._consumer.committed, asked, 10)
        return {TopicPartition(each.topic, each.partition): (each.offset, each.metadata) for each in found}

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await asyncio.to_thread(self._consumer.close)


class Group:
    """A group of both kinds of members on one topic."""

    def __init__(self, kafka: PlainKafka, topic: str, stack: AsyncExitStack) -> None:
        self.kafka = kafka
        self.topic = topic
        self.id = f"group-{topic}"
        self._stack = stack

    async def ours(self, **options: Any) -> Member:
        config = ClientConfig.from_options({"bootstrap_servers": self.kafka.bootstrap()})
        cluster = Cluster(config)
        await cluster.start(cluster.deadline())
        positions = FakePositions()
        pattern = options.pop("server_pattern", None)
        positions.server_pattern = pattern
        positions.topics = frozenset() if pattern else frozenset({self.topic})
        chosen: dict[str, Any] = {"group_id": self.id, "enable_auto_commit": False} | options
        member = Member(cluster, Membership(cluster, GroupSettings(**chosen), positions), positions)
        member.membership.start()
        self._stack.push_async_callback(member.close)
        return member

    async def theirs(self, **options: Any) -> Theirs:
        chosen = {name.replace("_", "."): value for name, value in options.items()} | {
            "bootstrap.servers": self.kafka.bootstrap(),
            "group.id": self.id,
            "enable.auto.commit": False,
        }
        member = Theirs(chosen, self.topic)
        self._stack.push_async_callback(member.close)
        return member

    def ends_with(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._stack.push_async_callback(close)

    async def settled(self, *members: Owner) -> None:
        expected = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]

        def shared() -> bool:
            sizes = [len(member.owned) for member in members]
            owned = sorted(partition for member in members for partition in member.owned)
            return owned == expected and max(sizes) - min(sizes) <= 1

        await until(shared, 120)


@asynccontextmanager
async def group(kafka: PlainKafka) -> AsyncIterator[Group]:
    topic = f"shared-{uuid4().hex[:8]}"
    with Admin(bootstrap_servers=kafka.bootstrap()) as admin:
        admin.create_topics(NewTopic(topic, PARTITIONS))
    async with AsyncExitStack() as stack:
        yield Group(kafka, topic, stack)


def in_a_group(kafka: PlainKafka, story: Callable[[Group], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with group(kafka) as around:
            await story(around)

    asyncio.run(main())


@pytest.mark.uvloop
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("ours_first", [True, False], ids=["we lead", "they lead"])
def test_a_classic_group_of_both(kafka: PlainKafka, strategy: str, ours_first: bool) -> None:
    async def story(group: Group) -> None:
        async def one_of_ours() -> Member:
            return await group.ours(partition_assignment_strategy=[strategy], heartbeat_interval_ms=500)

        async def one_of_theirs() -> Theirs:
            return await group.theirs(
                partition_assignment_strategy=strategy, heartbeat_interval_ms=500, session_timeout_ms=10_000
            )

        first: Member | Theirs = await (one_of_ours if ours_first else one_of_theirs)()
        await group.settled(first)
        second: Member | Theirs = await (one_of_theirs if ours_first else one_of_ours)()
        await group.settled(first, second)
        third = await one_of_ours()
        await group.settled(first, second, third)
        await first.close()
        await group.settled(second, third)

    in_a_group(kafka, story)


def test_a_group_that_the_broker_assigns_of_both(kafka: PlainKafka) -> None:
    async def story(group: Group) -> None:
        options: dict[str, Any] = {"group_protocol": "consumer"}
        first = await group.ours(**options, group_instance_id="first")
        await group.settled(first)
        second = await group.theirs(**options)
        third = await group.ours(**options, group_remote_assignor="uniform")
        await group.settled(first, second, third)
        owned = first.owned
        await first.close()
        first = await group.ours(**options, group_instance_id="first")
        await group.settled(first, second, third)
        assert first.owned == owned
        await third.close()
        await group.settled(first, second)

    in_a_group(kafka, story)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_while_it_runs(kafka: PlainKafka, strategy: str) -> None:
    async def story(group: Group) -> None:
        classic: dict[str, Any] = {"partition_assignment_strategy": [strategy], "heartbeat_interval_ms": 500}
        old = [await group.ours(**classic) for _ in range(2)]
        await group.settled(*old)
        offsets = dict.fromkeys(old[0].owned, OffsetAndMetadata(5))
        await old[0].membership.commits.commit(old[0].cluster.deadline(), offsets)
        first = await group.ours(group_protocol="consumer")
        await group.settled(*old, first)
        await old[0].close()
        second = await group.ours(group_protocol="consumer")
        await group.settled(old[1], first, second)
        await old[1].close()
        await group.settled(first, second)
        commits = first.membership.commits
        assert await commits.committed(offsets, first.cluster.deadline()) == offsets
        back = await group.ours(**classic)
        await group.settled(first, second, back)

    in_a_group(kafka, story)


def test_a_pattern_that_the_broker_resolves(kafka: PlainKafka) -> None:
    async def story(group: Group) -> None:
        options: dict[str, Any] = {"group_protocol": "consumer"}
        members = [await group.ours(server_pattern=f"{group.topic}.*", **options) for _ in range(2)]
        await group.settled(*members)

    in_a_group(kafka, story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_they_see_what_we_commit(kafka: PlainKafka, protocol: str) -> None:
    async def story(group: Group) -> None:
        ours = await group.ours(group_protocol=protocol)
        await group.settled(ours)
        commits = ours.membership.commits
        offsets = {partition: OffsetAndMetadata(partition.partition, "so far") for partition in ours.owned}
        await commits.commit(ours.cluster.deadline(), offsets)
        assert await commits.committed(ours.owned, ours.cluster.deadline()) == offsets
        partitions = ours.owned
        await ours.close()
        theirs = await group.theirs(group_protocol=protocol)
        found = await theirs.committed(partitions)
        assert found == {partition: (at.offset, at.metadata) for partition, at in offsets.items()}

    in_a_group(kafka, story)


def test_a_static_member_comes_back_without_a_rebalance(kafka: PlainKafka) -> None:
    async def story(group: Group) -> None:
        first = await group.ours(group_instance_id="a")
        second = await group.ours(group_instance_id="b")
        await group.settled(first, second)
        generation, owned = first.membership.metadata().generation_id, second.owned
        await second.close()
        again = await group.ours(group_instance_id="b")
        await group.settled(first, again)
        assert again.owned == owned
        assert first.membership.metadata().generation_id == generation

    in_a_group(kafka, story)


def test_a_group_of_an_old_broker(old_kafka: PlainKafka) -> None:
    async def story(group: Group) -> None:
        strategy = {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 500}
        members = [await group.ours(**strategy) for _ in range(3)]
        await group.settled(*members)
        await members[0].close()
        await group.settled(*members[1:])
        commits = members[1].membership.commits
        offsets = dict.fromkeys(members[1].owned, OffsetAndMetadata(3, "old"))
        await commits.commit(members[1].cluster.deadline(), offsets)
        assert await commits.committed(offsets, members[1].cluster.deadline()) == offsets

    in_a_group(old_kafka, story)


def test_an_old_broker_that_cannot_assign_is_named_as_the_reason(old_kafka: PlainKafka) -> None:
    async def story(group: Group) -> None:
        member = await group.ours(group_protocol="consumer")
        await until(lambda: member.state == "failed", 60)
        assert isinstance(member.membership.take_error(), IncompatibleBrokerError)

    in_a_group(old_kafka, story)
