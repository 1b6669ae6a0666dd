"""Where records without a key go: those that travel alone spread, those that come together fill batches."""

from __future__ import annotations

import asyncio
from statistics import mean
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.producer import AsyncProducer
from kclient.wire.api import ApiKey
from tests.support.producing import producing, requests_to, values

SIX = 6


def counts(broker: Broker) -> list[int]:
    return [len(values(broker, partition=partition)) for partition in range(SIX)]


@pytest.mark.parametrize("partitioner", ["default", "sticky", "consistent_random"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_records_at_a_low_rate_spread_over_all_partitions(partitioner: str, linger_ms: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for _ in range(500):
            await producer.send("t", b"alone")
            await asyncio.sleep(0.02)
        await producer.flush()
        assert sum(counts(broker)) == 500
        assert min(counts(broker)) >= 50
        assert max(counts(broker)) <= 120

    producing(check, partitions=SIX, partitioner=partitioner, linger_ms=linger_ms)


def test_records_that_are_waited_for_one_by_one_spread() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for _ in range(500):
            await producer.send_and_wait("t", b"alone")
        assert min(counts(broker)) >= 50

    producing(check, partitions=SIX)


def batches_of_a_burst(seconds: float, **options: Any) -> list[int]:
    """The sizes of the batches that 20,000 records make, sent within 0.4 s to a broker that is slow."""
    sizes: list[int] = []

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        broker.faults.delay(ApiKey.PRODUCE, seconds, times=None)
        requests = requests_to(broker)
        for _ in range(400):
            for _ in range(50):
                await producer.send("t", bytes(64))
            await asyncio.sleep(0.001)
        await producer.flush()
        assert sum(counts(broker)) == 20_000
        for request in requests:
            sizes.extend(
                len(part.records or b"") for topic in request.topic_data for part in topic.partition_data
            )

    producing(check, partitions=SIX, **options)
    return sizes


@pytest.mark.parametrize("linger_ms", [0, 5])
@pytest.mark.parametrize("nodes", [1, 3])
def test_records_that_come_faster_than_the_cluster_takes_them_fill_batches(
    linger_ms: int, nodes: int
) -> None:
    sizes = batches_of_a_burst(0.05, nodes=nodes, linger_ms=linger_ms, batch_size=16_384)
    assert mean(sizes) > 9_000


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_comes_within_the_linger_is_one_batch(nodes: int) -> None:
    sizes = batches_of_a_burst(0.002, nodes=nodes, linger_ms=5)
    assert len(sizes) <= 400 / 5 + 5
