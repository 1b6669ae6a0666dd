"""Every codec with every acks, written by one client and read by another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product

import pytest
from confluent_kafka import Producer, TopicPartition

from kclient.records.reader import read_batches
from tests.broker.aiokafka_runs import aiokafka, run
from tests.broker.conftest import Stage
from tests.broker.kafka_python import drive
from tests.broker.librdkafka import PATIENCE, consumer, take
from tools.kafka.jars import JarSet
from tools.kafka.jvm import CommandRunner, installed_java
from tools.kafka.versions import DEFAULT_VERSION
from tools.kafka.workspace import Workspace

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_VALUES = [f"value {number} " * 10 for number in range(100)]
# Each pair has a partition of its own.
_PAIRS = dict(enumerate(product(_CODECS, ("0", "1", "all"))))
_TOPIC = "pairs"

_JARS = JarSet.broker(DEFAULT_VERSION)
_JAVA = installed_java()
_needs_java = pytest.mark.skipif(
    _JAVA is None or not _JARS.is_cached(), reason=f"needs Java and Kafka {DEFAULT_VERSION}'s jars"
)
_JAVA_PRODUCER = """
import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.header.internals.*;
import org.apache.kafka.common.serialization.*;

class Writes {
    public static void main(String[] args) {
        List<String> values = new Scanner(System.in).useDelimiter("\\n").tokens().toList();
        for (int i = 2; i < args.length; i++) {
            String[] job = args[i].split(" ");
            Properties config = new Properties();
            config.put("bootstrap.servers", args[0]);
            config.put("compression.type", job[1]);
            config.put("acks", job[2]);
            config.put("enable.idempotence", job[2].equals("all"));
            config.put("linger.ms", 20);
            try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
                for (String value : values) {
                    var record = new ProducerRecord<>(args[1], Integer.valueOf(job[0]), "k", value);
                    record.headers().add(new RecordHeader("h", new byte[] {'1'}));
                    producer.send(record);
                }
            }
        }
    }
}
"""


def confluent_writes(servers: str) -> None:
    for partition, (codec, acks) in _PAIRS.items():
        config = {"bootstrap.servers": servers, "compression.type": codec, "acks": acks, "linger.ms": 20}
        producer = Producer(config)
        for value in _VALUES:
            producer.produce(_TOPIC, value, key="k", headers={"h": "1"}, partition=partition)
        assert producer.flush(PATIENCE) == 0


def aiokafka_writes(servers: str) -> None:
    async def write(partition: int, codec: str, acks: str) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            linger_ms=20,
        )
        await producer.start()
        try:
            for value in _VALUES:
                await producer.send(
                    _TOPIC, value.encode(), key=b"k", headers=[("h", b"1")], partition=partition
                )
        finally:
            await producer.stop()

    async def write_all() -> None:
        await asyncio.gather(*(write(partition, *pair) for partition, pair in _PAIRS.items()))

    run(write_all(), PATIENCE)


def kafka_python_writes(servers: str) -> None:
    jobs = [
        {
            "partition": partition,
            "compression_type": None if codec == "none" else codec,
            "acks": acks if acks == "all" else int(acks),
            "linger_ms": 20,
        }
        for partition, (codec, acks) in _PAIRS.items()
    ]
    drive("produce_each", servers=servers, topic=_TOPIC, values=_VALUES, jobs=jobs)


def java_writes(servers: str) -> None:
    assert _JAVA is not None
    args = [servers, _TOPIC, *(f"{partition} {codec} {acks}" for partition, (codec, acks) in _PAIRS.items())]
    with Workspace() as workspace:
        runner = CommandRunner(_JAVA, _JARS.class_path, workspace)
        runner.run_source(_JAVA_PRODUCER, args, stdin="\n".join(_VALUES))


Found = dict[int, list[tuple[str, str, list[tuple[str, str]]]]]  # by partition: value, key, headers
_COUNT = len(_PAIRS) * len(_VALUES)


def confluent_reads(servers: str) -> Found:
    found: Found = {}
    with consumer(servers) as reader:
        reader.assign([TopicPartition(_TOPIC, partition, 0) for partition in _PAIRS])
        for message in take(reader, _COUNT):
            headers = [(name, value.decode()) for name, value in message.headers()]
            entry = (message.value().decode(), message.key().decode(), headers)
            found.setdefault(message.partition(), []).append(entry)
    return found


def aiokafka_reads(servers: str) -> Found:
    async def read() -> Found:
        reader = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        await reader.start()
        try:
            reader.assign([aiokafka.TopicPartition(_TOPIC, partition) for partition in _PAIRS])
            found: Found = {}
            for _ in range(_COUNT):
                record = await reader.getone()
                headers = [(name, value.decode()) for name, value in record.headers]
                entry = (record.value.decode(), record.key.decode(), headers)
                found.setdefault(record.partition, []).append(entry)
            return found
        finally:
            await reader.stop()

    return run(read(), PATIENCE)


def kafka_python_reads(servers: str) -> Found:
    found: Found = {}
    for record in drive("consume", servers=servers, topic=_TOPIC, count=_COUNT):
        headers = [(name, value) for name, value in record["headers"]]
        found.setdefault(record["partition"], []).append((record["value"], record["key"], headers))
    return found


def stored_codecs(stage: Stage) -> dict[int, set[str]]:
    """The codecs of the batches that the broker holds, by partition."""

    async def look() -> dict[int, set[str]]:
        found = {}
        for partition in _PAIRS:
            log = stage.broker.topics.partition(_TOPIC, partition).log
            found[partition] = {batch.codec.name.lower() for batch in read_batches(log.read(0, 1 << 20))}
        return found

    return stage.call(look())


@pytest.mark.parametrize(
    ("write", "read"),
    [
        pytest.param(confluent_writes, kafka_python_reads, id="confluent to kafka-python"),
        pytest.param(kafka_python_writes, aiokafka_reads, id="kafka-python to aiokafka"),
        pytest.param(aiokafka_writes, confluent_reads, id="aiokafka to confluent"),
        pytest.param(java_writes, kafka_python_reads, id="java to kafka-python", marks=_needs_java),
    ],
)
def test_another_client_reads_every_codec_and_acks(
    broker: Stage, servers: str, write: Callable[[str], None], read: Callable[[str], Found]
) -> None:
    broker.create_topic(_TOPIC, partitions=len(_PAIRS))

    write(servers)

    expected = [(value, "k", [("h", "1")]) for value in _VALUES]
    assert read(servers) == dict.fromkeys(_PAIRS, expected)
    assert stored_codecs(broker) == {partition: {codec} for partition, (codec, _) in _PAIRS.items()}
