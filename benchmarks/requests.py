"""Small requests over one connection to a real broker: kclient's connection against aiokafka's.

`python -m benchmarks.requests` prints requests per second for Metadata and ListOffsets with 1 and 10 in
flight, and ratios. Contestants take turns within one run on one broker; the median of the rounds counts.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.metadata import MetadataRequest as AioMetadataRequest
from aiokafka.protocol.offset import OffsetRequest as AioOffsetRequest

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.wire.messages.fetch import ListOffsetsRequest
from kclient.wire.messages.metadata import MetadataRequest
from tools.kafka.cluster import KafkaCluster

TOPIC = "requests"
PARTITIONS = 6
REQUESTS = 3_000
ROUNDS = 5
# What kclient promises, as a multiple of aiokafka's rate.
FLOOR = 1.5

Ask = Callable[[], Awaitable[object]]


class Row(NamedTuple):
    """Requests per second of one kind, with so many in flight."""

    request: str
    in_flight: int
    ours: float
    aiokafka: float

    @property
    def ratio(self) -> float:
        return self.ours / self.aiokafka


async def rate(ask: Ask, in_flight: int) -> float:
    """Requests per second when `in_flight` callers ask one after the other."""

    async def caller() -> None:
        for _ in range(REQUESTS // in_flight):
            await ask()

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return REQUESTS / (time.perf_counter() - began)


async def our_requests(cluster: Cluster) -> dict[str, Ask]:
    loop = asyncio.get_running_loop()
    connection = await cluster.any_connection(cluster.deadline())
    metadata, offsets = MetadataRequest.MetadataRequestTopic, ListOffsetsRequest.ListOffsetsTopic

    async def ask_metadata() -> object:
        request = MetadataRequest(topics=[metadata(name=TOPIC)])
        return await connection.call(request, Deadline.after(loop, 30))

    async def ask_offsets() -> object:
        partitions = [
            offsets.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(PARTITIONS)
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=[offsets(name=TOPIC, partitions=partitions)])
        return await connection.call(request, Deadline.after(loop, 30))

    return {"Metadata": ask_metadata, "ListOffsets": ask_offsets}


def aiokafka_requests(client: AIOKafkaClient, node: int) -> dict[str, Ask]:
    async def ask_metadata() -> object:
        return await client.send(node, AioMetadataRequest([TOPIC]))

    async def ask_offsets() -> object:
        partitions = [(number, -1) for number in range(PARTITIONS)]
        return await client.send(node, AioOffsetRequest(-1, 0, [(TOPIC, partitions)]))

    return {"Metadata": ask_metadata, "ListOffsets": ask_offsets}


async def race(bootstrap: str) -> list[Row]:
    cluster = Cluster(ClientConfig(bootstrap_servers=bootstrap))
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    try:
        await cluster.start(cluster.deadline())
        await client.bootstrap()
        ours = await our_requests(cluster)
        theirs = aiokafka_requests(client, next(iter(cluster.metadata.snapshot.brokers)))
        rows = []
        for name in ours:
            for in_flight in (1, 10):
                await rate(ours[name], in_flight)
                await rate(theirs[name], in_flight)
                rounds = [
                    (await rate(ours[name], in_flight), await rate(theirs[name], in_flight))
                    for _ in range(ROUNDS)
                ]
                rows.append(
                    Row(name, in_flight, *(statistics.median(rates) for rates in zip(*rounds, strict=True)))
                )
        return rows
    finally:
        await client.close()
        await cluster.close()


def run() -> list[Row]:
    with KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        return asyncio.run(race(kafka.bootstrap()))


def table(rows: list[Row]) -> str:
    lines = [f"{'request':14}{'in flight':>10}{'kclient /s':>12}{'aiokafka /s':>13}{'ratio':>8}"]
    lines += [
        f"{row.request:14}{row.in_flight:>10}{row.ours:>12,.0f}{row.aiokafka:>13,.0f}{row.ratio:>8.2f}"
        for row in rows
    ]
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    """Where the promise is not kept, in words."""
    return [
        f"{row.request} with {row.in_flight} in flight: {row.ratio:.2f} x aiokafka, promised is {FLOOR}"
        for row in rows
        if row.ratio < FLOOR
    ]


if __name__ == "__main__":
    found = run()
    print(table(found))
    print(*behind(found), sep="\n")
