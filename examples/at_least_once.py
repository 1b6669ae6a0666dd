"""At least once: work first, then commit. A crash has what was not committed yet done again.

The usual choice; the work should bear to be done twice. Automatic commits, the default, promise the same:
they take in only what was handed out before the last call for records.
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
        group_id="at-least-once",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        while LAST not in worked_on:  # a real application would go on for ever
            batch = await consumer.getmany(timeout_ms=1_000, max_records=5)
            for record in (record for records in batch.values() for record in records):
                if record.value == crash_at:
                    raise RuntimeError("power cut")
                worked_on.append(record.value)
            await consumer.commit()  # all that was handed out, and all of that is done


async def main(bootstrap: str) -> None:
    worked_on: list[bytes | None] = []
    try:
        await run(bootstrap, worked_on, crash_at=b"order 3")
    except RuntimeError as error:
        print(f"{error} after {len(worked_on)} records")
    await run(bootstrap, worked_on)
    again = sorted({value for value in worked_on if value and worked_on.count(value) > 1})
    print(f"twice: {b', '.join(again).decode()}")
    print(f"never: {RECORDS - len(set(worked_on))}")


if __name__ == "__main__":
    with cluster_with(TOPIC, partitions=1) as (bootstrap, _):
        fill(bootstrap, TOPIC, RECORDS)
        asyncio.run(main(bootstrap))
