"""What users write is understood as Spark's own connector would, and what cannot be meant is said."""

from __future__ import annotations

import logging

import pytest

from kclient.consumer.config import ConsumerConfig
from kclient.errors import ConfigurationError
from kclient.spark import producers, properties
from kclient.spark.options import TABLE, Use, duration_ms, parse, size_bytes

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_are_found_in_any_case_and_defaults_are_sparks() -> None:
    found = parse({**SERVERS, "FAILONDATALOSS": "false", "minpartitions": "8"}, Use.BATCH_READ)

    assert (found["failOnDataLoss"], found["minPartitions"]) == (False, 8)
    assert (found["includeHeaders"], found["fetchOffset.numRetries"]) == (False, 3)
    assert parse(SERVERS, Use.STREAM_READ)["maxTriggerDelay"] == 15 * 60_000
    assert found.kafka == {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(
    ("given", "use", "complaint"),
    [
        ({"startingofset": "earliest"}, Use.READ, "did you mean 'startingOffsets'"),
        ({"bootstrap.servers": "x:1"}, Use.READ, "did you mean 'kafka.bootstrap.servers'"),
        ({"endingOffsets": "latest"}, Use.STREAM_READ, "'endingOffsets' is for a batch read, not for a stre"),
        ({"topic": "x"}, Use.BATCH_READ, "'topic' is for writing"),
        ({"topic": " "}, Use.BATCH_WRITE, "topic=' ' must be the name of a topic"),
        ({"minPartitions": "0"}, Use.READ, "minPartitions='0' must be a whole number, 1 or more"),
        ({"failOnDataLoss": "maybe"}, Use.READ, "failOnDataLoss='maybe' must be true or false"),
        ({"maxTriggerDelay": "soon"}, Use.STREAM_READ, "must be a duration"),
        ({"kafka.auto.offset.reset": "latest"}, Use.READ, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, Use.READ, r"kclient\.commitOffsets"),
        ({"kafka.value.deserializer": "x"}, Use.READ, "valueFormat"),
        ({"kafka.interceptor.classes": "x"}, Use.READ, "Java"),
        ({"provider": "kclient"}, Use.ALL, "CREATE TEMPORARY VIEW"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], use: Use, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse({**SERVERS, **given}, use)


def test_limits_of_triggers_are_no_mistake_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse({**SERVERS, "maxOffsetsPerTrigger": "10"}, Use.BATCH_READ)

    assert "maxOffsetsPerTrigger has no meaning in a batch read" in caplog.text


def test_servers_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers"):
        parse({}, Use.READ)


@pytest.mark.parametrize(
    "given", ["htps://broker:9092", "broker:9092, https://broker.example.com", "http://broker:9092"]
)
def test_an_address_of_the_web_is_no_broker(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers=.* address of the web.*host:port"):
        parse({**SERVERS, "kafka.bootstrap.servers": given}, Use.READ)


def test_the_name_of_a_listener_may_stand_before_an_address() -> None:
    given = "SSL://a:1,plaintext://b:1, CLIENT_TLS://c:1"
    assert parse({"kafka.bootstrap.servers": given}, Use.READ).kafka["bootstrap.servers"] == given


def test_times_and_sizes_are_written_as_spark_writes_them() -> None:
    assert [duration_ms(text) for text in ("15m", "500ms", "2s", "1h", "250")] == [
        900_000,
        500,
        2000,
        3_600_000,
        250,
    ]
    assert [size_bytes(text) for text in ("4m", "512k", "100")] == [4 << 20, 512 << 10, 100]


def test_options_do_not_show_passwords() -> None:
    found = parse({**SERVERS, "kafka.sasl.password": "hunter2"}, Use.READ)

    assert "hunter2" not in repr(found)


def test_every_option_is_named_once() -> None:
    names = [row.name.lower() for row in TABLE]

    assert len(set(names)) == len(names)


def test_java_login_lines_become_options() -> None:
    line = "org.apache.kafka.common.security.scram.ScramLoginModule required "
    line += 'username="al\\"ice" password=\'p w\';'
    found = properties.config(
        ConsumerConfig,
        {
            "bootstrap.servers": "x:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": line,
            "ssl.endpoint.identification.algorithm": "",
        },
    )

    assert found.sasl_plain_username == 'al"ice'
    assert found.sasl_plain_password is not None
    assert not isinstance(found.sasl_plain_password, str)
    assert found.sasl_plain_password.reveal() == "p w"
    assert not found.ssl_check_hostname


@pytest.mark.parametrize(
    "name",
    ["sasl.login.refresh.window.factor", "sasl.kerberos.kinit.cmd", "socket.connection.setup.timeout.max.ms"],
)
def test_properties_that_only_tune_java_are_left_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    found = properties.config(ConsumerConfig, {"bootstrap.servers": "x:1", name: "0.8"})

    assert found == properties.config(ConsumerConfig, {"bootstrap.servers": "x:1"})
    assert f"kafka.{name} has no meaning" in caplog.text


def test_the_level_of_the_chosen_codec_counts() -> None:
    given = {"bootstrap.servers": "x:1", "compression.zstd.level": "7", "compression.gzip.level": "2"}

    assert producers.config(given | {"compression.type": "zstd"}).compression_level == 7
    assert producers.config(given | {"compression.type": "gzip"}).compression_level == 2
    assert producers.config(given).compression_level is None


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("sasl.jaas.config", "nonsense", "is not understood"),
        ("sasl.jaas.config", "a.b.PlainLoginModule required username=x;", "needs username and password"),
        ("sasl.jaas.config", "a.b.MyLoginModule required x=y;", "MyLoginModule"),
        (
            "sasl.jaas.config",
            "a.b.ScramLoginModule required username=x password=y tokenauth=ture;",
            "tokenauth must be true or false",
        ),
        ("ssl.endpoint.identification.algorithm", "htps", "must be https, or empty"),
        ("ssl.keystore.type", "JKS", "PEM"),
        ("ssl.truststore.password", "hunter2", "PEM"),
        ("no.such.thing", "1", "there is no option 'kafka.no.such.thing'"),
    ],
)
def test_properties_that_cannot_be_had_are_refused_without_showing_secrets(
    name: str, value: str, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        properties.config(ConsumerConfig, {"bootstrap.servers": "x:1", name: value})

    assert "hunter2" not in str(caught.value)
