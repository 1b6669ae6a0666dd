"""Keys go where the Java client and librdkafka put them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from kclient.producer.hashing.murmur2 import MURMUR2, murmur2, murmur2_many, plain
from kclient.producer.partitioner import KeyedPartitioner, PartitionView, make_partitioner
from kclient.testing.running import RunningBroker
from tools.kafka.cluster import run_java
from tools.kafka.versions import CLIENTS_VERSION

PROGRAM = Path(__file__).with_name("Partitions.java")
KEYS = 100_000
LONGEST = 200
COUNTS = (1, 2, 3, 6, 7, 12, 100, 1000, 65_536)
ONE_BY_ONE = (7, 1000)
PATIENCE = 30.0
PARTITIONS = 7


def random_keys(count: int, longest: int, seed: int) -> list[bytes]:
    rng = Random(seed)
    return [rng.randbytes(rng.randint(0, longest)) for _ in range(count)]


@pytest.mark.usefixtures("clients_jar")
def test_keys_have_the_hash_and_the_partition_that_java_gives_them() -> None:
    keys = random_keys(KEYS, LONGEST, 6)
    assert {len(key) for key in keys} == set(range(LONGEST + 1))
    assert len(set(b"".join(keys))) == 256
    lines = "".join(f"{key.hex()}\n" for key in keys)
    arguments = [str(count) for count in COUNTS]
    printed = run_java(PROGRAM.read_text(), CLIENTS_VERSION, arguments, stdin=lines, timeout=240).stdout
    hashes, *partitions = zip(*(map(int, line.split("\t")) for line in printed.splitlines()), strict=True)
    unsigned = [hashed & 0xFFFFFFFF for hashed in hashes]
    assert [murmur2(key) for key in keys] == unsigned
    assert [plain(key) for key in keys] == unsigned
    assert murmur2_many(keys).tolist() == unsigned
    for count, theirs in zip(COUNTS, partitions, strict=True):
        assert MURMUR2.partitions(keys, count).tolist() == list(theirs), count
        if count in ONE_BY_ONE:
            assert [MURMUR2.partition(key, count) for key in keys] == list(theirs), count


def placed_by_librdkafka(servers: str, partitioner: str, keys: list[bytes | None]) -> list[int]:
    """The partition that librdkafka chose for each key."""
    placed: dict[int, int] = {}

    def produce(number: int, key: bytes | None) -> None:
        def report(error: KafkaError | None, message: Any) -> None:
            assert error is None, error
            placed[number] = message.partition()

        producer.produce("placed", b"value", key=key, on_delivery=report)

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "partitioner": partitioner})
    for number, key in enumerate(keys):
        produce(number, key)
    assert producer.flush(PATIENCE) == 0
    return [placed[number] for number in range(len(keys))]


@pytest.mark.parametrize(
    "name", ["murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]
)
def test_keys_have_the_partition_that_librdkafka_gives_them(name: str) -> None:
    keys = [key for key in random_keys(600, 40, 8) if key]
    partitioner = make_partitioner(name)
    view = PartitionView(PARTITIONS, tuple(range(PARTITIONS)), lambda _: 0)
    with RunningBroker(config={"num.partitions": str(PARTITIONS)}) as running:
        theirs = placed_by_librdkafka(running.bootstrap_servers, name, [*keys])
        assert set(theirs) == set(range(PARTITIONS))
        assert [partitioner.partition("placed", key, b"value", view) for key in keys] == theirs
        if isinstance(partitioner, KeyedPartitioner):
            assert partitioner.partition_many(keys, PARTITIONS) == theirs

        # Of what has no key, or an empty one: the same partition, or no opinion where theirs is drawn.
        absent = placed_by_librdkafka(running.bootstrap_servers, name, [None] * 20)
        empty = placed_by_librdkafka(running.bootstrap_servers, name, [b""] * 20)
    for key, found in ((None, absent), (b"", empty)):
        ours = partitioner.partition("placed", key, b"value", view)
        assert ours is None or {ours} == set(found), (key, found)
