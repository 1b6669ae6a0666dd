"""One member of the consumer group, in a process of its own so that it can be killed: at least once.

What it has worked on goes to a file before it is committed, and a line of JSON on standard output says how it
is. It ends in good order when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from array import array
from pathlib import Path

from examples.demo.orders import TOPIC
from kclient import AsyncConsumer

GROUP = "billing"
SESSION_TIMEOUT_MS = 6_000  # after which the others take over from one that died


def number_of(value: bytes | None) -> int:
    assert value is not None  # there are no tombstones among orders
    number: int = json.loads(value)["number"]
    return number


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def work(bootstrap: str, name: str, path: Path, ended: asyncio.Event) -> None:
    consumer = AsyncConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        client_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    done = 0
    async with consumer:
        with path.open("ab") as results:
            while not ended.is_set():
                found = await consumer.getmany(timeout_ms=250)
                numbers = array("q", [number_of(each.value) for some in found.values() for each in some])
                if numbers:
                    results.write(numbers)
                    results.flush()  # the results are safe first, the commit comes after
                    await consumer.commit()
                done += len(numbers)
                tell(done=done, partitions=sorted(each.partition for each in consumer.assignment()))


async def main(bootstrap: str, name: str, path: str) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    await work(bootstrap, name, Path(path), ended)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
