"""Back-pressure by pausing: a partition whose worker is behind waits, the others go on.

The consumer is asked for records all the while, so it stays in its group however slow a worker is. What was
fetched of a paused partition is kept and not fetched again.
"""

from __future__ import annotations

import asyncio

from examples.cluster import cluster_with, fill
from kclient import AsyncConsumer, Record, TopicPartition

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 1_000  # half of them in each partition
FULL, LOW = 50, 10
MAX_RECORDS = 25


class Lane:
    """The records of one partition that wait for its worker."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Record[bytes | None, bytes | None]] = asyncio.Queue()
        self.longest = 0
        self.pauses = 0

    def add(self, records: list[Record[bytes | None, bytes | None]]) -> None:
        for record in records:
            self.queue.put_nowait(record)
        self.longest = max(self.longest, self.queue.qsize())

    async def work(self, seconds: float) -> None:
        for _ in range(RECORDS // PARTITIONS):
            await self.queue.get()
            await asyncio.sleep(seconds)


async def read(
    consumer: AsyncConsumer[bytes | None, bytes | None], lanes: dict[TopicPartition, Lane]
) -> None:
    """Fill the lanes, and none of them beyond measure."""
    while True:
        for partition, records in (await consumer.getmany(timeout_ms=5, max_records=MAX_RECORDS)).items():
            lanes[partition].add(records)
        paused = consumer.paused()
        for partition, lane in lanes.items():
            if lane.queue.qsize() >= FULL and partition not in paused:
                consumer.pause(partition)
                lane.pauses += 1
            elif lane.queue.qsize() <= LOW and partition in paused:
                consumer.resume(partition)


async def main(bootstrap: str) -> None:
    slow, fast = (TopicPartition(TOPIC, number) for number in range(PARTITIONS))
    async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([slow, fast])
        lanes = {slow: Lane(), fast: Lane()}
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read(consumer, lanes))
            slowly = tasks.create_task(lanes[slow].work(0.002))
            await lanes[fast].work(0)
            print(f"all of the fast partition is done, the slow one goes on: {not slowly.done()}")
            await slowly
            reading.cancel()
    print(f"the slow one was paused: {lanes[slow].pauses > 0}")
    print(f"fewer than {FULL + MAX_RECORDS} records waited: {lanes[slow].longest < FULL + MAX_RECORDS}")


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _):
        fill(bootstrap, TOPIC, RECORDS, PARTITIONS)
        asyncio.run(main(bootstrap))
