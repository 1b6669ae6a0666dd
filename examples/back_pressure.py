"""Back-pressure: what happens when records come faster than the cluster takes them.

Records that are not delivered yet take at most `buffer_memory`. When that is full, `await send(…)` waits up
to `max_block_ms` and then raises `BufferFullError`; `send_nowait` raises it at once.
"""

from __future__ import annotations

import asyncio

from examples.cluster import cluster_with
from kclient import AsyncProducer
from kclient.broker import Broker
from kclient.errors import BufferFullError
from kclient.wire.api import ApiKey

TOPIC = "clicks"
RECORDS = 500
BUFFER = 65_536
VALUE = b"c" * 1_000


async def refuse(producer: AsyncProducer) -> None:
    """For those who must not wait and can do without a record: shed load."""
    refused = 0
    for _ in range(RECORDS):
        try:
            producer.send_nowait(TOPIC, VALUE)
        except BufferFullError:
            refused += 1
    print(f"send_nowait: {RECORDS - refused} taken, {refused} refused")


async def wait(producer: AsyncProducer) -> None:
    """For all others: the loop goes as fast as the cluster, and memory stays where it is."""
    most = 0
    for _ in range(RECORDS):
        await producer.send(TOPIC, VALUE)
        most = max(most, producer.metrics().buffer_used)
    print(f"send: {RECORDS} taken, never more than the buffer: {most <= BUFFER}")


async def wait_no_longer_than(producer: AsyncProducer, broker: Broker | None) -> None:
    """`max_block_ms` bounds the waiting: a cluster that has stalled becomes an error."""
    if broker is not None:
        broker.faults.delay(ApiKey.PRODUCE, seconds=2)
    try:
        for _ in range(RECORDS):
            await producer.send(TOPIC, VALUE)
        print("max_block_ms: there was always room in time")
    except BufferFullError as error:
        print("max_block_ms:", error)


async def main(bootstrap: str, broker: Broker | None) -> None:
    async with AsyncProducer(
        bootstrap_servers=bootstrap, buffer_memory=BUFFER, max_block_ms=1_000
    ) as producer:
        await refuse(producer)
        await wait(producer)
        await wait_no_longer_than(producer, broker)


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, broker):
        asyncio.run(main(bootstrap, broker))
