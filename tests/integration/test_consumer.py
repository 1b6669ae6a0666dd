"""Consumers on real brokers, reading what librdkafka wrote: codecs, transactions, old brokers, racks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from kclient.consumer import AsyncConsumer, Consumer
from kclient.types import Record, TopicPartition
from tools.kafka.fixtures import StartCluster
from tools.kafka.provider import PlainKafka

PATIENCE_MS = 60_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def new_topic(kafka: PlainKafka, partitions: int = 1) -> str:
    name = f"consumer-{uuid4().hex[:8]}"
    kafka.create_topic(name, partitions)
    return name


def produce(bootstrap: str, topic: str, count: int, partitions: int = 1, codec: str = "none") -> None:
    settings = {
        "linger.ms": 20,
        "compression.type": codec,
        "enable.idempotence": True,
    }  # which keeps the order
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for number in range(count):
        producer.produce(
            topic,
            b"value %d" % number,
            b"key %d" % number,
            number % partitions,
            timestamp=1_700_000_000_000 + number,
            headers=[("number", str(number).encode())],
        )
        if not number % 1000:
            producer.poll(0)
    assert producer.flush(60) == 0


async def read(
    bootstrap: str, topic: str, count: int, partitions: int = 1, **options: Any
) -> list[Record[Any, Any]]:
    """So many records of a topic, from its beginning."""
    found: list[Record[Any, Any]] = []
    async with AsyncConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options
    ) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        while len(found) < count:
            got = await consumer.getmany(timeout_ms=PATIENCE_MS)
            assert got, f"{len(found)} of {count} came: {consumer.health()}"
            found += [record for records in got.values() for record in records]
    return found


def values(records: list[Record[Any, Any]]) -> list[bytes]:
    return [record.value for record in records]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.uvloop
def test_what_librdkafka_wrote_is_read_with_every_field(kafka: PlainKafka, codec: str) -> None:
    topic = new_topic(kafka)
    produce(kafka.bootstrap(), topic, 3000, codec=codec)
    found = asyncio.run(read(kafka.bootstrap(), topic, 3000))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (n, 1_700_000_000_000 + n, b"key %d" % n, b"value %d" % n, (("number", b"%d" % n),))
        for n in range(3000)
    ]


@pytest.mark.matrix
@pytest.mark.uvloop
def test_every_broker_is_read_with_sessions_and_positions(matrix_kafka: PlainKafka) -> None:
    bootstrap, topic = matrix_kafka.bootstrap(), new_topic(matrix_kafka, 3)
    produce(bootstrap, topic, 3000, 3)

    async def story() -> None:
        everything = [TopicPartition(topic, number) for number in range(3)]
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(**options, fetch_max_wait_ms=100) as consumer:
            consumer.assign(everything)
            assert await consumer.end_offsets(everything) == dict.fromkeys(everything, 1000)
            assert await consumer.beginning_offsets(everything) == dict.fromkeys(everything, 0)
            count = 0
            while count < 3000:
                count += (await consumer.getarrow(timeout_ms=PATIENCE_MS, max_records=700)).num_rows
            await consumer.seek_to_timestamp(1_700_000_000_000 + 2700)
            found = [await consumer.getone() for _ in range(300)]
            assert sorted(record.timestamp - 1_700_000_000_000 for record in found) == list(range(2700, 3000))
            produce(bootstrap, topic, 30, 3)  # in the middle of a session
            later = [await consumer.getone() for _ in range(30)]
            assert sorted(values(later)) == sorted(b"value %d" % number for number in range(30))

    asyncio.run(story())


def transact(bootstrap: str, topic: str, script: list[tuple[str, bool]]) -> None:
    """Transactions of ten records each, named by their values: committed, or aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer of {topic}"})
    producer.init_transactions(60)
    for name, committed in script:
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, f"{name} {number}".encode(), partition=0)
        producer.flush(60)
        if committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


