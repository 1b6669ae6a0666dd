"""A client that asks for transactions ends at once, and is told that there are none where it shows a text."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.broker.conftest import Stage
from tests.broker.test_strangers_java import _JARS, _JAVA
from tools.kafka.errors import KafkaToolError
from tools.kafka.jvm import CommandRunner
from tools.kafka.workspace import Workspace

TEXT = "The embedded broker of kclient has no transactions yet: leave out the transactional id"

pytestmark = pytest.mark.parametrize("broker", ["memory"], indirect=True)


def test_confluent_kafka_ends_with_the_reason(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "bank", "log_level": 0})
    with pytest.raises(KafkaException, match=TEXT) as raised:
        producer.init_transactions(60)
    error = cast("KafkaError", raised.value.args[0])
    assert error.fatal()
    assert not error.retriable()


def test_aiokafka_ends_at_once_and_the_broker_logs_the_reason(
    broker: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="bank")
        try:
            with pytest.raises(AIOKafkaError):
                await asyncio.wait_for(producer.start(), 60)
        finally:
            await producer.stop()

    asyncio.run(start())
    assert f"asks for the transactional id 'bank'. {TEXT}" in caplog.text


@pytest.mark.skipif(_JAVA is None or not _JARS.is_cached(), reason="needs Java and Kafka's jars")
def test_javas_producer_ends_with_the_reason(servers: str) -> None:
    assert _JAVA is not None
    options = ["--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1"]
    with Workspace() as workspace:
        runner = CommandRunner(_JAVA, _JARS.class_path, workspace)
        with pytest.raises(KafkaToolError, match=TEXT):
            runner.run(
                "org.apache.kafka.tools.ProducerPerformance",
                [
                    *options,
                    "--transactional-id",
                    "bank",
                    "--command-property",
                    f"bootstrap.servers={servers}",
                ],
                timeout=60,
            )
