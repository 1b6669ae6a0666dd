"""Messages call an option as the user wrote it, wherever in the client it is refused."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from kclient.consumer.config import ConsumerConfig
from kclient.errors import ConfigurationError, KafkaConnectionError, KafkaTimeoutError
from kclient.spark import producers, session
from kclient.spark.directory import Directory
from kclient.spark.options import Use, parse
from kclient.spark.properties import as_given, in_given_names
from kclient.spark.sink import batch_writer
from kclient.spark.source import KafkaDataSource

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
CASES: dict[str, tuple[dict[str, str], str]] = {
    "a trust store without SSL": (
        {"ssl.truststore.location": "/x.pem"},
        (
            "kafka.security.protocol=PLAINTEXT ignores kafka.ssl.truststore.location: "
            "set it to SSL or SASL_SSL, or leave them out"
        ),
    ),
    "our own name": (
        {"ssl_cafile": "/x.pem"},
        (
            "kafka.security.protocol=PLAINTEXT ignores kafka.ssl_cafile: set it to SSL or SASL_SSL, "
            "or leave them out"
        ),
    ),
    "a login line without SASL": (
        {"sasl.jaas.config": JAAS},
        (
            "kafka.security.protocol=PLAINTEXT ignores kafka.sasl.jaas.config: set it to SASL_SSL or "
            "SASL_PLAINTEXT, or leave them out"
        ),
    ),
    "a trust store that is not there": (
        {"security.protocol": "SSL", "ssl.truststore.location": "/no/such.pem"},
        "kafka.ssl.truststore.location='/no/such.pem' cannot be read: No such file or directory",
    ),
    "what is missing": (
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
        "kafka.sasl.mechanism=PLAIN needs kafka.sasl.username and kafka.sasl.password",
    ),
    "one thing twice": (
        {"security.protocol": "SASL_SSL", "sasl.jaas.config": JAAS, "sasl.username": "x"},
        "'kafka.sasl.username' and 'kafka.sasl.jaas.config' are the same option: give one of them",
    ),
    "a name that is none": (
        {"client.ids": "x"},
        "there is no option 'kafka.client.ids': did you mean 'kafka.client.id'?",
    ),
    "a value": ({"request.timeout.ms": "0"}, "kafka.request.timeout.ms=0 is below its least value, 1"),
}


@pytest.mark.parametrize(("kafka", "message"), CASES.values(), ids=CASES)
def test_a_reader_names_options_as_they_were_given(kafka: dict[str, str], message: str) -> None:
    given = {f"kafka.{name}": value for name, value in kafka.items()}
    options = parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **given}, Use.BATCH_READ)
    try:
        with pytest.raises(ConfigurationError) as raised:
            Directory(options).partitions()
    finally:
        session.close_all()

    assert str(raised.value) == message


@pytest.mark.parametrize(("kafka", "message"), CASES.values(), ids=CASES)
def test_a_writer_names_options_as_they_were_given(kafka: dict[str, str], message: str) -> None:
    given = {f"kafka.{name}": value for name, value in kafka.items()}
    schema = StructType([StructField("value", BinaryType())])
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", **given}
    with pytest.raises(ConfigurationError) as raised:
        _write(options, schema)
    producers.close_all()

    assert str(raised.value) == message


def test_a_trust_store_that_is_not_used_is_refused_before_the_first_task() -> None:
    options = {"kafka.bootstrap.servers": "x:1", "topic": "t", "kafka.ssl.truststore.location": "/x.pem"}
    with pytest.raises(ConfigurationError, match=r"ignores kafka\.ssl\.truststore\.location"):
        batch_writer(options, StructType([StructField("value", BinaryType())]), False)


def _write(options: dict[str, str], schema: StructType) -> None:
    batch_writer(options, schema, False).write(iter(()))


def test_values_and_names_of_topics_are_left_as_they_are() -> None:
    text = "topic acks, partition 0: ssl_cafile='/etc/ssl_cafile/group_id.pem' and my.client.id are group_id"
    assert in_given_names(text, ConsumerConfig, {"bootstrap.servers": "x:1"}) == (
        "topic acks, partition 0: kafka.ssl.truststore.location='/etc/ssl_cafile/group_id.pem' "
        "and my.client.id are kafka.group.id"
    )


def test_any_error_may_name_an_option_and_stays_what_it_is() -> None:
    error = as_given(KafkaTimeoutError("not within 5 s (request_timeout_ms)"), ConsumerConfig, {})
    again = as_given(error, ConsumerConfig, {})

    assert again is error
    assert str(again) == "not within 5 s (kafka.request.timeout.ms)"
    assert str(as_given(KafkaConnectionError(), ConsumerConfig, {})) == ""


@pytest.mark.parametrize("call", ["schema", "reader", "writer", "streamReader", "streamWriter"])
def test_what_a_source_refuses_has_no_frames_of_ours_in_between(call: str) -> None:
    """Spark prints the whole traceback, of which a user reads the last line."""
    source = KafkaDataSource({"kafka.bootstrap.servers": "https://x"})
    schema = StructType([StructField("value", BinaryType())])
    arguments: list[Any] = {"schema": [], "reader": [schema], "streamReader": [schema]}.get(
        call, [schema, False]
    )
    with pytest.raises(ConfigurationError) as raised:
        getattr(source, call)(*arguments)

    assert [Path(frame.filename).name for frame in extract_tb(raised.tb)][1:] == ["source.py", "source.py"]
    assert raised.value.__cause__ is raised.value.__context__ is None
