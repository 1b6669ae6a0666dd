"""Nodes are stopped and leaders moved from wherever a test is; a node that is not there is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient import Admin, AsyncAdmin
from kclient.broker.broker import Broker
from kclient.errors import ConfigurationError
from kclient.net.connection import Connection
from kclient.testing import RunningBroker
from tests.support.embedded import simulated


async def _move_leader(broker: Broker, node: int) -> None:
    broker.move_leader("t", 0, node)


async def _move_coordinator(broker: Broker, node: int) -> None:
    broker.move_coordinator("billing", node)


Call = Callable[[Broker, Any], Awaitable[object]]
CALLS: list[Call] = [Broker.stop_node, Broker.start_node, _move_leader, _move_coordinator]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("node", [99, 0, -1, "2"])
def test_a_node_that_is_not_in_the_cluster_is_refused_with_those_that_are(call: Call, node: object) -> None:
    async def check(broker: Broker, _: Connection) -> None:
        partition = broker.create_topic("t", 1, 3).partitions[0]
        before = partition.leader, partition.replicas, partition.leader_epoch
        with pytest.raises(
            ConfigurationError, match=f"no node {node!r} in this cluster: name one of 1, 2, 3"
        ):
            await call(broker, node)
        assert (partition.leader, partition.replicas, partition.leader_epoch) == before
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert (await admin.describe_topics("t"))["t"].partitions[0].leader == before[0]

    simulated(check, nodes=3)


def test_a_stopped_node_leads_nothing_before_it_is_started() -> None:
    async def check(broker: Broker, _: Connection) -> None:
        broker.create_topic("t", 1, 3)
        await broker.stop_node(3)
        with pytest.raises(ConfigurationError, match="node 3 is stopped: start it first"):
            broker.move_leader("t", 0, 3)
        await broker.start_node(3)
        await broker.start_node(3)
        broker.move_leader("t", 0, 3)
        assert broker.topics.partition("t", 0).leader == 3

    simulated(check, nodes=3)


def _leader(admin: Admin) -> int | None:
    return admin.describe_topics("orders")["orders"].partitions[0].leader


def test_a_test_that_blocks_moves_what_is_on_the_brokers_thread() -> None:
    with RunningBroker(nodes=3) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        kafka.create_topic("orders", partitions=1, replication_factor=3)
        first = _leader(admin)
        assert first is not None
        kafka.move_leader("orders", 0, first % 3 + 1)
        assert _leader(admin) == first % 3 + 1
        kafka.stop_node(first % 3 + 1)
        assert _leader(admin) not in (None, first % 3 + 1)
        kafka.start_node(first % 3 + 1)
        kafka.broker.move_leader("orders", 0, first % 3 + 1)
        assert _leader(admin) == first % 3 + 1
        kafka.move_coordinator("billing", 2)
        assert kafka.broker.coordinator_of("billing") == 2
        with pytest.raises(ConfigurationError, match="no node 99"):
            kafka.stop_node(99)


@pytest.mark.uvloop
def test_a_test_on_a_loop_of_its_own_awaits_what_is_done_on_the_brokers() -> None:
    with RunningBroker(nodes=3) as kafka:
        loops: list[asyncio.AbstractEventLoop] = []
        kafka.broker.topics.on_change.append(lambda: loops.append(asyncio.get_running_loop()))

        async def story() -> None:
            async with AsyncAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
                kafka.broker.create_topic("orders", 1, 3)
                await kafka.broker.stop_node(2)
                assert [node.node_id for node in (await admin.describe_cluster()).brokers] == [1, 3]
                await kafka.broker.start_node(2)
                kafka.broker.move_leader("orders", 0, 2)
                assert (await admin.describe_topics("orders"))["orders"].partitions[0].leader == 2

        asyncio.run(story())
        assert loops == [kafka.broker.loop]


def test_a_node_that_is_started_and_stopped_at_once_does_one_after_the_other() -> None:
    with RunningBroker(nodes=2) as kafka:

        async def story() -> None:
            broker = kafka.broker
            for _ in range(3):
                await broker.stop_node(2)
                await asyncio.gather(broker.start_node(2), broker.start_node(2))
                await broker.stop_node(2)
                await asyncio.gather(broker.start_node(2), broker.stop_node(2))
                assert not broker.is_running(2)
                await broker.start_node(2)  # on its ports, which have to be free
                assert broker.is_running(2)

        asyncio.run(story())
