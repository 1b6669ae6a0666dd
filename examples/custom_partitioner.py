"""Your own partitioner: a function of the key, or an object that sees topic, value and queues as well.

Both answer with a partition; an object may also answer None, which leaves the record to the sticky
partition. An answer that the topic does not have fails the record, not the producer.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from examples.cluster import cluster_with
from kclient import AsyncProducer
from kclient.producer import PartitionView

TOPIC = "parcels"
COUNTRIES = (b"DE", b"FR", b"PL")


def by_country(key: bytes | None, partitions: list[int], available: list[int]) -> int:
    """`DE-1041` goes to the partition of its country. The signature is aiokafka's."""
    country = (key or b"")[:2]
    return partitions[COUNTRIES.index(country)] if country in COUNTRIES else partitions[-1]


class ExpressFirst:
    """Express parcels go to partition 0, which nobody else uses; the others to the shortest queue."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView) -> int:
        if value is not None and value.startswith(b"express"):
            return 0
        others = [partition for partition in view.available if partition] or [view.count - 1]
        return min(others, key=view.queued)


async def send(bootstrap: str, partitioner: object, values: list[bytes]) -> list[int]:
    """The partitions that these records got."""
    async with AsyncProducer(bootstrap_servers=bootstrap, partitioner=partitioner) as producer:
        keys = [b"%s-%d" % (COUNTRIES[number % 3], number) for number in range(len(values))]
        return [each.partition for each in await (await producer.send_many(TOPIC, values, keys))]


async def main(bootstrap: str) -> None:
    values = [b"express" if number % 10 == 0 else b"parcel" for number in range(90)]
    print("by country:", dict(sorted(Counter(await send(bootstrap, by_country, values)).items())))
    partitions = await send(bootstrap, ExpressFirst(), values)
    print(
        "express:", sorted({at for at, value in zip(partitions, values, strict=True) if value == b"express"})
    )
    print(
        "others avoid 0:",
        0 not in {at for at, value in zip(partitions, values, strict=True) if value == b"parcel"},
    )


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, _):
        asyncio.run(main(bootstrap))
