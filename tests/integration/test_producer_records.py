"""Records that kclient's producers wrote to real brokers, as other clients read them."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from uuid import uuid4

import pytest

from kclient.producer import AsyncProducer, Producer
from kclient.types import Header, RecordMetadata, TimestampType
from tests.support.readers import Seen, read_topic
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.provider import PlainKafka
from tools.kafka.versions import DEFAULT_VERSION

pytestmark = pytest.mark.uvloop

BY_PRODUCER, BY_BROKER = 1, 2
START = 1_700_000_000_000
CODECS: list[tuple[str, int | None]] = [
    ("none", None),
    ("gzip", None),
    ("gzip", 1),
    ("gzip", 9),
    ("snappy", None),
    ("lz4", None),
    ("lz4", 9),
    ("zstd", None),
    ("zstd", -5),
    ("zstd", 19),
]
SAMPLE: list[tuple[bytes | None, bytes | None, tuple[Header, ...]]] = [
    (b"key", b"value", ()),
    (None, b"no key", ()),
    (b"tombstone", None, ()),
    (None, None, ()),
    (b"", b"", (("empty", b""),)),
    (b"headers", b"value", (("trace", b"\x00\xff"), ("trace", None), ("größe", b"twice"))),
    (b"long", b"x" * 100_000, ()),
]


def unique(name: str) -> str:
    return f"{name}-{uuid4().hex[:8]}"


@pytest.fixture
def jar_kafka(broker_pool: BrokerPool) -> KafkaCluster:
    """The session's broker, with Kafka's own tools."""
    broker_pool.require_jars(DEFAULT_VERSION)
    broker = broker_pool.broker(DEFAULT_VERSION)
    assert isinstance(broker, KafkaCluster)
    return broker


async def send_sample(producer: AsyncProducer, topic: str) -> list[RecordMetadata]:
    deliveries = [
        await producer.send(topic, value, key, partition=0, timestamp_ms=START + number, headers=headers)
        for number, (key, value, headers) in enumerate(SAMPLE)
    ]
    return [await delivery for delivery in deliveries]


def expected_sample(first: int = 0) -> list[Seen]:
    return [
        Seen(0, first + number, BY_PRODUCER, START + number, key, value, headers)
        for number, (key, value, headers) in enumerate(SAMPLE)
    ]


@pytest.mark.matrix
def test_records_of_all_kinds_arrive_on_every_broker(matrix_kafka: PlainKafka) -> None:
    topic = unique("kinds")
    matrix_kafka.create_topic(topic)

    async def scenario() -> None:
        for number, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
            async with AsyncProducer(
                bootstrap_servers=matrix_kafka.bootstrap(), compression_type=codec
            ) as producer:
                written = await send_sample(producer, topic)
            first = number * len(SAMPLE)
            assert [metadata.offset for metadata in written] == list(range(first, first + len(SAMPLE)))

    asyncio.run(scenario())
    read = read_topic(matrix_kafka.bootstrap(), topic, 5 * len(SAMPLE))
    assert read == [seen for number in range(5) for seen in expected_sample(number * len(SAMPLE))]


@pytest.mark.matrix
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_is_understood_by_every_broker(matrix_kafka: PlainKafka, acks: int | str) -> None:
    topic = unique("acks")
    matrix_kafka.create_topic(topic, 3)
    values = [b"%d" % number for number in range(1_000)]
    # A broker that does not lead a new partition yet hangs up on records that nobody confirms: they are lost.
    with Producer(bootstrap_servers=matrix_kafka.bootstrap()) as first:
        for number in range(3):
            first.send_and_wait(topic, b"first", partition=number)
    with Producer(bootstrap_servers=matrix_kafka.bootstrap(), acks=acks) as producer:
        deliveries = [producer.send(topic, value, value) for value in values]
        offsets = [delivery.result().offset for delivery in deliveries]
        producer.send_many(topic, values, values).result()
    read = read_topic(matrix_kafka.bootstrap(), topic, 2_003, partitions=3)
    assert sorted(seen.value or b"" for seen in read) == sorted([b"first"] * 3 + values * 2)
    if acks == 0:
        assert set(offsets) == {-1}
    else:
        at = {(seen.value, seen.offset) for seen in read}
        assert at >= set(zip(values, offsets, strict=True))


def test_other_clients_read_every_codec_at_every_level(jar_kafka: KafkaCluster) -> None:
    topic = unique("codecs")
    jar_kafka.create_topic(topic)
    values: list[bytes] = []

    async def send(codec: str, level: int | None) -> None:
        options: dict[str, Any] = {"compression_type": codec, "compression_level": level}
        async with AsyncProducer(bootstrap_servers=jar_kafka.bootstrap(), **options) as producer:
            for number in range(2_000):
                values.append(
                    b"%s %s %d %s" % (codec.encode(), str(level).encode(), number, b"padding " * 20)
                )
                await producer.send(topic, values[-1])
            await producer.flush()
            ratio = producer.metrics().compression_ratio
            assert ratio is not None
            assert (ratio < 0.5) == (codec != "none")

    for codec, level in CODECS:
        asyncio.run(send(codec, level))
    assert [seen.value for seen in read_topic(jar_kafka.bootstrap(), topic, len(values))] == values
    arguments = ["--topic", topic, "--from-beginning", "--max-messages", str(len(values))]
    printed = jar_kafka.run_tool("console-consumer", arguments).stdout.splitlines()
    assert printed == [value.decode() for value in values]
    dumped = jar_kafka.run_tool("dump-log", ["--files", str(jar_kafka.segment(topic))]).stdout.lower()
    assert set(re.findall(r"compresscodec: (\w+)", dumped)) == {codec for codec, _ in CODECS}
    assert "isvalid: false" not in dumped


def test_the_time_of_a_record_is_the_senders_unless_the_topic_says_otherwise(jar_kafka: KafkaCluster) -> None:
    created, appended = unique("created"), unique("appended")
    jar_kafka.create_topic(created)
    jar_kafka.create_topic(appended, configs={"message.timestamp.type": "LogAppendTime"})

    async def scenario() -> list[RecordMetadata]:
        async with AsyncProducer(bootstrap_servers=jar_kafka.bootstrap()) as producer:
            return [
                await producer.send_and_wait(topic, b"value", timestamp_ms=START)
                for topic in (created, appended)
            ]

    first, second = asyncio.run(scenario())
    assert (first.timestamp, first.timestamp_type) == (START, TimestampType.CREATE_TIME)
    assert second.timestamp_type is TimestampType.LOG_APPEND_TIME
    [read] = read_topic(jar_kafka.bootstrap(), created, 1)
    assert (read.stamped_by, read.timestamp) == (BY_PRODUCER, START)
    [read] = read_topic(jar_kafka.bootstrap(), appended, 1)
    assert (read.stamped_by, read.timestamp) == (BY_BROKER, second.timestamp)
    assert second.timestamp > START
