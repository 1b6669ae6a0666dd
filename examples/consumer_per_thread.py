"""One consumer per thread, all in one group: the simplest way to use several threads, and the order of each
partition is kept. `wakeup` ends a consumer from another thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from examples.cluster import cluster_with, fill
from kclient import Consumer
from kclient.errors import WakeupError

TOPIC = "orders"
PARTITIONS = 6
THREADS = 3
RECORDS = 600
PATIENCE = 60  # seconds


class Reader:
    """One thread's consumer. Only `wakeup`, and calls that do not wait, come from another thread."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self.consumer = Consumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id="threads",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,  # how soon a member hears that another one joined; 3 s otherwise
        )

    def run(self) -> None:
        with self.consumer:
            try:
                while True:
                    batches = self.consumer.poll(timeout_ms=1_000)
                    self.count += sum(map(len, batches.values()))
            except WakeupError:
                return  # leaving the block commits and leaves the group


def main(bootstrap: str) -> None:
    readers = [Reader(bootstrap) for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS, "reader") as threads:
        running = [threads.submit(reader.run) for reader in readers]
        try:
            # So that each has its share from the first record on; a real application needs not wait.
            wait(lambda: all(len(reader.consumer.assignment()) == 2 for reader in readers))
            fill(bootstrap, TOPIC, RECORDS, PARTITIONS)
            wait(lambda: sum(reader.count for reader in readers) == RECORDS)
        finally:
            for reader in readers:
                reader.consumer.wakeup()
    for ended in running:
        ended.result()  # raises what ended a thread too early
    print(f"{RECORDS} records in {THREADS} threads: {[reader.count for reader in readers]}")


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the threads did not get there")
        time.sleep(0.01)


if __name__ == "__main__":
    with cluster_with(TOPIC, PARTITIONS) as (bootstrap, _):
        main(bootstrap)
