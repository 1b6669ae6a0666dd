"""Listeners: what is checked at once, and the TLS they speak, with both sides in memory."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from kclient.broker.security import ListenerSpec, UnsecuredTokens
from kclient.errors import ConfigurationError
from kclient.types import Secret
from tools.kafka.certificates import Certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def _tls(files: Certificates, **options: Any) -> ListenerSpec:
    return ListenerSpec("TLS", "SSL", certfile=files.broker_keystore_pem, **options)


def _mutual(files: Certificates) -> ListenerSpec:
    return _tls(files, cafile=files.ca, client_auth="required")


def _client(files: Certificates, *, certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    if certificate:
        context.load_cert_chain(files.client_certificate, files.client_key)
    return context


def _shake_hands(spec: ListenerSpec, client: ssl.SSLContext) -> ssl.SSLObject:
    """The server's side after a handshake through memory."""
    server = spec.ssl_context()
    assert server is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides[1]


def test_a_listener_without_tls_has_no_context() -> None:
    assert ListenerSpec("A", "PLAINTEXT").ssl_context() is None
    assert ListenerSpec("A", "SASL_PLAINTEXT", mechanisms=("PLAIN",)).ssl_context() is None


def test_clients_without_a_certificate_are_anonymous(files: Certificates) -> None:
    spec = _tls(files)
    assert spec.principal(_shake_hands(spec, _client(files)).getpeercert()) == "User:ANONYMOUS"
    assert spec.principal(None) == "User:ANONYMOUS"


def test_clients_with_a_certificate_are_known_by_its_subject(files: Certificates) -> None:
    spec = _mutual(files)
    server = _shake_hands(spec, _client(files, certificate=True))
    assert spec.principal(server.getpeercert()) == "User:CN=client,O=kclient tests"


def test_where_a_certificate_is_required_none_does_not_get_in(files: Certificates) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate|certificate.required"):
        _shake_hands(_mutual(files), _client(files))


def test_a_certificate_of_another_authority_does_not_get_in(files: Certificates) -> None:
    spec = _tls(files, cafile=files.other_ca, client_auth="required")
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate.verify.failed"):
        _shake_hands(spec, _client(files, certificate=True))


def test_tls_is_at_least_1_2(files: Certificates) -> None:
    context = _tls(files).ssl_context()
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert _shake_hands(_tls(files), _client(files)).version() == "TLSv1.3"
    old = _client(files)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert _shake_hands(_tls(files), old).version() == "TLSv1.2"


def test_an_encrypted_key_is_opened_with_its_password(files: Certificates) -> None:
    spec = ListenerSpec(
        "TLS",
        "SSL",
        certfile=files.client_certificate,
        keyfile=files.client_key_encrypted,
        password=Secret(files.password),
    )
    assert spec.ssl_context() is not None


@pytest.mark.parametrize("password", [None, Secret("wrong-Pl4nted")])
def test_a_key_that_does_not_open_is_named_and_no_terminal_asked(
    files: Certificates, password: Secret | None
) -> None:
    spec = ListenerSpec(
        "TLS", "SSL", certfile=files.client_certificate, keyfile=files.client_key_encrypted, password=password
    )
    with pytest.raises(ConfigurationError, match="does not open the key") as caught:
        spec.ssl_context()
    assert "Pl4nted" not in str(caught.value)


def test_files_that_are_absent_or_no_certificates_are_named(files: Certificates, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"certfile": tmp_path / "absent.pem"}, "no file .*absent.pem"),
        ({"certfile": empty}, "empty.pem.* cannot be read"),
        ({"certfile": files.broker_keystore_pem, "cafile": empty}, "empty.pem.* no certificate"),
        ({"certfile": files.client_certificate, "keyfile": files.broker_keystore_pem}, "belong together"),
    ]
    for options, said in mistakes:
        with pytest.raises(ConfigurationError, match=said):
            ListenerSpec("TLS", "SSL", **options).ssl_context()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"protocol": "TLS"}, "'TLS' is no protocol"),
        ({"name": ""}, "needs a name"),
        ({"port": 65536}, "port 65536"),
        ({"port": -1}, "port -1"),
        ({"certfile": "x"}, "certfile is of no use without TLS"),
        ({"client_auth": "required"}, "of no use without TLS"),
        ({"protocol": "SSL"}, "needs a certificate"),
        ({"protocol": "SSL", "certfile": "x", "client_auth": "required"}, "needs cafile"),
        ({"protocol": "SSL", "certfile": "x", "client_auth": "maybe"}, "none or required"),
        ({"mechanisms": ("PLAIN",)}, "mechanisms belong to SASL"),
        ({"protocol": "SASL_PLAINTEXT"}, "need at least one"),
        ({"protocol": "SASL_PLAINTEXT", "mechanisms": ("GSSAPI",)}, "'GSSAPI' is no SASL mechanism"),
        ({"protocol": "SASL_PLAINTEXT", "mechanisms": ("OAUTHBEARER",)}, "need each other"),
        (
            {
                "protocol": "SASL_PLAINTEXT",
                "mechanisms": ("PLAIN",),
                "oauth": UnsecuredTokens(i_know_these_are_not_verified=True),
            },
            "need each other",
        ),
        ({"users": {"alice": Secret("x")}}, "of no use without SASL"),
        ({"max_reauth_ms": 5}, "of no use without SASL"),
        ({"protocol": "SASL_PLAINTEXT", "mechanisms": ("PLAIN",), "max_reauth_ms": -1}, "below 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_makes_no_sense_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ListenerSpec(**({"name": "A", "protocol": "PLAINTEXT"} | options))


def test_a_password_that_is_no_secret_is_refused_unseen() -> None:
    with pytest.raises(ConfigurationError, match="given as Secret") as caught:
        ListenerSpec("A", "SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"alice": "Pl4nted"})  # type: ignore[dict-item]
    assert "Pl4nted" not in str(caught.value)


def test_a_spec_does_not_change_with_what_it_was_made_of() -> None:
    users = {"alice": Secret("x")}
    spec = ListenerSpec("A", "SASL_PLAINTEXT", mechanisms=("PLAIN",), users=users)
    users["mallory"] = Secret("y")
    assert list(spec.users) == ["alice"]
    with pytest.raises(TypeError):
        spec.users["mallory"] = Secret("y")  # type: ignore[index]
    assert hash(spec)
