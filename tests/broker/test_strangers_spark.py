"""Spark reads, writes and streams from the broker through its own Kafka connector, as it would with Kafka.

The connector is of Spark 4.2, the newest there is, and works with pyspark 4.2 and 4.3.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.broker.conftest import Stage
from tests.broker.librdkafka import consumer, produce_at, take
from tests.broker.spark_job import run_job
from tools.kafka.fixtures import BrokerPool
from tools.kafka.spark import ConnectorJars

_START = 1_700_000_000_000


@pytest.mark.parametrize("broker", ["memory"], indirect=True)
def test_spark_reads_writes_and_streams(
    broker: Stage, servers: str, broker_pool: BrokerPool, tmp_path: Path
) -> None:
    jars = broker_pool.fetch(ConnectorJars.newest())
    broker.create_topic("in", partitions=2)
    produce_at(servers, "in", {str(number): _START + number for number in range(100)})

    found = run_job(servers, jars, tmp_path)

    numbers = [str(number) for number in range(100)]
    assert sorted((row["value"] for row in found["all"]), key=int) == numbers
    assert all(row["headers"] == [["from", "librdkafka"]] for row in found["all"])
    assert all(row["key"] == row["value"] for row in found["all"])
    assert [(row["partition"], row["offset"]) for row in found["by offset"]] == [(0, 3), (0, 4), (1, 7)]
    assert sorted(row["value"] for row in found["by time"]) == numbers[90:]
    assert sum(found["copied"]) == 100
    assert max(found["copied"]) <= 40
    assert found["copied again"] == [10]
    assert texts(servers, "made", 100) == sorted((str(n % 7), str(n), "spark") for n in range(100))
    copies = [(value, value, "librdkafka") for value in numbers]
    copies += [(str(n % 7), str(n), "spark") for n in range(10)]
    assert texts(servers, "out", 110) == sorted(copies)


def texts(servers: str, topic: str, count: int) -> list[tuple[str, str, str]]:
    """Keys, values and the one header of all records of a topic, as another client finds them."""
    with consumer(servers) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        messages = take(reader, count)
    return sorted(
        (message.key().decode(), message.value().decode(), message.headers()[0][1].decode())
        for message in messages
    )
