"""kclient's own `Cluster` on fake brokers in a simulation: over many seeds, and the same in every process.

Run as a program with a seed it prints the hash of its trace.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.errors import KafkaError
from kclient.testing import Conditions, Simulation, simulate
from kclient.wire.messages.metadata import FindCoordinatorRequest
from tests.support.connecting import answered, ask
from tests.support.fake_broker import FakeCluster

CALLS = 20
ROOT = Path(__file__).parents[3]


async def call(cluster: Cluster, number: int, deadline: Deadline) -> str:
    response = await cluster.call(
        number % 3 + 1, lambda _: ask(f"k{number}"), FindCoordinatorRequest, deadline
    )
    return answered(response)


async def survive(cluster: Cluster, sim: Simulation, number: int) -> str:
    """As an application does: again until it works, or an hour is over."""
    deadline = Deadline.after(sim.loop, 3600)
    while True:
        try:
            return await call(cluster, number, Deadline.after(sim.loop, 30))
        except KafkaError:
            if deadline.passed(sim.loop):
                raise
            await asyncio.sleep(1)


async def trouble(sim: Simulation) -> None:
    """Five faults at random times, each healed after a while."""
    for _ in range(5):
        await asyncio.sleep(sim.random.uniform(0, 2))
        victim = f"broker-{sim.random.randint(1, 3)}"
        fault = sim.random.choice(["silence", "refuse", "reset", "one way"])
        if fault == "silence":
            sim.network.silence(victim)
        elif fault == "one way":
            sim.network.pause(victim, None)
        elif fault == "refuse":
            sim.network.refuse(victim)
        sim.network.reset(victim)
        await asyncio.sleep(sim.random.uniform(0, 60))
        sim.network.heal()
        sim.network.admit(victim)


async def story(sim: Simulation) -> str:
    """A client that keeps asking three brokers while its network is slow, cuts bytes anywhere and fails."""
    top = sim.random.choice([0.001, 0.05, 0.5])
    conditions = Conditions(latency=(0.0, top), segments=(1, sim.random.choice([3, 50, 5000])))
    sim.network.conditions(conditions)
    brokers = FakeCluster(sim.loop, nodes=3)
    config = ClientConfig.from_options({"bootstrap_servers": brokers.bootstrap})
    cluster = Cluster(config, random=sim.random)
    faults = asyncio.create_task(trouble(sim))
    try:
        await cluster.start(Deadline.after(sim.loop, 3600))
        answers = await asyncio.gather(*(survive(cluster, sim, number) for number in range(CALLS)))
        assert answers == [f"k{number}" for number in range(CALLS)]
    finally:
        await faults
        await cluster.close()
    return sim.trace.digest()


@pytest.mark.parametrize("seed", range(200))
def test_a_client_gets_its_answers_through_a_network_that_cuts_delays_and_fails(seed: int) -> None:
    simulate(story, seed=seed)


def test_one_seed_gives_one_trace_and_another_seed_another() -> None:
    first = [simulate(story, seed=seed) for seed in range(5)]
    assert [simulate(story, seed=seed) for seed in range(5)] == first
    assert len(set(first)) == 5


@pytest.mark.parametrize("hash_seed", ["random", "1"])
def test_one_seed_gives_one_trace_in_every_process(hash_seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    for seed in (7, 8):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.unit.testing.test_a_client_on_it", str(seed)],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        assert ran.stdout.strip() == simulate(story, seed=seed)


if __name__ == "__main__":
    print(simulate(story, seed=int(sys.argv[1])))
