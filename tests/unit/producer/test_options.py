"""A producer's options, the records it takes, and its counters: limits, names, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kclient.errors import ConfigurationError
from kclient.producer import ProducerConfig, ProducerRecord
from kclient.producer.metrics import Counters
from kclient.producer.records import Told, prepare
from kclient.records.compression import Codec


def test_the_defaults_are_safe() -> None:
    config = ProducerConfig()
    assert config.idempotent
    assert config.required_acks == -1
    assert config.codec is Codec.NONE
    assert config.largest_batch == config.batch_size


@pytest.mark.parametrize(
    ("options", "idempotent", "acks"),
    [
        ({"acks": "1"}, False, 1),
        ({"acks": 0}, False, 0),
        ({"acks": "all"}, True, -1),
        ({"acks": -1}, True, -1),
        ({"enable_idempotence": False}, False, -1),
        ({"max_in_flight_requests_per_connection": 6}, False, -1),
        ({"retries": 0}, False, -1),
        ({"enable_idempotence": True}, True, -1),
    ],
)
def test_idempotence_is_on_where_nothing_speaks_against_it(
    options: dict[str, Any], idempotent: bool, acks: int
) -> None:
    config = ProducerConfig(**options)
    assert (config.idempotent, config.required_acks) == (idempotent, acks)


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"acks": True},
        {"acks": [1]},
        {"acks": "some"},
        {"acks": 1, "enable_idempotence": True},
        {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True},
        {"retries": 0, "enable_idempotence": True},
        {"max_in_flight_requests_per_connection": 0},
        {"batch_size": 0},
        {"buffer_memory": 0},
        {"linger_ms": -1},
        {"linger_ms": 5_000, "delivery_timeout_ms": 5_000},
        {"delivery_timeout_ms": 0},
        {"max_request_size": 0},
        {"compression_type": "brotli"},
        {"compression_type": "zstd", "compression_level": 99},
        {"compression_level": 3},
        {"partitioner": "murmur4"},
        {"partitioner": 5},
        {"key_serializer": "utf-8"},
        {"value_serializer": 1},
        {"hooks": 5},
        {"hooks": [object()]},
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ProducerConfig(**options)


def test_options_have_kafkas_names_too() -> None:
    config = ProducerConfig.from_options(
        {
            "acks": "1",
            "linger.ms": "7",
            "batch.size": "1000",
            "buffer.memory": "5000",
            "max.block.ms": "3",
            "max.request.size": "900",
            "compression.type": "lz4",
            "delivery.timeout.ms": "9000",
            "retries": "4",
            "max.in.flight.requests.per.connection": "2",
            "enable.idempotence": "false",
            "partitioner.adaptive.partitioning.enable": "false",
            "partitioner.availability.timeout.ms": "5",
        }
    )
    assert (config.required_acks, config.linger_ms, config.batch_size, config.buffer_memory) == (
        1,
        7,
        1000,
        5000,
    )
    assert (config.max_block_ms, config.codec, config.delivery_timeout_ms, config.retries) == (
        3,
        Codec.LZ4,
        9000,
        4,
    )
    assert config.max_in_flight_requests_per_connection == 2
    assert config.enable_idempotence is False
    assert config.partitioner_adaptive_partitioning_enable is False
    assert config.partitioner_availability_timeout_ms == 5
    # A batch must fit into a request.
    assert config.largest_batch == 900 - 61


def prepared(*args: Any, **named: Any) -> Any:
    config = ProducerConfig()
    return prepare(config, Told(config, ProducerRecord(*args, **named)))


def test_what_is_nearly_bytes_becomes_bytes_of_its_own() -> None:
    writable = bytearray(b"value")
    fields = prepared("t", writable, memoryview(b"key"), headers={"h": bytearray(b"x"), "none": None})
    writable[0] = 0
    assert fields == ("t", b"value", b"key", None, None, (("h", b"x"), ("none", None)))
    assert type(fields.value) is type(fields.key) is type(fields.headers[0][1]) is bytes


def test_numbers_of_numpy_are_numbers() -> None:
    fields = prepared("t", b"", None, np.int32(3), np.int64(4))
    assert (fields.partition, fields.timestamp_ms) == (3, 4)
    assert type(fields.partition) is type(fields.timestamp_ms) is int


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (("t", "text"), "value is str"),
        (("t", b"", 5), "key is int"),
        ((b"t", b""), "not text"),
        (("t", b"", None, -1), "partition=-1"),
        (("t", b"", None, True), "partition=True"),
        (("t", b"", None, 1.0), "partition=1.0"),
        (("t", b"", None, None, -1), "timestamp_ms=-1"),
        (("t", b"", None, None, 1 << 63), "timestamp_ms="),
        (("t", b"", None, None, 1.5), "timestamp_ms=1.5"),
        (("t", b"", None, None, None, [("h",)]), "no pair"),
        (("t", b"", None, None, None, [5]), "no pair"),
        (("t", b"", None, None, None, [(b"h", b"x")]), "not text"),
        (("t", b"", None, None, None, {"h": "text"}), "header 'h' is str"),
        (("t", b"", None, None, None, {"\ud800": b""}), "surrogates"),
    ],
)
def test_bad_records_are_refused_at_the_call(record: tuple[Any, ...], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        prepared(*record)


def test_a_serializer_that_answers_no_bytes_is_named() -> None:
    config = ProducerConfig(value_serializer=lambda value: value)
    with pytest.raises(TypeError, match="value_serializer returned int"):
        prepare(config, Told(config, ProducerRecord("t", 5)))


def test_rates_are_those_of_the_last_half_minute_and_latencies_those_of_what_was_sent() -> None:
    counters = Counters(0.0)
    for second in range(60):
        counters.records.add(second, 10)
        counters.batches.add(second, 1)
        counters.queued.add(second, 0.5)
        counters.sent.add(second, 1)
    counters.queued.add(59, 0.5)  # one was sent twice
    counters.sent.add(59, 1)
    metrics = counters.snapshot(59.5, 3, 100, 1000)
    assert (metrics.records, metrics.record_rate, metrics.records_per_batch) == (600, 10, 10)
    assert metrics.queue_latency == pytest.approx(0.5)
    assert (metrics.request_latency, metrics.compression_ratio) == (0.0, None)
    assert (metrics.in_flight, metrics.buffer_used, metrics.buffer_total) == (3, 100, 1000)
    later = counters.snapshot(200.0, 0, 0, 1000)
    assert (later.record_rate, later.queue_latency, later.records) == (0, None, 600)
    young = Counters(0.0)
    young.records.add(0.1, 5)
    assert young.snapshot(0.1, 0, 0, 1).record_rate == 5
