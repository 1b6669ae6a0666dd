"""TLS against real brokers: who is let in, who is refused, and that the reason can be understood."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import AuthenticationError, ConfigurationError, KafkaTimeoutError
from tests.support.secured import SUPER_USER, WRONG, Visitor
from tools.kafka.certificates import Certificates

pytestmark = [pytest.mark.kafka, pytest.mark.uvloop]

Given = Callable[[Certificates], dict[str, Any]]


def _own_context(files: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.client_certificate, files.client_key)
    return context


def _key_file(files: Certificates) -> dict[str, Any]:
    return {"ssl_certfile": str(files.client_certificate), "ssl_keyfile": str(files.client_key)}


def _as_text(files: Certificates, key: Path) -> dict[str, Any]:
    return {
        "ssl_cafile": None,
        "ssl_cadata": files.ca.read_text(),
        "ssl_certdata": files.client_certificate.read_text(),
        "ssl_keydata": key.read_text(),
    }


_WAYS: dict[str, Given] = {
    "files": _key_file,
    "files, encrypted key": lambda files: {
        "ssl_certfile": str(files.client_certificate),
        "ssl_keyfile": str(files.client_key_encrypted),
        "ssl_password": files.password,
    },
    "texts": lambda files: _as_text(files, files.client_key),
    "texts, encrypted key": lambda files: {
        **_as_text(files, files.client_key_encrypted),
        "ssl_password": files.password,
    },
    "context": lambda files: {"ssl_cafile": None, "ssl_context": _own_context(files)},
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_client_is_known_by_its_certificate_however_that_is_given(any_visitor: Visitor, way: str) -> None:
    given = _WAYS[way](any_visitor.security.certificates)
    assert any_visitor.identity(any_visitor.options("MTLS", **given)) == "client"


def test_a_listener_that_asks_for_no_certificate_needs_none(any_visitor: Visitor) -> None:
    assert any_visitor.identity(any_visitor.options("TLS")) == SUPER_USER  # of the anonymous user


def test_a_client_without_certificate_is_refused_where_one_is_required(visitor: Visitor) -> None:
    error = visitor.refusal(visitor.options("MTLS", default_api_timeout_ms=1_000))
    assert isinstance(error, AuthenticationError)
    assert "requires a client certificate" in str(error)
    assert len(visitor.connections) == 1


def test_a_client_whose_certificate_is_of_a_foreign_authority_is_refused(
    visitor: Visitor, tmp_path: Path
) -> None:
    foreign = _key_file(Certificates(tmp_path))
    error = visitor.refusal(visitor.options("MTLS", default_api_timeout_ms=1_000, **foreign))
    assert isinstance(error, AuthenticationError)
    assert "does not accept the client certificate: check ssl_certfile" in str(error)
    assert len(visitor.connections) == 1


def test_an_old_broker_that_wants_a_certificate_says_so_in_a_way_that_cannot_be_read(
    old_visitor: Visitor,
) -> None:
    """It encrypts its alert with the wrong key, which may also be an accident: worth another try, in vain."""
    error = old_visitor.refusal(old_visitor.options("MTLS", default_api_timeout_ms=1_000))
    assert isinstance(error, KafkaTimeoutError)
    assert "say that they require a client certificate" in str(error)


@pytest.mark.parametrize("listener", ["TLS", "SASL_SSL"])
def test_a_broker_whose_authority_is_not_trusted_is_refused(any_visitor: Visitor, listener: str) -> None:
    for cafile in (str(any_visitor.security.certificates.other_ca), None):  # None: the system's authorities
        how = any_visitor.options if listener == "TLS" else partial(any_visitor.password, mechanism="PLAIN")
        error = any_visitor.refusal(how(listener, ssl_cafile=cafile))
        assert isinstance(error, AuthenticationError)
        assert "signed by an authority that is not trusted here" in str(error)
    assert len(any_visitor.connections) == 2


def test_a_broker_with_a_certificate_for_another_host_is_refused(any_visitor: Visitor) -> None:
    error = any_visitor.refusal(any_visitor.options("BADHOST"))
    assert isinstance(error, AuthenticationError)
    assert "certificate is not for '127.0.0.1'" in str(error)
    assert len(any_visitor.connections) == 1


def test_host_names_are_left_unchecked_only_on_request_and_loudly(
    any_visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    assert any_visitor.identity(any_visitor.options("BADHOST", ssl_check_hostname=False)) == SUPER_USER
    [warning] = [record for record in caplog.records if record.name == "kclient.net.tls"]
    assert warning.levelname == "WARNING"
    assert "host names in broker certificates are not verified" in warning.message


def test_a_key_that_its_password_does_not_open_is_reported_before_anything_is_sent(visitor: Visitor) -> None:
    files = visitor.security.certificates
    given = {"ssl_certfile": str(files.client_certificate), "ssl_keyfile": str(files.client_key_encrypted)}
    error = visitor.refusal(visitor.options("MTLS", ssl_password=WRONG, **given))
    assert isinstance(error, ConfigurationError)
    assert "ssl_password does not open it" in str(error)
    assert visitor.connections == []


@pytest.mark.parametrize("listener", ["TLS", "MTLS", "SASL_SSL"])
def test_a_client_without_tls_is_told_that_the_port_speaks_tls(any_visitor: Visitor, listener: str) -> None:
    open_to_all = any_visitor.options(listener, security_protocol="PLAINTEXT", ssl_cafile=None)
    with_password = any_visitor.password(
        listener, "PLAIN", security_protocol="SASL_PLAINTEXT", ssl_cafile=None
    )
    for options in (open_to_all, with_password):
        error = any_visitor.refusal(options)
        assert isinstance(error, ConfigurationError)
        assert "speaks TLS: set security_protocol to SSL or SASL_SSL" in str(error)
    assert len(any_visitor.connections) == 2


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_client_with_tls_is_told_at_once_that_the_broker_does_not_speak_it_there(
    any_visitor: Visitor, listener: str
) -> None:
    """The broker hangs up without a word, as one that is shutting down does; but it answers in plain text."""
    options = any_visitor.options("TLS", bootstrap_servers=any_visitor.kafka.bootstrap(listener))
    error = any_visitor.refusal(options)
    assert isinstance(error, ConfigurationError)
    assert "speaks Kafka without TLS: use the port of its SSL listener" in str(error)
