"""Memberships on an embedded broker in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from kclient.broker import Broker
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.consumer.group.membership import Membership
from kclient.consumer.seam import GroupSettings
from kclient.testing import Simulation, simulate
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from tests.support.positions import FakePositions

T = TypeVar("T")
GROUP = "billing"
KAFKA = "kafka"


class Member:
    """A consumer without the reading: its membership and what it was told."""

    def __init__(self, cluster: Cluster, membership: Membership, positions: FakePositions) -> None:
        self.cluster = cluster
        self.membership = membership
        self.positions = positions
        self.told: list[tuple[str, list[TopicPartition]]] = []
        membership.listen(self)

    def __repr__(self) -> str:
        return repr(self.membership)

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("revoked", sorted(partitions)))

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("assigned", sorted(partitions)))

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(("lost", sorted(partitions)))

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self.positions.assigned()

    @property
    def state(self) -> str:
        return self.membership.health().state

    def subscribe(self, *topics: str) -> None:
        self.positions.topics = frozenset(topics)
        self.membership.subscription_changed()

    async def close(self, seconds: float = 60) -> None:
        await self.membership.close(self.cluster.deadline(seconds * 1000))
        await self.cluster.close()

    async def vanish(self) -> None:
        """As a killed process: without a word."""
        for task in self.membership._tasks:
            task.cancel()
        self.membership.commits.close()
        await self.cluster.close()


class Crowd:
    """A broker and the members of one group on it."""

    def __init__(self, sim: Simulation, broker: Broker, stack: AsyncExitStack) -> None:
        self.sim = sim
        self.broker = broker
        self.members: list[Member] = []
        self._stack = stack

    async def start_node(self, node: int) -> None:
        with self.sim.network.host(KAFKA):
            await self.broker.start_node(node)

    async def member(self, *topics: str, positions: FakePositions | None = None, **options: Any) -> Member:
        """A new member; without topics it is not subscribed yet."""
        client = {name: options.pop(name) for name in list(options) if hasattr(ClientConfig, name)}
        config = ClientConfig.from_options({"bootstrap_servers": self.broker.bootstrap_servers} | client)
        cluster = Cluster(config, random=self.sim.random)
        await cluster.start(cluster.deadline())
        positions = positions or FakePositions()
        positions.topics = frozenset(topics) if topics else None
        chosen: dict[str, Any] = {"group_id": GROUP, "enable_auto_commit": False} | options
        settings = GroupSettings(**chosen)
        member = Member(cluster, Membership(cluster, settings, positions), positions)
        member.membership.start()
        self._stack.push_async_callback(member.close)
        self.members.append(member)
        return member

    async def settled(
        self, *members: Member, topic: str = "orders", partitions: int = 6, within: float = 120
    ) -> None:
        """Until these members are stable and share the topic evenly, each partition once."""
        expected = sorted(TopicPartition(topic, number) for number in range(partitions))

        def shared() -> bool:
            sizes = [len(member.owned) for member in members]
            return (
                sorted(partition for member in members for partition in member.owned) == expected
                and max(sizes) - min(sizes) <= 1
                and all(member.state == "stable" for member in members)
            )

        await until(shared, within)


@asynccontextmanager
async def crowd(
    sim: Simulation, nodes: int = 1, settings: Mapping[str, str] | None = None, **topics: int
) -> AsyncIterator[Crowd]:
    options = {"group.initial.rebalance.delay.ms": "0", **(settings or {})}
    broker = Broker(nodes=nodes, host=KAFKA, clock=sim.clock, seed=sim.seed, config=options)
    with sim.network.host(KAFKA):
        await broker.start()
    try:
        for topic, partitions in topics.items():
            broker.create_topic(topic, partitions)
        async with AsyncExitStack() as stack:
            yield Crowd(sim, broker, stack)
    finally:
        await broker.stop()


def in_a_crowd(
    story: Callable[[Crowd], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    nodes: int = 1,
    settings: Mapping[str, str] | None = None,
    **topics: int,
) -> T:
    """Run a story about a group, in virtual time."""

    async def main(sim: Simulation) -> T:
        async with crowd(sim, nodes, settings, **topics or {"orders": 6}) as around:
            return await story(around)

    return simulate(main, seed=seed)
