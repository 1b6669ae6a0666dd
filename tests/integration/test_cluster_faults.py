"""Real brokers that are killed, frozen, moved and brought back: calls get through, or end with their time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest

from kclient.cluster.client import Cluster
from kclient.cluster.operations import Operation, run_one
from kclient.cluster.routes import Leader, Node, Route
from kclient.config import ClientConfig
from kclient.errors import (
    BrokerNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    error_for,
)
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import ListOffsetsRequest, ListOffsetsResponse
from kclient.wire.messages.metadata import MetadataRequest
from kclient.wire.messages.replicas import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool, StartCluster
from tools.kafka.provider import PlainKafka
from tools.kafka.versions import DEFAULT_VERSION
from tools.kafka.waiting import poll

LATEST = -1


class EndOf(Operation[TopicPartition, int]):
    """The end of a partition, as its leader says."""

    request = ListOffsetsRequest

    def route(self, key: TopicPartition) -> Route:
        return Leader(key)

    def build(self, keys: list[TopicPartition], version: int) -> ListOffsetsRequest:  # noqa: ARG002
        topic = ListOffsetsRequest.ListOffsetsTopic
        asked = topic.ListOffsetsPartition
        return ListOffsetsRequest(
            replica_id=-1,
            topics=[
                topic(name=key.topic, partitions=[asked(partition_index=key.partition, timestamp=LATEST)])
                for key in keys
            ],
        )

    def read(
        self,
        response: ListOffsetsResponse,
        keys: list[TopicPartition],  # noqa: ARG002
    ) -> dict[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, partition.partition_index): error_for(partition.error_code)
            or partition.offset
            for topic in response.topics
            for partition in topic.partitions
        }


class BrokersSeenBy(Operation[int, set[int]]):
    """Whom one broker counts as alive."""

    request = MetadataRequest

    def route(self, key: int) -> Route:
        return Node(key)

    def build(self, keys: list[int], version: int) -> MetadataRequest:  # noqa: ARG002
        return MetadataRequest(topics=[])

    def read(self, response: Any, keys: list[int]) -> dict[int, set[int] | KafkaError]:
        return {key: {broker.node_id for broker in response.brokers} for key in keys}


@asynccontextmanager
async def connected(bootstrap: str, **options: Any) -> AsyncIterator[Cluster]:
    """A client's cluster; nothing of it is left afterwards."""
    others = asyncio.all_tasks()
    cluster = Cluster(ClientConfig(bootstrap_servers=bootstrap, **options))
    try:
        await cluster.start(cluster.deadline(30_000))
        yield cluster
    finally:
        began = time.monotonic()
        await cluster.close()
        assert time.monotonic() - began < 5
        assert asyncio.all_tasks() <= others


async def end_of(cluster: Cluster, topic: str, timeout_ms: float = 30_000) -> int:
    return await run_one(cluster, EndOf(), TopicPartition(topic, 0), cluster.deadline(timeout_ms))


def leader_of(cluster: Cluster, topic: str) -> int | None:
    return cluster.metadata.snapshot.leader(TopicPartition(topic, 0))


async def once_it_is_back(cluster: Cluster, node_id: int) -> set[int]:
    """Whom a broker sees that the others, and then it itself, still have to count as alive again."""
    async with asyncio.timeout(60):
        while True:
            with suppress(BrokerNotAvailableError):
                seen = await run_one(cluster, BrokersSeenBy(), node_id, cluster.deadline(10_000))
                if node_id in seen:
                    return seen
            await asyncio.sleep(0.1)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began <= seconds


