"""What kclient can do today, on a real broker: `make demo`.

Starts Kafka from plain jars, makes a topic, writes a million orders as record batches over pipelined
Produce requests, reads them back as Arrow batches, checks that all are there, and prints a table. Producer
and consumer classes will replace the hand-made requests; the layers underneath are these.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from kclient import AsyncAdmin
from kclient.admin import NewTopic
from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.errors import error_for
from kclient.records import Codec, encode_flat, read_batches
from kclient.types import TopicPartition
from kclient.wire.messages.fetch import FetchRequest
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from tools.kafka.cluster import KafkaCluster

TOPIC = "orders"
PARTITIONS = 6
RECORDS = 1_000_000
BATCH = 2_000
IN_FLIGHT = 5
# Topics go by name up to these versions, by id afterwards.
PRODUCE_BY_NAME, FETCH_BY_NAME = 12, 12


def make_batch(first: int) -> bytes:
    """`BATCH` orders of about 100 bytes with a key, as one lz4 record batch."""
    now = int(time.time() * 1000)
    flat: list[object] = []
    for number in range(first, first + BATCH):
        key = b"customer-%06d" % (number * 7919 % 1_000_000)
        value = b'{"order": %d, "item": "teapot", "amount": %d.%02d, "currency": "EUR", "note": "gift"}' % (
            number,
            number % 500,
            number % 100,
        )
        flat += key, value, now, ()
    return encode_flat(flat, codec=Codec.LZ4)


def produce_request(partition: int, batch: bytes) -> ProduceRequest:
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic(name=TOPIC, partition_data=[topic.PartitionProduceData(index=partition, records=batch)])
        ],
    )


async def produce(cluster: Cluster) -> int:
    """Write everything, with a few requests in flight; the bytes written."""
    loop = asyncio.get_running_loop()
    waiting: deque[asyncio.Task[ProduceResponse]] = deque()
    written = 0

    def check(response: ProduceResponse) -> None:
        error = error_for(response.responses[0].partition_responses[0].error_code)
        if error is not None:
            raise error

    for number in range(RECORDS // BATCH):
        partition = number % PARTITIONS
        leader = cluster.metadata.snapshot.leader(TopicPartition(TOPIC, partition))
        assert leader is not None
        connection = await cluster.connection(leader, Deadline.after(loop, 30))
        batch = make_batch(number * BATCH)
        written += len(batch)
        call = connection.call(
            produce_request(partition, batch), Deadline.after(loop, 30), version=PRODUCE_BY_NAME
        )
        waiting.append(asyncio.create_task(call))
        if len(waiting) >= IN_FLIGHT:
            check(await waiting.popleft())
        await asyncio.sleep(0)
    while waiting:
        check(await waiting.popleft())
    return written


def fetch_request(offsets: dict[int, int]) -> FetchRequest:
    topic = FetchRequest.FetchTopic
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50_000_000,
        topics=[
            topic(
                topic=TOPIC,
                partitions=[
                    topic.FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=8_000_000
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ],
        forgotten_topics_data=[],
    )


async def consume(cluster: Cluster) -> tuple[int, int]:
    """Read everything as Arrow; the number of rows and of bytes in their values."""
    loop = asyncio.get_running_loop()
    leader = cluster.metadata.snapshot.leader(TopicPartition(TOPIC, 0))
    assert leader is not None
    connection = await cluster.connection(leader, Deadline.after(loop, 30))
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    rows = size = 0
    while rows < RECORDS:
        response = await connection.call(
            fetch_request(offsets), Deadline.after(loop, 30), version=FETCH_BY_NAME
        )
        for partition in response.responses[0].partitions:
            for batch in read_batches(partition.records):
                arrow = batch.arrow(TOPIC, partition.partition_index)
                rows += arrow.num_rows
                size += arrow.column("value").nbytes
                offsets[partition.partition_index] = batch.next_offset
    return rows, size


async def know_leaders(cluster: Cluster) -> None:
    """Wait until every partition of the new topic has a leader."""
    cluster.metadata.follow([TOPIC])
    deadline = cluster.deadline()
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    while any(cluster.metadata.snapshot.leader(partition) is None for partition in partitions):
        await cluster.metadata.refreshed(deadline)


async def run(bootstrap: str) -> None:
    async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    cluster = Cluster(ClientConfig(bootstrap_servers=bootstrap))
    try:
        await cluster.start(cluster.deadline())
        await know_leaders(cluster)
        began = time.perf_counter()
        compressed = await produce(cluster)
        produced = time.perf_counter()
        rows, size = await consume(cluster)
        consumed = time.perf_counter()
    finally:
        await cluster.close()
    print()
    print(f"{'':10}{'records':>12}{'seconds':>10}{'records/s':>14}")
    for name, seconds in (("produced", produced - began), ("consumed", consumed - produced)):
        print(f"{name:10}{RECORDS:>12,}{seconds:>10.2f}{RECORDS / seconds:>14,.0f}")
    print(f"\n{compressed / 1e6:.0f} MB on the wire (lz4), {size / 1e6:.0f} MB of values as Arrow columns")
    assert rows == RECORDS, f"{rows} of {RECORDS} records came back"
    print("every record came back, checksums verified")


def main() -> None:
    print("starting Kafka 4.3.1 from plain jars (fetched once) …", flush=True)
    with KafkaCluster() as kafka:
        print(
            f"a broker listens on {kafka.bootstrap()}: writing and reading {RECORDS:,} records …", flush=True
        )
        asyncio.run(run(kafka.bootstrap()))


if __name__ == "__main__":
    main()
