"""Three ways to send a record with asyncio: forget it, wait for it, be told of it.

`send` always does the same and returns a `Delivery`. The ways differ in what becomes of that: nothing, an
`await`, or a callback.
"""

from __future__ import annotations

import asyncio

from examples.cluster import cluster_with
from kclient import AsyncProducer
from kclient.producer import Delivery

TOPIC = "orders"


def told(delivery: Delivery) -> None:
    """Runs on the event loop once the fate of the record is known."""
    error = delivery.exception()
    print("callback: failed," if error else "callback: delivered,", error or delivery.result().topic)


async def main(bootstrap: str) -> None:
    async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
        # Forget. A record that could not be delivered is then known to nobody but `metrics().errors`.
        await producer.send(TOPIC, b"a teapot", key=b"customer-1")

        # Wait. One round trip per record: safe, and the slowest way. Raises why a record was not written.
        metadata = await producer.send_and_wait(TOPIC, b"two cups", key=b"customer-1")
        print(f"wait: {metadata.topic}-{metadata.partition} at offset {metadata.offset}")

        # Be told. As fast as forgetting.
        delivery = await producer.send(TOPIC, b"three spoons", key=b"customer-1")
        delivery.add_done_callback(told)

        # Or send many and wait once: the records share requests, and each has its own fate.
        deliveries = [await producer.send(TOPIC, b"saucer %d" % number) for number in range(100)]
        written = await asyncio.gather(*deliveries, return_exceptions=True)
        print(f"later: {sum(not isinstance(each, BaseException) for each in written)} of 100 delivered")
    # Leaving the block delivers what is still there.


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, _):
        asyncio.run(main(bootstrap))
