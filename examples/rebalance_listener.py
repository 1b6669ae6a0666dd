"""A rebalance listener: what it is told when a second member joins a group, and when it leaves.

With cooperative-sticky, partitions that stay are never stopped. What was read of those that go is
committed while that is still possible, so that their next reader repeats nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

from examples.cluster import cluster_with, fill
from kclient import AsyncConsumer, TopicPartition
from kclient.consumer import ConsumerRebalanceListener

TOPIC = "orders"
PARTITIONS = 4
RECORDS = 100


class Told(ConsumerRebalanceListener):
    """Methods may be coroutines, and may use the consumer. The group waits for them."""

    def __init__(self, name: str, consumer: AsyncConsumer[bytes | None, bytes | None]) -> None:
        self._name = name
        self._consumer = consumer

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        if assigned:  # a cooperative rebalance that brings nothing new is told of too
            print(f"{self._name} gets {numbers(assigned)}")

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        await self._consumer.commit()
        print(f"{self._name} gives up {numbers(revoked)}")

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        """Too late to commit: others read these already. Throw away what belongs to them."""
        print(f"{self._name} has lost {numbers(lost)}")


def numbers(partitions: frozenset[TopicPartition]) -> list[int]:
    return sorted(each.partition for each in partitions)


def member(bootstrap: str, name: str) -> AsyncConsumer[Any, Any]:
    consumer = AsyncConsumer(
        bootstrap_servers=bootstrap,
        client_id=name,
        group_id="listening",
        partition_assignment_strategy="cooperative-sticky",
        heartbeat_interval_ms=100,  # how soon a member hears that another one joined; 3 s otherwise
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.subscribe([TOPIC], listener=Told(name, consumer))
    return consumer


async def read(consumer: AsyncConsumer[Any, Any], partitions: int, records: int = 0) -> int:
    """Read until so many partitions are assigned and so many records have come."""
    count = 0
    while count < records or len(consumer.assignment()) != partitions:
        count += sum(map(len, (await consumer.getmany(timeout_ms=50)).values()))
    return count


async def main(bootstrap: str) -> None:
    async with member(bootstrap, "first") as first:
        total = await read(first, PARTITIONS, RECORDS)
        async with member(bootstrap, "second") as second:
            total += sum(await asyncio.gather(read(first, 2), read(second, 2)))
        total += await read(first, PARTITIONS)
    print(f"{RECORDS} records were written, {total} were read")


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _):
        fill(bootstrap, TOPIC, RECORDS, PARTITIONS)
        asyncio.run(main(bootstrap))
