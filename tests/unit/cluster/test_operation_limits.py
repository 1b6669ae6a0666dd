"""What `run` gives up on before its deadline: topics and brokers that are not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kclient.cluster.client import Cluster
from kclient.cluster.operations import Operation, run, run_one
from kclient.cluster.routes import Leader, Node, Route
from kclient.config import ClientConfig
from kclient.errors import BrokerNotAvailableError, KafkaError, UnknownTopicOrPartitionError
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.messages.fetch import ListOffsetsRequest, ListOffsetsResponse
from tests.support.fake_broker import Exchange, FakeCluster
from tests.support.virtual_loop import VirtualLoop

Brokers = Callable[..., FakeCluster]


class EndOf(Operation[TopicPartition, int]):
    """The end of a partition, asked of its leader or of one broker."""

    request = ListOffsetsRequest

    def __init__(self, node: int | None = None) -> None:
        self._node = node

    def route(self, key: TopicPartition) -> Route:
        return Leader(key) if self._node is None else Node(self._node)

    def build(self, keys: list[TopicPartition], version: int) -> ListOffsetsRequest:  # noqa: ARG002
        topic = ListOffsetsRequest.ListOffsetsTopic
        return ListOffsetsRequest(
            replica_id=-1,
            topics=[
                topic(
                    name=key.topic,
                    partitions=[topic.ListOffsetsPartition(partition_index=key.partition, timestamp=-1)],
                )
                for key in keys
            ],
        )

    def read(
        self,
        response: ListOffsetsResponse,
        keys: list[TopicPartition],  # noqa: ARG002
    ) -> dict[TopicPartition, int | KafkaError]:
        return {
            TopicPartition(topic.name, partition.partition_index): partition.offset
            for topic in response.topics
            for partition in topic.partitions
        }


def ends(exchange: Exchange) -> ListOffsetsResponse:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    return ListOffsetsResponse(
        topics=[
            topic(
                name=asked.name,
                partitions=[
                    topic.ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=7)
                    for each in asked.partitions
                ],
            )
            for asked in exchange.request.topics
        ]
    )


@asynccontextmanager
async def connected(fakes: FakeCluster) -> AsyncIterator[Cluster]:
    fakes.answer(ApiKey.LIST_OFFSETS, ends)
    cluster = Cluster(ClientConfig(bootstrap_servers=fakes.bootstrap))
    await cluster.start(cluster.deadline(5_000))
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_a_topic_that_nobody_knows_is_reported_long_before_the_deadline(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers()
    fakes.add_topic("known")
    known, missing = TopicPartition("known", 0), TopicPartition("missing", 0)
    async with connected(fakes) as cluster:
        outcomes = await run(cluster, EndOf(), [known, missing], cluster.deadline(600_000))
    assert outcomes[known] == 7
    assert isinstance(outcomes[missing], UnknownTopicOrPartitionError)
    assert loop.time() < 5


async def test_a_partition_beyond_the_last_is_reported_by_name(brokers: Brokers) -> None:
    fakes = brokers()
    fakes.add_topic("known")
    async with connected(fakes) as cluster:
        with pytest.raises(UnknownTopicOrPartitionError, match="topic known, partition 3"):
            await run_one(cluster, EndOf(), TopicPartition("known", 3), cluster.deadline(600_000))


async def test_a_topic_that_brokers_have_yet_to_hear_of_is_found(loop: VirtualLoop, brokers: Brokers) -> None:
    fakes = brokers()
    async with connected(fakes) as cluster:
        loop.call_later(0.3, fakes.add_topic, "new")
        assert await run_one(cluster, EndOf(), TopicPartition("new", 0), cluster.deadline()) == 7


async def test_a_broker_that_is_not_in_the_cluster_is_reported_at_once(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    fakes = brokers(nodes=2)
    async with connected(fakes) as cluster:
        with pytest.raises(BrokerNotAvailableError, match="broker 9; the cluster has 1, 2"):
            await run_one(cluster, EndOf(node=9), TopicPartition("known", 0), cluster.deadline(600_000))
    assert loop.time() < 2


async def test_a_broker_that_has_just_joined_is_found(brokers: Brokers) -> None:
    fakes = brokers(nodes=2)
    joining = fakes.brokers.pop(2)
    async with connected(fakes) as cluster:
        fakes.brokers[2] = joining
        joining.answer(ApiKey.LIST_OFFSETS, ends)
        assert await run_one(cluster, EndOf(node=2), TopicPartition("any", 0), cluster.deadline()) == 7