@pytest.mark.uvloop
def test_aborted_transactions_are_left_out_and_undecided_ones_waited_for(kafka: PlainKafka) -> None:
    bootstrap, topic = kafka.bootstrap(), new_topic(kafka)
    script = [("a", True), ("b", False), ("c", False), ("d", True), ("e", False), ("f", True)]
    transact(bootstrap, topic, script)
    open_one = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"other writer of {topic}"})
    open_one.init_transactions(60)
    open_one.begin_transaction()
    open_one.produce(topic, b"undecided", partition=0)
    open_one.flush(60)
    produce(bootstrap, topic, 1)

    def written(*names: str) -> list[bytes]:
        return [f"{name} {number}".encode() for name in names for number in range(10)]

    async def story() -> None:
        partition = TopicPartition(topic, 0)
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(**options, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            found: list[Record[Any, Any]] = []
            while len(found) < 30:
                found += (await consumer.getmany(timeout_ms=PATIENCE_MS)).get(partition, [])
            assert values(found) == written("a", "d", "f")
            # Behind the marker of the last transaction, and no further: the next one is open.
            while await consumer.position(partition) < 66:
                await consumer.getmany(timeout_ms=100)
            assert consumer.last_stable_offset(partition) == 66
            assert consumer.highwater(partition) == 68
            assert consumer.lag(partition) == 0
            assert (await consumer.end_offsets([partition]))[partition] == 66
            await asyncio.to_thread(open_one.commit_transaction, 60)
            rest: list[Record[Any, Any]] = []
            while len(rest) < 2:
                rest += (await consumer.getmany(timeout_ms=PATIENCE_MS)).get(partition, [])
            assert values(rest) == [b"undecided", b"value 0"]

    asyncio.run(story())
    everything = asyncio.run(read(bootstrap, topic, 62))
    assert values(everything)[:60] == written(*"abcdef")


@pytest.mark.uvloop
def test_a_record_larger_than_the_limit_of_a_fetch_is_read(kafka: PlainKafka) -> None:
    bootstrap, topic = kafka.bootstrap(), new_topic(kafka, 3)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(9):
        producer.produce(topic, bytes(200_000), partition=number % 3)
    assert producer.flush(60) == 0
    found = asyncio.run(read(bootstrap, topic, 9, 3, max_partition_fetch_bytes=1000, fetch_max_bytes=1000))
    assert [len(record.value) for record in found] == [200_000] * 9


@pytest.mark.uvloop
def test_blocking_consumers_in_threads_share_a_group(kafka: PlainKafka) -> None:
    bootstrap, topic = kafka.bootstrap(), new_topic(kafka, 4)
    produce(bootstrap, topic, 4000, 4)
    seen: set[tuple[int, int]] = set()
    done = threading.Event()

    def work() -> None:
        options: dict[str, Any] = {"group_id": f"group of {topic}", "auto_offset_reset": "earliest"}
        with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
            while not done.is_set():
                for records in consumer.poll(timeout_ms=100).values():
                    seen.update((record.partition, record.offset) for record in records)
                if len(seen) == 4000:
                    done.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert done.wait(PATIENCE_MS / 1000)
    for thread in threads:
        thread.join()
    committed: dict[int, int | None] = {}
    with Consumer(bootstrap_servers=bootstrap, group_id=f"group of {topic}") as consumer:
        for number in range(4):
            place = consumer.committed(TopicPartition(topic, number))
            committed[number] = None if place is None else place.offset
    assert committed == dict.fromkeys(range(4), 1000)


def test_the_replica_in_the_own_rack_is_read_and_leaders_that_are_killed_are_survived(
    kafka_cluster: StartCluster,
) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    cluster = kafka_cluster(nodes=3, config={"replica.selector.class": selector})
    topic, bootstrap = "near", cluster.bootstrap()
    cluster.create_topic(topic, 1, replicas=3)
    produce(bootstrap, topic, 1000)
    leader = cluster.leader(topic).id
    near = leader % 3 + 1
    partition = TopicPartition(topic, 0)

    async def story() -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(**options, client_rack=f"rack{near}") as consumer:
            consumer.assign([partition])
            found = [await consumer.getone() for _ in range(1000)]
            assert consumer._engine.subscription.cursor(partition).replica == near
            await asyncio.to_thread(cluster.kill, leader)
            await asyncio.to_thread(produce, bootstrap, topic, 1000)
            found += [await consumer.getone() for _ in range(1000)]
            await asyncio.to_thread(cluster.restart, leader)
            await asyncio.to_thread(cluster.kill, near)
            await asyncio.to_thread(produce, bootstrap, topic, 1000)
            found += [await consumer.getone() for _ in range(1000)]
            assert [record.offset for record in found] == list(range(3000))

    within(120, story)


def within(seconds: float, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(seconds):
            await story()

    asyncio.run(main())
