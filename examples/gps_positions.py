"""GPS positions: one vehicle reports far more often than the others, and the map is slower than all of them.

The hot vehicle has a partition of its own, so its queue delays nobody. Back-pressure holds at both ends:
`send` waits while 64 KiB are on their way, and a partition whose lane is full is paused until the map has
caught up. Nothing is dropped, and each vehicle's positions stay in order.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from typing import Any

from examples.cluster import cluster_with
from kclient import AsyncConsumer, AsyncProducer, Record, TopicPartition
from kclient.producer import OwnPartition

TOPIC = "positions"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(6)]
HOT = b"tram-1"
TAXIS = [b"taxi-%d" % number for number in range(20)]
ROUNDS, HOT_PER_ROUND = 20, 100
EXPECTED = {HOT: ROUNDS * HOT_PER_ROUND} | dict.fromkeys(TAXIS, ROUNDS)
BUFFER = 65_536
FULL, LOW, MAX_RECORDS = 100, 20, 50
POSITION = struct.Struct("!Idd")  # number, latitude, longitude


async def drive(bootstrap: str) -> None:
    """Vehicles report as fast as they can, and no faster than the cluster takes it."""
    sent: defaultdict[bytes, int] = defaultdict(int)
    most = 0
    async with AsyncProducer(
        bootstrap_servers=bootstrap, buffer_memory=BUFFER, partitioner=OwnPartition({HOT: 0})
    ) as producer:
        for vehicle in ([HOT] * HOT_PER_ROUND + TAXIS) * ROUNDS:
            await producer.send(TOPIC, POSITION.pack(sent[vehicle], 52.5, 13.4), vehicle)
            sent[vehicle] += 1
            most = max(most, producer.metrics().buffer_used)
    print(f"producer: never more than {BUFFER} bytes on their way: {most <= BUFFER}")


class Map:
    """Draws positions, a lane for each partition. It takes its time."""

    def __init__(self) -> None:
        self.lanes = {partition: asyncio.Queue[Record[Any, Any]]() for partition in PARTITIONS}
        self.drawn: defaultdict[bytes, int] = defaultdict(int)
        self.partitions: defaultdict[bytes, set[int]] = defaultdict(set)
        self.in_order = True

    async def draw(self, partition: TopicPartition) -> None:
        while True:
            record = await self.lanes[partition].get()
            self.in_order &= POSITION.unpack(record.value)[0] == self.drawn[record.key]
            self.drawn[record.key] += 1
            self.partitions[record.key].add(record.partition)
            if self.drawn[record.key] % 10 == 0:
                await asyncio.sleep(0.001)

    def left(self, vehicles: list[bytes]) -> int:
        """How many positions of these are not drawn yet."""
        return sum(EXPECTED[vehicle] - self.drawn[vehicle] for vehicle in vehicles)


async def show(bootstrap: str, city: Map) -> None:
    """Fill the lanes, and none of them beyond measure, until everything is drawn."""
    pauses = longest = hot_left = 0
    async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(PARTITIONS)
        while city.left([HOT, *TAXIS]):
            batches = await consumer.getmany(timeout_ms=5, max_records=MAX_RECORDS)
            for partition, records in batches.items():
                for record in records:
                    city.lanes[partition].put_nowait(record)
            for partition, lane in city.lanes.items():
                longest = max(longest, lane.qsize())
                if lane.qsize() >= FULL and partition not in consumer.paused():
                    consumer.pause(partition)
                    pauses += 1
                elif lane.qsize() <= LOW and partition in consumer.paused():
                    consumer.resume(partition)
            if not city.left(TAXIS):
                hot_left = hot_left or city.left([HOT])
    print(f"consumer: a lane was paused: {pauses > 0}, none grew: {longest < FULL + MAX_RECORDS}")
    print(f"all taxis were drawn while {HOT.decode()} was not: {hot_left > 0}")


async def main(bootstrap: str) -> None:
    await drive(bootstrap)
    city = Map()
    workers = [asyncio.create_task(city.draw(partition)) for partition in PARTITIONS]
    await show(bootstrap, city)
    for worker in workers:
        worker.cancel()
    others = set().union(*(city.partitions[taxi] for taxi in TAXIS))
    print(f"{HOT.decode()} has {city.partitions[HOT]}, taxis have {others}")
    print(f"{sum(city.drawn.values())} positions, each vehicle's in order: {city.in_order}")


if __name__ == "__main__":
    with cluster_with(TOPIC, len(PARTITIONS)) as (bootstrap, _):
        asyncio.run(main(bootstrap))
