"""Who leads a real cluster and its partitions, and another leader on request."""

from __future__ import annotations

import asyncio

from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.wire.messages.quorum import DescribeQuorumRequest
from kclient.wire.messages.replicas import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from tools.kafka import KafkaCluster, Node
from tools.kafka.waiting import poll

_CONTROLLERS_LOG = "__cluster_metadata"


def active_controller(brokers: KafkaCluster) -> Node:
    """The leader of the controllers; what metadata calls the controller is any broker."""
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=_CONTROLLERS_LOG, partitions=[topic.PartitionData(partition_index=0)])]
    )

    async def ask() -> int:
        cluster = Cluster(ClientConfig(bootstrap_servers=brokers.bootstrap()))
        try:
            answer = await cluster.call(None, lambda _: request, DescribeQuorumRequest, cluster.deadline())
        finally:
            await cluster.close()
        return int(answer.topics[0].partitions[0].leader_id)

    return brokers.node(asyncio.run(ask()))


def move_leader(brokers: KafkaCluster, topic: str, partition: int, new_leader: int) -> None:
    """Make another replica the preferred one, elect it, and wait until it leads."""
    reassign, elect = AlterPartitionReassignmentsRequest, ElectLeadersRequest
    replicas = [new_leader, *sorted({node.id for node in brokers.nodes} - {new_leader})]
    placed = reassign.ReassignableTopic.ReassignablePartition(partition_index=partition, replicas=replicas)
    wanted = reassign(topics=[reassign.ReassignableTopic(name=topic, partitions=[placed])])
    moved = elect(topic_partitions=[elect.TopicPartitions(topic=topic, partitions=[partition])])

    async def move() -> None:
        cluster = Cluster(ClientConfig(bootstrap_servers=brokers.bootstrap()))
        try:
            await cluster.call(None, lambda _: wanted, reassign, cluster.deadline())
            await cluster.call(None, lambda _: moved, elect, cluster.deadline())
        finally:
            await cluster.close()

    def attempt() -> bool:
        if brokers.leader(topic, partition).id == new_leader:
            return True
        asyncio.run(move())
        return False

    poll(attempt, timeout=30, failure=lambda: f"{topic}-{partition} was not moved to {new_leader}")
