"""Whole columns at once: lists with `send_many`, Arrow tables with `send_arrow`, frames with `send_pandas`.

The fastest ways to send, as nothing is done per record in Python. All give `Deliveries`: the fate of every
row, in the order of the rows.
"""

from __future__ import annotations

import asyncio

import pandas as pd
import pyarrow as pa

from examples.cluster import cluster_with
from kclient import AsyncProducer

TOPIC = "measurements"


async def main(bootstrap: str) -> None:
    async with AsyncProducer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        keys = [b"sensor-%d" % (number % 10) for number in range(10_000)]
        values = [b"%d" % number for number in range(10_000)]
        deliveries = await producer.send_many(TOPIC, values, keys)
        written = await deliveries  # raises the first error; `deliveries.errors()` has all of them
        print(f"send_many: {len(written)} rows, the last one in partition {written[-1].partition}")

        # Columns: value, and as far as they are there key, partition, timestamp and headers. Text is UTF-8.
        table = pa.table({"key": ["sensor-1", "sensor-2"], "value": ["21.5", "19.0"], "partition": [3, 4]})
        written = await (await producer.send_arrow(TOPIC, table))
        print(f"send_arrow: partitions {[each.partition for each in written]}")

        noon = pd.Timestamp("2026-01-01T12:00:00Z")
        frame = pd.DataFrame({"value": ["22.0", "18.5"], "timestamp": [noon, noon]})
        written = await (await producer.send_pandas(TOPIC, frame))
        print(f"send_pandas: {[pd.Timestamp(each.timestamp, unit='ms').isoformat() for each in written]}")


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, _):
        asyncio.run(main(bootstrap))
