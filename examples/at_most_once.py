"""At most once: commit first, then work. A crash loses what was committed and not worked on yet.

For records of which a missing one hurts less than a double one, such as a reading of a sensor.
"""

from __future__ import annotations

import asyncio

from examples.cluster import cluster_with, fill
from kclient import AsyncConsumer

TOPIC = "orders"
RECORDS = 10
LAST = b"order 9"


async def run(bootstrap: str, worked_on: list[bytes | None], crash_at: bytes | None = None) -> None:
    """One life of the application, until the last record."""
    async with AsyncConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="at-most-once",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        while LAST not in worked_on:  # a real application would go on for ever
            batch = await consumer.getmany(timeout_ms=1_000, max_records=5)
            await consumer.commit()  # all that was handed out, before anything is done with it
            for record in (record for records in batch.values() for record in records):
                if record.value == crash_at:
                    raise RuntimeError("power cut")
                worked_on.append(record.value)


async def main(bootstrap: str) -> None:
    worked_on: list[bytes | None] = []
    try:
        await run(bootstrap, worked_on, crash_at=b"order 3")
    except RuntimeError as error:
        print(f"{error} after {len(worked_on)} records")
    await run(bootstrap, worked_on)
    lost = {b"order %d" % number for number in range(RECORDS)} - set(worked_on)
    print(f"twice: {len(worked_on) - len(set(worked_on))}")
    print(f"never: {b', '.join(sorted(lost)).decode()}")


if __name__ == "__main__":
    with cluster_with(TOPIC, partitions=1) as (bootstrap, _):
        fill(bootstrap, TOPIC, RECORDS)
        asyncio.run(main(bootstrap))
