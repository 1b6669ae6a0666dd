"""kclient's `AsyncAdmin` on embedded brokers in a simulation: it follows what moves and what comes back.

Run as a program with a seed it prints the hash of its trace, which must be the same in every process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kclient import AsyncAdmin
from kclient.admin import NewTopic, OffsetSpec
from kclient.broker import Broker
from kclient.testing import Conditions, Simulation, simulate, until
from kclient.types import TopicPartition
from tests.broker.records_script import produce, records
from tests.support.embedded import connected, within

ROOT = Path(__file__).parents[3]
NODES = (1, 2, 3)
PARTITIONS = [TopicPartition("t", index) for index in range(6)]
FIRST = PARTITIONS[0]


async def trouble(sim: Simulation, broker: Broker) -> None:
    """Leaders and coordinators move, and one node after the other is away for a while."""
    for node in NODES:
        await asyncio.sleep(sim.random.uniform(0, 2))
        await broker.stop_node(node)
        await asyncio.sleep(sim.random.uniform(0, 20))
        for partition in PARTITIONS:
            broker.move_leader(*partition, sim.random.choice([one.node_id for one in broker.running()]))
        broker.move_coordinator("g", sim.random.choice([one.node_id for one in broker.running()]))
        await broker.start_node(node)


async def ask(admin: AsyncAdmin, number: int) -> None:
    """What is routed to leaders, to a coordinator and to anybody."""
    for _ in range(5):
        offsets = await admin.list_offsets(PARTITIONS, OffsetSpec.LATEST)
        assert {one.offset for one in offsets.values()} == {0}
        await admin.alter_consumer_group_offsets("g", {FIRST: number})
        committed = await admin.list_consumer_group_offsets("g", FIRST)
        assert committed[FIRST] is not None
        assert "t" in await admin.list_topics()
        assert len((await admin.describe_topics("t"))["t"].partitions) == len(PARTITIONS)
        await asyncio.sleep(5)


async def story(sim: Simulation) -> str:
    sim.network.conditions(Conditions(latency=(0.0, 0.2), segments=(1, 50)))
    async with (
        Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker,
        AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        await admin.create_topics(NewTopic("t", num_partitions=len(PARTITIONS), replication_factor=3))
        moving = asyncio.create_task(trouble(sim, broker))
        await asyncio.gather(*(ask(admin, number) for number in range(3)))
        await moving
    return sim.trace.digest()


@pytest.mark.parametrize("seed", range(10))
def test_an_admin_gets_its_answers_while_nodes_stop_and_leaders_move(seed: int) -> None:
    simulate(story, seed=seed)


def test_one_seed_gives_one_trace_and_another_seed_another() -> None:
    first = [simulate(story, seed=seed) for seed in range(3)]
    assert [simulate(story, seed=seed) for seed in range(3)] == first
    assert len(set(first)) == 3


@pytest.mark.parametrize("hash_seed", ["random", "1"])
def test_one_seed_gives_one_trace_in_every_process(hash_seed: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.unit.testing.test_an_admin_on_the_broker", "7"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
    )
    assert ran.stdout.strip() == simulate(story, seed=7)


def test_a_client_asks_the_new_leader_of_each_partition() -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker,
            AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            broker.create_topic("t", len(PARTITIONS), 3)
            assert (await admin.list_offsets(FIRST))[FIRST].offset == 0
            for round_, leader in enumerate((2, 3, 1, 3), 1):
                for partition in PARTITIONS:
                    broker.move_leader(*partition, leader)
                async with connected(broker, leader) as connection:
                    for partition in PARTITIONS:
                        request = produce("t", records(b"one"), partition.partition)
                        answer = await connection.call(request, within(5), version=12)
                        assert answer.responses[0].partition_responses[0].error_code == 0
                found = await admin.list_offsets(PARTITIONS, OffsetSpec.LATEST)
                assert {one.offset for one in found.values()} == {round_}

    simulate(main)


def test_a_client_waits_for_the_only_replica_of_a_partition_to_come_back() -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker,
            AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            topic = broker.create_topic("t", 1, 1)
            (leader,) = topic.partitions[0].replicas
            await admin.list_offsets(FIRST)
            await broker.stop_node(leader)
            asked = asyncio.create_task(admin.list_offsets(FIRST, timeout_ms=300_000))
            await asyncio.sleep(100)
            assert not asked.done()
            await broker.start_node(leader)
            assert (await asked)[FIRST].offset == 0
            assert topic.partitions[0].leader_epoch == 2

    simulate(main)


def test_a_client_follows_a_coordinator_that_moves_and_one_that_stops() -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker,
            AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            broker.create_topic("t", 1, 3)
            for offset, node in enumerate((2, 3, 1)):
                broker.move_coordinator("g", node)
                await admin.alter_consumer_group_offsets("g", {FIRST: offset})
                committed = (await admin.list_consumer_group_offsets("g", FIRST))[FIRST]
                assert committed is not None
                assert committed.offset == offset
            await broker.stop_node(1)
            assert broker.coordinator_of("g") != 1
            assert (await admin.list_consumer_group_offsets("g", FIRST))[FIRST] == committed

    simulate(main)


def test_a_client_finds_a_cluster_again_that_was_away_as_a_whole() -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(nodes=3, clock=sim.clock, seed=sim.seed) as broker,
            AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            broker.create_topic("t", 1, 3)
            await admin.list_offsets(FIRST)
            for node in NODES:
                await broker.stop_node(node)
            asked = asyncio.create_task(admin.list_offsets(FIRST, timeout_ms=600_000))
            await asyncio.sleep(120)
            for node in NODES:
                await broker.start_node(node)
            await until(asked.done)
            assert (await asked)[FIRST].offset == 0

    simulate(main)


if __name__ == "__main__":
    print(simulate(story, seed=int(sys.argv[1])))
