"""Every number of `metrics()` against a workload that was counted by hand, also when the producer is gone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kclient.broker import Broker
from kclient.errors import KafkaTimeoutError
from kclient.producer import AsyncProducer, Producer, ProducerMetrics
from kclient.records.compression import Codec
from kclient.records.encode import encode_batch
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey
from tests.support.producing import producing, requests_to


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("way", ["one", "many", "arrow", "headers"])
def test_bytes_are_those_of_records_and_the_ratio_is_that_of_batches(codec: str, way: str) -> None:
    keys, data = [b"k%04d" % number for number in range(300)], [bytes(100)] * 300
    headers = [("name", b"value")] if way == "headers" else []

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        seen = requests_to(broker)
        if way == "one":
            await producer.send("t", data[0], keys[0])
        elif way == "many":
            await producer.send_many("t", data, keys)
        elif way == "arrow":
            await producer.send_arrow("t", pa.table({"key": keys, "value": data}))
        else:
            for key, value in zip(keys, data, strict=True):
                await producer.send("t", value, key, headers=headers)
        await producer.flush()
        (written,) = [
            answer.records or b""
            for request in seen
            for topic in request.topic_data
            for answer in topic.partition_data
        ]
        count = 1 if way == "one" else 300
        rows = [(key, value, 0, headers) for key, value in zip(keys[:count], data, strict=False)]
        plain = encode_batch(rows, codec=Codec.NONE)
        metrics = producer.metrics()
        of_headers = 12 * count if headers else 0  # the count, two lengths, name and value
        assert (metrics.records, metrics.bytes) == (count, count * 105 + of_headers)
        assert metrics.compression_ratio == len(written) / len(plain)
        assert (metrics.compression_ratio == 1) == (codec == "none")

    producing(check, compression_type=codec)


def last_of(metrics: ProducerMetrics) -> tuple[int, ...]:
    return metrics.records, metrics.bytes, metrics.in_flight, metrics.buffer_used, metrics.buffer_total


def test_before_the_start_and_after_the_close_there_are_metrics_too() -> None:
    unused = AsyncProducer()
    assert last_of(unused.metrics()) == (0, 0, 0, 0, 67_108_864)

    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send("t", b"123", b"45")
        await producer.close()
        assert last_of(producer.metrics()) == (1, 5, 0, 0, 67_108_864)
        await unused.close()
        assert last_of(unused.metrics()) == (0, 0, 0, 0, 67_108_864)

    producing(check)


def test_after_a_close_that_gave_records_up_metrics_say_so() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 20, times=None)
        await producer.send("t", b"v")
        with pytest.raises(KafkaTimeoutError):
            await producer.close(timeout_ms=100)
        assert last_of(producer.metrics()) == (0, 0, 0, 0, 67_108_864)
        assert producer.metrics().errors == 1

    producing(check)


@pytest.mark.uvloop
def test_a_blocking_producer_has_metrics_after_its_close(kafka_broker: RunningBroker) -> None:
    options: dict[str, Any] = {"buffer_memory": 1_000_000}
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, **options) as producer:
        producer.send("t", b"123", b"45")
    assert last_of(producer.metrics()) == (1, 5, 0, 0, 1_000_000)
    assert producer.metrics() == producer.metrics()
    assert not producer.health().connected
