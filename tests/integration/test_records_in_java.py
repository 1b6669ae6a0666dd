"""Record batches between kclient and Java, both ways, for every codec: the same records come out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.config import ClientConfig
from kclient.errors import error_for
from kclient.records import Codec, encode_batch, read_batches
from kclient.types import Header, Record
from kclient.wire.messages.fetch import FetchRequest
from kclient.wire.messages.produce import ProduceRequest
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.versions import DEFAULT_VERSION

PROGRAM = Path(__file__).with_name("RecordsInJava.java").read_text()
COUNT = 400
BY_NAME = 12  # the last version of Produce and Fetch in which topics go by name
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def java_kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster() as cluster:
        yield cluster


def shown(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
) -> str:
    """One record as the Java program prints it."""

    def hexed(data: bytes | None) -> str:
        return "null" if data is None else data.hex()

    names = ",".join(f"{hexed(name.encode())}:{hexed(content)}" for name, content in headers)
    return f"{offset} {timestamp} {hexed(key)} {hexed(value)} {names}"


def records_to_send() -> list[tuple[bytes | None, bytes | None, int, tuple[Header, ...]]]:
    """Nulls, tombstones, empty fields, headers with and without values, timestamps that go back."""
    headers: tuple[Header, ...] = (("trace", b"\x00\xff"), ("trace", None), ("größe", b""))
    return [
        (
            None if number % 5 == 0 else b"key %d" % number,
            None if number % 7 == 0 else b"" if number % 11 == 0 else bytes([number % 256]) * (number % 300),
            START + number * 37 % 1000,
            headers[: number % 4],
        )
        for number in range(COUNT)
    ]


async def produce(bootstrap: str, topic: str, batch: bytes) -> None:
    cluster = Cluster(ClientConfig(bootstrap_servers=bootstrap))
    try:
        await cluster.start(cluster.deadline())
        connection = await cluster.any_connection(cluster.deadline())
        data = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[data(name=topic, partition_data=[data.PartitionProduceData(index=0, records=batch)])],
        )
        response = await connection.call(request, cluster.deadline(), version=BY_NAME)
        (answer,) = response.responses[0].partition_responses
        assert error_for(answer.error_code, answer.error_message) is None
    finally:
        await cluster.close()


async def fetch(bootstrap: str, topic: str) -> list[Record[bytes | None, bytes | None]]:
    cluster = Cluster(ClientConfig(bootstrap_servers=bootstrap))
    wanted = FetchRequest.FetchTopic
    records: list[Record[bytes | None, bytes | None]] = []
    offset = 0
    try:
        await cluster.start(cluster.deadline())
        connection = await cluster.any_connection(cluster.deadline())
        deadline = Deadline.after(asyncio.get_running_loop(), 60)
        while offset < COUNT:
            partition = wanted.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
            request = FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                topics=[wanted(topic=topic, partitions=[partition])],
                forgotten_topics_data=[],
            )
            response = await connection.call(request, deadline, version=BY_NAME)
            for batch in read_batches(response.responses[0].partitions[0].records):
                records += batch.records(topic, 0)
                offset = batch.next_offset
    finally:
        await cluster.close()
    return records


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_java_reads_the_records_that_were_encoded_here(java_kafka: KafkaCluster, codec: Codec) -> None:
    topic = f"to-java-{codec.name.lower()}"
    java_kafka.create_topic(topic)
    sent = records_to_send()
    asyncio.run(produce(java_kafka.bootstrap(), topic, encode_batch(sent, codec=codec)))
    read = java_kafka.java(PROGRAM, ["read", java_kafka.bootstrap(), topic, str(COUNT)]).stdout.splitlines()
    assert read == [
        shown(offset, timestamp, key, value, headers)
        for offset, (key, value, timestamp, headers) in enumerate(sent)
    ]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_records_that_java_encoded_are_decoded_here(java_kafka: KafkaCluster, codec: Codec) -> None:
    topic = f"from-java-{codec.name.lower()}"
    java_kafka.create_topic(topic)
    arguments = ["write", java_kafka.bootstrap(), topic, codec.name.lower(), str(COUNT)]
    written = java_kafka.java(PROGRAM, arguments).stdout.splitlines()
    read = asyncio.run(fetch(java_kafka.bootstrap(), topic))
    assert [
        shown(record.offset, record.timestamp, record.key, record.value, record.headers) for record in read
    ] == written


def test_the_console_consumer_reads_all_codecs_in_one_log(java_kafka: KafkaCluster) -> None:
    topic = "console"
    java_kafka.create_topic(topic)
    for codec in Codec:
        batch = encode_batch(
            [(b"k", b"%s-%d" % (codec.name.encode(), n), START, ()) for n in range(100)], codec=codec
        )
        asyncio.run(produce(java_kafka.bootstrap(), topic, batch))
    arguments = ["--topic", topic, "--from-beginning", "--max-messages", str(100 * len(Codec))]
    printed = java_kafka.run_tool("console-consumer", arguments).stdout.splitlines()
    assert printed == [f"{codec.name}-{n}" for codec in Codec for n in range(100)]


def test_the_log_dump_finds_no_fault_in_what_was_encoded_here(java_kafka: KafkaCluster) -> None:
    topic = "dumped"
    java_kafka.create_topic(topic)
    for codec in Codec:
        asyncio.run(produce(java_kafka.bootstrap(), topic, encode_batch(records_to_send(), codec=codec)))
    arguments = ["--files", str(java_kafka.segment(topic)), "--deep-iteration", "--print-data-log"]
    dumped = java_kafka.run_tool("dump-log", arguments).stdout
    assert dumped.count("isvalid: true") == len(Codec)
    assert "isvalid: false" not in dumped
    for codec in Codec:
        assert f"compresscodec: {codec.name.lower()}" in dumped.lower()