@pytest.fixture(scope="module")
def three_brokers(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """Three brokers for all tests here; each test leaves them running."""
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def topic(three_brokers: KafkaCluster) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    three_brokers.create_topic(name, replicas=3)
    return name


def put_back(brokers: KafkaCluster, node: Any, topic: str) -> None:
    if not node.is_running():
        brokers.restart(node)
    poll(
        lambda: brokers.in_sync(topic) == {1, 2, 3},
        timeout=60,
        failure=lambda: f"{node!r} did not come back: {brokers.in_sync(topic)}",
    )


# Finding a cluster


@pytest.mark.parametrize("which", ["kafka", "old_kafka"])
def test_brokers_old_and_new_are_found_with_their_topics(request: pytest.FixtureRequest, which: str) -> None:
    broker: PlainKafka = request.getfixturevalue(which)
    topic = f"found-{uuid4().hex[:8]}"
    broker.create_topic(topic, 3)

    async def scenario() -> None:
        # A dead server and one that does not exist stand before the living one.
        servers = f"127.0.0.1:1,no-such-host.invalid:9092,{broker.bootstrap()}"
        async with connected(servers) as cluster:
            cluster.metadata.follow([topic])
            snapshot = await cluster.metadata.refreshed(cluster.deadline())
            assert [str(found.endpoint) for found in snapshot.brokers.values()] == [broker.bootstrap()]
            assert list(snapshot.topics[topic].partitions) == [0, 1, 2]
            assert snapshot.cluster_id
            assert await end_of(cluster, topic) == 0
            assert cluster.health().connected

    asyncio.run(scenario())


def test_a_cluster_that_is_nowhere_is_a_timeout_that_names_each_attempt() -> None:
    async def scenario() -> None:
        cluster = Cluster(ClientConfig(bootstrap_servers="127.0.0.1:1,127.0.0.1:2"))
        with (
            within(3),
            pytest.raises(
                KafkaTimeoutError, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2|127\.0\.0\.1:2.*127\.0\.0\.1:1"
            ),
        ):
            await cluster.start(cluster.deadline(2_000))
        await cluster.close()

    asyncio.run(scenario())


# Faults


def test_when_the_leader_is_killed_its_successor_answers(three_brokers: KafkaCluster, topic: str) -> None:
    async def scenario() -> None:
        async with connected(three_brokers.bootstrap()) as cluster:
            assert await end_of(cluster, topic) == 0
            three_brokers.kill(leader)
            assert await end_of(cluster, topic) == 0
            assert leader_of(cluster, topic) != leader.id
            others = {node.id for node in three_brokers.nodes} - {leader.id}
            for node_id in others:
                assert await run_one(cluster, BrokersSeenBy(), node_id, cluster.deadline(10_000)) >= others

    leader = three_brokers.leader(topic)
    try:
        asyncio.run(scenario())
    finally:
        put_back(three_brokers, leader, topic)


def test_a_frozen_leader_costs_one_request_and_is_used_again_when_thawed(
    three_brokers: KafkaCluster, topic: str
) -> None:
    async def scenario() -> None:
        async with connected(three_brokers.bootstrap(), request_timeout_ms=2_000) as cluster:
            assert await end_of(cluster, topic) == 0
            three_brokers.freeze(leader)
            with within(5 + 1), pytest.raises((KafkaTimeoutError, KafkaConnectionError)):
                await run_one(cluster, BrokersSeenBy(), leader.id, cluster.deadline(5_000))
            with within(30):
                assert await end_of(cluster, topic) == 0
            assert leader_of(cluster, topic) != leader.id
            three_brokers.thaw(leader)
            assert leader.id in await once_it_is_back(cluster, leader.id)

    leader = three_brokers.leader(topic)
    try:
        asyncio.run(scenario())
    finally:
        three_brokers.thaw(leader)
        put_back(three_brokers, leader, topic)


def test_a_leader_that_has_moved_is_followed(three_brokers: KafkaCluster, topic: str) -> None:
    async def move(cluster: Cluster, new_leader: int) -> None:
        """Make another replica the preferred one, and elect it."""
        reassign, elect = AlterPartitionReassignmentsRequest, ElectLeadersRequest
        replicas = [new_leader, *sorted({1, 2, 3} - {new_leader})]
        partition = reassign.ReassignableTopic.ReassignablePartition(partition_index=0, replicas=replicas)
        wanted = reassign(topics=[reassign.ReassignableTopic(name=topic, partitions=[partition])])
        moved = elect(topic_partitions=[elect.TopicPartitions(topic=topic, partitions=[0])])
        controller = cluster.metadata.snapshot.controller_id
        await cluster.call(controller, lambda _: wanted, reassign, cluster.deadline())
        await cluster.call(controller, lambda _: moved, elect, cluster.deadline())

    async def scenario() -> None:
        async with (
            connected(three_brokers.bootstrap()) as client,
            connected(three_brokers.bootstrap()) as other,
        ):
            assert await end_of(client, topic) == 0
            before = leader_of(client, topic)
            new_leader = next(node.id for node in three_brokers.nodes if node.id != before)
            await move(other, new_leader)
            await asyncio.to_thread(
                poll,
                lambda: three_brokers.leader(topic).id == new_leader,
                timeout=30,
                failure=lambda: f"{topic} stayed with {before}",
            )
            assert leader_of(client, topic) == before, "the client has not been told"
            assert await end_of(client, topic) == 0
            assert leader_of(client, topic) == new_leader

    asyncio.run(scenario())


def test_when_all_brokers_were_down_the_client_comes_back_with_them(kafka_cluster: StartCluster) -> None:
    brokers = kafka_cluster()
    brokers.create_topic("kept")

    async def scenario() -> None:
        async with connected(brokers.bootstrap()) as cluster:
            assert await end_of(cluster, "kept") == 0
            brokers.kill(1)
            with within(2 + 1), pytest.raises(KafkaTimeoutError):
                await end_of(cluster, "kept", 2_000)
            assert not cluster.health().connected
            waiting = asyncio.create_task(end_of(cluster, "kept", 60_000))
            await asyncio.to_thread(brokers.restart, 1)
            assert await waiting == 0
            assert cluster.health().connected

    asyncio.run(scenario())


class Door:
    """An address that leads to one broker after another: a name in DNS, or a load balancer."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.halves: list[Half] = []

    async def __aenter__(self) -> str:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Half(self), "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for half in self.halves:
            half.transport.abort()
        await asyncio.sleep(0)


class Half(asyncio.Protocol):
    """One side of a connection through the door. The client's side opens the other when it first speaks."""

    transport: asyncio.Transport

    def __init__(self, door: Door, other: Half | None = None) -> None:
        self._door = door
        self._other = other
        self._said = b""
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._door.halves.append(self)

    def data_received(self, data: bytes) -> None:
        if self._other is not None:
            self._other.transport.write(data)
            return
        self._said += data
        self._opening = self._opening or asyncio.create_task(self._open())

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._other is not None:
            self._other.transport.close()

    async def _open(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            _, far = await loop.create_connection(lambda: Half(self._door, self), *self._door.target)
        except OSError:
            self.transport.close()
            return
        self._other = far
        far.transport.write(self._said)


def test_a_cluster_that_moved_to_other_ports_is_found_by_its_bootstrap_address(
    kafka_cluster: StartCluster,
) -> None:
    before, after = kafka_cluster(), kafka_cluster()
    after.create_topic("kept")
    before.create_topic("kept")

    async def scenario() -> None:
        door = Door(before.node(1).address)
        async with door as address, connected(address) as cluster:
            assert await end_of(cluster, "kept") == 0
            assert cluster.metadata.snapshot.brokers[1].endpoint.port == before.node(1).port()
            before.kill(1)
            door.target = after.node(1).address
            assert await end_of(cluster, "kept") == 0
            assert cluster.metadata.snapshot.brokers[1].endpoint.port == after.node(1).port()

    asyncio.run(scenario())
