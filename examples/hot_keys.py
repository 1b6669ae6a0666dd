"""Three ways out when one key has most of the records and its partition cannot keep up.

Its own partition (order kept, others undisturbed), salting (spread over several partitions, order lost), a
compound key (order kept for the part that needs it). The partitioners are in `kclient.producer.hot_keys`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from examples.cluster import cluster_with
from kclient import AsyncProducer
from kclient.producer import KeyPart, OwnPartition, Salted

TOPIC = "sales"
HOT = b"megastore"


async def partitions_of(bootstrap: str, partitioner: object, keys: list[bytes]) -> dict[bytes, set[int]]:
    """Send a record per key and tell which partitions each shop (the part before the slash) got."""
    found = defaultdict(set)
    async with AsyncProducer(bootstrap_servers=bootstrap, partitioner=partitioner) as producer:
        written = await (await producer.send_many(TOPIC, [b"sale"] * len(keys), keys))
        for key, metadata in zip(keys, written, strict=True):
            found[key.partition(b"/")[0]].add(metadata.partition)
    return found


def others(found: dict[bytes, set[int]]) -> set[int]:
    """The partitions of all shops but the hot one."""
    return set().union(*(partitions for shop, partitions in found.items() if shop != HOT))


async def main(bootstrap: str) -> None:
    shops = [HOT] * 900 + [b"shop-%d" % number for number in range(100)]

    found = await partitions_of(bootstrap, None, shops)
    print(f"hash of the key: {len(found[HOT])} partition, shared: {found[HOT] <= others(found)}")

    found = await partitions_of(bootstrap, OwnPartition({HOT: 0}), shops)
    print(f"own partition: {found[HOT]}, shared: {found[HOT] <= others(found)}")

    found = await partitions_of(bootstrap, Salted([HOT], ways=4), shops)
    print(f"salted: {len(found[HOT])} partitions, no order between them")

    # `shop/till` by till: a till keeps its order, and a shop is as wide as it has tills.
    tills = [b"%s/till-%d" % (shop, number % 50) for number, shop in enumerate(shops)]
    by_till = KeyPart(lambda key: key.partition(b"/")[2])
    found = await partitions_of(bootstrap, by_till, tills)
    print(f"compound key, by till: {len(found[HOT])} partitions, in order for each till")


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, _):
        asyncio.run(main(bootstrap))
