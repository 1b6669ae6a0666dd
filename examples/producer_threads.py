"""One blocking `Producer` shared by many threads.

Threads should share one: their records then share batches and connections. Every method may be called from
any thread; callbacks mostly run on the producer's own thread and must not block.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from examples.cluster import cluster_with
from kclient import Producer
from kclient.producer import Delivery

TOPIC = "orders"
THREADS = 8
RECORDS = 1_000


def main(bootstrap: str) -> None:
    lock = threading.Lock()
    delivered = 0

    def told(delivery: Delivery) -> None:
        nonlocal delivered
        if delivery.exception() is None:
            with lock:
                delivered += 1

    with Producer(bootstrap_servers=bootstrap) as producer:

        def work(thread: int) -> int:
            for number in range(RECORDS):
                producer.send(TOPIC, b"order %d" % number, key=b"thread-%d" % thread).add_done_callback(told)
            # The last one is waited for, here and not by the others.
            return producer.send_and_wait(TOPIC, b"done", key=b"thread-%d" % thread).partition

        with ThreadPoolExecutor(THREADS) as threads:
            partitions = list(threads.map(work, range(THREADS)))
        producer.flush()
        metrics = producer.metrics()
    print(f"{delivered} records of {THREADS} threads delivered to partitions {sorted(set(partitions))}")
    print(f"they shared batches: {'yes' if metrics.batches < delivered else 'no'}")


if __name__ == "__main__":
    with cluster_with(TOPIC) as (bootstrap, _):
        main(bootstrap)
