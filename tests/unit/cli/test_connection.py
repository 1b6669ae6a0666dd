"""How commands find their cluster: files, variables, -X and -b, and what may stand in them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.security.listeners import ListenerSpec
from kclient.cli.connection import Connection
from kclient.cli.errors import UsageError, sentence
from kclient.cli.main import parser_for
from kclient.cli.properties import parse_properties, read_properties
from kclient.config import ClientConfig
from kclient.consumer import ConsumerConfig
from kclient.errors import AuthenticationError
from kclient.producer import ProducerConfig
from kclient.testing import RunningBroker
from kclient.types import Secret
from tests.unit.cli.calling import call, ok

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    '    username="al\\\\"ice" \\\n    password="s3cr3t=;";\n'
)


def options(*words: str) -> argparse.Namespace:
    return parser_for(["topics"]).parse_args(["topics", "list", *words])


def settings(*words: str, config: type[ClientConfig] = ClientConfig) -> dict[str, Any]:
    return Connection(options(*words)).options_for(config)


def test_java_properties_are_read_as_java_reads_them() -> None:
    text = "# comment\n! comment\n\n a = 1 \nb:2\nc 3\nd\\ e=\\u0041\\t.\nlong=x, \\\n    y\nempty=\n"
    assert parse_properties(text, "file") == {
        "a": "1 ",
        "b": "2",
        "c": "3",
        "d e": "A\t.",
        "long": "x, y",
        "empty": "",
    }


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfsecurity.protocol=SSL\r\n")
    assert read_properties(path) == {"security.protocol": "SSL"}


def test_a_certificate_that_is_not_trusted_is_not_blamed_on_a_password() -> None:
    refused = AuthenticationError("the certificate of kafka is signed by an authority that is not trusted")
    assert sentence(refused) == str(refused)
    assert "check the user" in sentence(AuthenticationError("refused"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("ok=1\n=x", "line 2: there is no name"), ("name", "line 1: 'name' has no value; write name=value")],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    refused = call("topics", "list", "-c", str(path))
    assert refused.code == 2
    assert refused.err == f"kclient: {path}, {complaint}" + (" before the value\n" if "=" in text else "\n")


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    assert "cannot read" in call("topics", "list", "-c", str(tmp_path / "missing")).err
    assert "byte 0 is not UTF-8" in call("topics", "list", "-c", str(tmp_path / "binary")).err


def test_user_and_password_come_out_of_javas_login_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n{JAAS}")
    found = settings("-c", str(path))
    assert found["sasl_plain_username"] == 'al"ice'
    assert found["sasl_plain_password"] == "s3cr3t=;"
    assert ClientConfig.from_options(found).sasl_mechanism == "SCRAM-SHA-256"


@pytest.mark.parametrize("misspelt", ["htps", "none", "false", "http"])
def test_a_misspelt_identification_algorithm_does_not_switch_host_name_checks_off(
    tmp_path: Path, misspelt: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SSL\nssl.endpoint.identification.algorithm={misspelt}\n")
    refused = call("topics", "list", "-c", str(path))
    assert refused.code == 2
    assert f"ssl.endpoint.identification.algorithm={misspelt!r} must be https, or empty" in refused.err
    assert "must be https" in call("topics", "list", "-X", path.read_text().splitlines()[1]).err


def test_what_is_said_later_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=file\nbootstrap.servers=file:1\nretry.backoff.ms=7\n")
    monkeypatch.setenv("KCLIENT_CLIENT_ID", "variable")
    monkeypatch.setenv("KCLIENT_SASL_PASSWORD", "s3cr3t")
    monkeypatch.setenv("KCLIENT_BOOTSTRAP_SERVERS", "variable:1")
    assert settings()["client_id"] == "variable"
    assert settings()["sasl_plain_password"] == "s3cr3t"
    found = settings("-c", str(path), "-X", "client.id=argument", "-b", "option:1")
    assert (found["client_id"], found["bootstrap_servers"], found["retry_backoff_ms"]) == (
        "argument",
        "option:1",
        "7",
    )
    monkeypatch.setenv("KCLIENT_COMMAND_CONFIG", str(path))
    assert settings()["client_id"] == "file"


def test_every_kind_of_client_takes_its_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("acks=1\nauto.offset.reset=earliest\nclient.id=me\n")
    assert settings("-c", str(path)).get("acks") is None
    assert settings("-c", str(path), config=ProducerConfig)["acks"] == "1"
    assert settings("-c", str(path), config=ConsumerConfig)["auto_offset_reset"] == "earliest"


def test_unknown_properties_are_refused_or_noted(tmp_path: Path, topic: str) -> None:
    refused = call("topics", "list", "-X", "request.timout.ms=3")
    assert refused.code == 2
    assert "did you mean 'request.timeout.ms'" in refused.err
    path = tmp_path / "client.properties"
    path.write_text("metric.reporters=x\nclient.idd=me\ninterceptor.classes=my.Own\nkey.serializer=my.Own\n")
    noted = ok("topics", "list", "-c", str(path))
    unknown = "client.idd, did you mean 'client.id' or 'client.rack'?"
    assert f"warning: {path}: kclient has no option for {unknown}\n" in noted.err
    assert (
        f"{path}: interceptor.classes is left out: classes of Java cannot run here: give hooks" in noted.err
    )
    assert noted.err.count("\n") == 3
    refused = call("topics", "list", "-X", "interceptor.classes=my.Own")
    assert (refused.code, "-X interceptor.classes: classes of Java" in refused.err) == (2, True)
    left_out = ok("topics", "list", "-X", "metric.reporters=x")
    assert left_out.err == "warning: -X metric.reporters has no meaning for kclient and is left out\n"
    assert topic in noted.lines


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl_plain_password",
        "ssl.key.password",
        "sasl.jaas.config",
        "ssl.keystore.key",
        "ssl.key.pem",
    ],
)
def test_secrets_do_not_belong_into_arguments(name: str) -> None:
    refused = call("topics", "list", "-X", f"{name}=s3cr3t")
    assert refused.code == 2
    assert "everybody on this machine could read it" in refused.err
    assert "s3cr3t" not in refused.err


@pytest.mark.parametrize(
    "words", [["-X", "novalue"], ["--timeout", "0"], ["--timeout", "soon"], ["-b", "host:port"]]
)
def test_nonsense_is_a_usage_error(words: list[str]) -> None:
    assert call("topics", "list", *words).code == 2


def test_x_before_and_after_the_command_are_both_heard() -> None:
    parser = parser_for(["topics"])
    given = parser.parse_args(["-X", "client.id=me", "topics", "list", "-X", "retry.backoff.ms=9"])
    found = Connection(given).options_for(ClientConfig)
    assert (found["client_id"], found["retry_backoff_ms"]) == ("me", "9")


def test_a_wrong_password_is_said_at_once_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n{JAAS}")
    listener = ListenerSpec(
        "SASL", "SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users={"alice": Secret("right")}
    )
    with RunningBroker(listeners=[listener]) as running:
        refused = call("topics", "list", "-b", running.bootstrap_servers, "-c", str(path))
        unsecured = call("topics", "list", "-b", running.bootstrap_servers)
    assert refused.code == unsecured.code == 1
    assert "check the user, the password and security.protocol" in refused.err
    assert "s3cr3t" not in refused.err
    assert "does not understand us" in unsecured.err


def test_usage_errors_are_kafka_errors_for_main() -> None:
    with pytest.raises(UsageError):
        parse_properties("=", "file")
