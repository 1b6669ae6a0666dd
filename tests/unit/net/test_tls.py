"""TLS contexts, and what is said of handshakes that fail. The handshakes are real, in memory."""

from __future__ import annotations

import contextlib
import logging
import ssl
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import AuthenticationError, ConfigurationError, KafkaConnectionError, KafkaError
from kclient.net.tls import explain_tls_failure, make_context
from kclient.types import Secret
from tools.kafka.certificates import PASSWORD, Certificates

_PATHS = ("cafile", "capath", "certfile", "keyfile")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory = tmp_path_factory.mktemp("tls")
    certificates = Certificates(directory)
    both = certificates.client_certificate.read_bytes() + certificates.client_key.read_bytes()
    (directory / "client-both.pem").write_bytes(both)
    (directory / "empty.pem").write_bytes(b"")
    (directory / "garbage.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    return certificates


def _options(made: Certificates, given: dict[str, Any]) -> dict[str, Any]:
    """File names become paths, and `@name` the text of a file."""
    directory = made.ca.parent
    options = dict(given)
    for name, value in given.items():
        if name in _PATHS:
            options[name] = directory / value
        elif isinstance(value, str) and value.startswith("@"):
            text = (directory / value[1:]).read_text()
            options[name] = Secret(text) if name == "keydata" else text
    return options


def _broker(
    made: Certificates, *, keystore: Path | None = None, wants_client: bool = False, old: bool = False
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore or made.broker_keystore_pem)
    if old:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(made.ca)
    return context


def _shake_hands(client: ssl.SSLContext, broker: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """Run both sides in turn until the client has read a first byte; raises what the client would see."""
    to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_broker, server_hostname=host)
    theirs = broker.wrap_bio(to_broker, to_client, server_side=True)
    for _ in range(4):
        _advance(ours.do_handshake)
        with contextlib.suppress(ssl.SSLError):  # the alert that tells the client is on its way
            _advance(theirs.do_handshake)
            _advance(lambda: theirs.write(b"x"))
    assert ours.read(1) == b"x"
    return ours


def _advance(act: Callable[[], object]) -> None:
    with contextlib.suppress(ssl.SSLWantReadError):
        act()


def _failure(client: ssl.SSLContext, broker: ssl.SSLContext, host: str = "localhost") -> KafkaError:
    with pytest.raises(ssl.SSLError) as caught:
        _shake_hands(client, broker, host)
    return explain_tls_failure(caught.value, host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("trust", [{"cafile": "ca.pem"}, {"cadata": "@ca.pem"}])
def test_a_broker_is_verified_by_name_and_by_address(
    made: Certificates, host: str, trust: dict[str, Any]
) -> None:
    context = make_context(**_options(made, trust))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.check_hostname
    assert _shake_hands(context, _broker(made), host).version() == "TLSv1.3"


@pytest.mark.parametrize(
    "identity",
    [
        {"certfile": "client.pem", "keyfile": "client.key"},
        {"certfile": "client-both.pem"},
        {"certfile": "client.pem", "keyfile": "client-encrypted.key", "password": Secret(PASSWORD)},
        {"certdata": "@client.pem", "keydata": "@client.key"},
        {"certdata": "@client.pem", "keydata": "@client-encrypted.key", "password": Secret(PASSWORD)},
    ],
)
def test_a_client_can_show_a_certificate_of_its_own(made: Certificates, identity: dict[str, Any]) -> None:
    context = make_context(cafile=made.ca, **_options(made, identity))
    _shake_hands(context, _broker(made, wants_client=True))


def _encrypted(password: str) -> dict[str, Any]:
    return {"certfile": "client.pem", "keyfile": "client-encrypted.key", "password": Secret(password)}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"cafile": "no-such.pem"}, "ssl_cafile='.*no-such.pem' cannot be read: No such file"),
        ({"cafile": "empty.pem"}, "ssl_cafile='.*empty.pem' has no certificate"),
        (
            {"cafile": "ca.p12"},
            "ssl_cafile='.*' is a PKCS#12 store; .* openssl pkcs12 -in ca.p12 -nokeys -out",
        ),
        ({"cafile": "garbage.pem"}, "ssl_cafile='.*garbage.pem' has no certificate"),
        ({"cafile": "."}, "ssl_cafile=.* cannot be read: "),
        ({"cadata": ""}, "ssl_cadata has no certificate"),
        ({"cadata": "@garbage.pem"}, "ssl_cadata has no certificate"),
        ({"cadata": "CERTIFICATE----- ünsinn"}, "ssl_cadata has no certificate"),
        ({"cafile": "ca.pem", "cadata": "x"}, "ssl_cafile='.*ca.pem' or ssl_cadata has no certificate"),
        ({"capath": "ca.pem"}, "ssl_capath=.* is no directory"),
        ({"certfile": "no-such.pem"}, "ssl_certfile='.*no-such.pem' cannot be read"),
        ({"certfile": "client.pem", "keyfile": "no-such"}, "ssl_keyfile='.*no-such' cannot be read"),
        ({"certfile": "client.pem"}, "ssl_certfile='.*client.pem' has no PEM private key"),
        (
            {"certfile": "broker-keystore.p12"},
            "ssl_certfile='.*p12' is a PKCS#12 store; .* openssl pkcs12 -in broker-keystore.p12 -nodes -out",
        ),
        ({"certfile": "client.pem", "keyfile": "ca.p12"}, "ssl_keyfile='.*ca.p12' has no PEM private key"),
        ({"certfile": "garbage.pem", "keyfile": "client.key"}, "ssl_certfile=.* cannot be read as"),
        (
            {"certfile": "client.pem", "keyfile": "broker-keystore.pem"},
            "key in ssl_keyfile=.* does not belong",
        ),
        ({"certfile": "client.pem", "keyfile": "client-encrypted.key"}, "is encrypted: set ssl_password"),
        (_encrypted("not-it"), "is encrypted: ssl_password does not open it"),
        (_encrypted("not-it" * 1000), "is encrypted: ssl_password does not open it"),
        (_encrypted("not-it\ud800"), "is encrypted: ssl_password does not open it"),
        ({"certdata": "@client.pem", "keydata": Secret("not-it")}, "ssl_keydata has no PEM private key"),
        ({"certdata": "x", "keydata": "@client.key"}, "ssl_certdata has no PEM certificate"),
        (
            {"certdata": "@client.pem", "keydata": "@broker-keystore.pem"},
            "key in ssl_keydata does not belong",
        ),
    ],
)
def test_a_file_or_text_that_is_no_good_is_named(
    made: Certificates, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        make_context(**_options(made, given))
    assert "not-it" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"context": ssl.create_default_context(), "cafile": "x"}, "so ssl_cafile would be ignored"),
        ({"context": ssl.create_default_context(), "check_hostname": False}, "ssl_check_hostname would be"),
        ({"context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}, "is for servers"),
        ({"certfile": "x", "certdata": "x"}, "ssl_certfile and ssl_certdata"),
        ({"certfile": "x", "keyfile": "x", "keydata": Secret("x")}, "ssl_keyfile and ssl_keydata"),
        ({"keyfile": "x"}, "ssl_keyfile is of no use without ssl_certfile"),
        ({"keydata": Secret("x")}, "ssl_keydata is of no use without ssl_certdata"),
        ({"certdata": "x"}, "ssl_certdata is of no use without ssl_keydata"),
        ({"password": Secret("x")}, "ssl_password opens the client's key"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make_context(**options)


def test_a_context_of_ones_own_is_used_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.create_default_context()
    assert make_context(context=context) is context
    assert not caplog.records


def test_unverified_host_names_are_warned_about_once_and_authorities_still_verified(
    made: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    context = make_context(cafile=made.ca, check_hostname=False)
    _shake_hands(context, _broker(made, keystore=made.badhost_keystore_pem))
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("kclient.net.tls", logging.WARNING)
    ]
    assert "ssl_check_hostname is off" in caplog.text
    assert isinstance(_failure(make_context(cafile=made.other_ca), _broker(made)), AuthenticationError)


def test_a_context_that_verifies_nothing_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    make_context(context=ssl._create_unverified_context())
    assert "certificates are not verified" in caplog.text


@pytest.mark.parametrize("key", ["@client.key", "@broker-keystore.pem"])
def test_a_key_given_as_text_is_on_disk_privately_and_only_while_it_is_loaded(
    made: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, certfile: Path, keyfile: Path, password: Callable[[], str]) -> None:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in (certfile, keyfile, keyfile.parent))
        load(self, certfile, keyfile, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    with contextlib.suppress(ConfigurationError):
        make_context(**_options(made, {"certdata": "@client.pem", "keydata": key}))
    assert modes == [0o600, 0o600, 0o700]
    assert list(tmp_path.iterdir()) == []


def test_a_broker_of_an_unknown_authority_is_refused_with_the_option_to_set(made: Certificates) -> None:
    error = _failure(make_context(cafile=made.other_ca), _broker(made))
    assert isinstance(error, AuthenticationError)
    assert "set ssl_cafile" in str(error)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_for_another_host_is_refused_and_the_expected_name_said(
    made: Certificates, host: str
) -> None:
    error = _failure(make_context(cafile=made.ca), _broker(made, keystore=made.badhost_keystore_pem), host)
    assert isinstance(error, AuthenticationError)
    assert str(error).startswith(f"the broker's certificate is not for {host!r}")


@pytest.mark.parametrize("old", [True, False])
def test_a_broker_that_wants_a_client_certificate_says_so(made: Certificates, old: bool) -> None:
    error = _failure(make_context(cafile=made.ca), _broker(made, wants_client=True, old=old))
    assert "require a client certificate" in str(error).replace("requires", "require")
    # With TLS 1.2 OpenSSL's servers send the alert that also means "no common cipher"; Java's are clearer.
    assert type(error) is (KafkaConnectionError if old else AuthenticationError)


def test_an_answer_that_is_not_tls_is_recognised() -> None:
    to_client = ssl.MemoryBIO()
    ours = make_context().wrap_bio(to_client, ssl.MemoryBIO(), server_hostname="localhost")
    _advance(ours.do_handshake)
    to_client.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as caught:
        ours.do_handshake()
    error = explain_tls_failure(caught.value, "localhost")
    assert isinstance(error, KafkaConnectionError)
    assert "the port probably does not speak TLS" in str(error)


def _certificate_error(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "failed")
    error.verify_code, error.verify_message = code, message
    return error


def _alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "failed")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (_certificate_error(10, "certificate has expired"), AuthenticationError, "renew the broker's"),
        (_certificate_error(23, "certificate revoked"), AuthenticationError, "certificate revoked"),
        (_alert("TLSV1_ALERT_UNKNOWN_CA"), AuthenticationError, "does not trust the authority"),
        (_alert("SSLV3_ALERT_BAD_CERTIFICATE"), AuthenticationError, "requires a client certificate, or"),
        (_alert("TLSV1_ALERT_PROTOCOL_VERSION"), KafkaConnectionError, "enable TLS 1.2"),
        (
            _alert("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"),
            KafkaConnectionError,
            "require a client certificate",
        ),
        (_alert("SOMETHING_NEW"), KafkaConnectionError, "failed: SOMETHING_NEW"),
        (ssl.SSLEOFError(8, "EOF occurred"), KafkaConnectionError, "probably does not speak TLS"),
        (ConnectionResetError(), KafkaConnectionError, "probably does not speak TLS"),
        (ConnectionRefusedError(), KafkaConnectionError, "no broker listens"),
    ],
)
def test_each_failure_comes_with_advice(error: ssl.SSLError, kind: type[KafkaError], advice: str) -> None:
    explained = explain_tls_failure(error, "broker-1")
    assert type(explained) is kind
    assert advice in str(explained)
    assert "broker-1" in str(explained)


def test_a_java_key_store_is_named_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002") + bytes(40))
    with pytest.raises(
        ConfigurationError, match=r"is one of Java's key stores \(JKS\); .* keytool -list -rfc"
    ):
        make_context(cafile=store)
    with pytest.raises(
        ConfigurationError, match=r"\(JKS\); .* keytool -importkeystore .* -nodes -out trust.pem"
    ):
        make_context(certfile=store)


def test_a_certificate_in_binary_is_named_with_the_command_that_converts_it(
    tmp_path: Path, made: Certificates
) -> None:
    binary = tmp_path / "ca.der"
    binary.write_bytes(ssl.PEM_cert_to_DER_cert(made.ca.read_text()))
    with pytest.raises(
        ConfigurationError, match=r"certificate in binary \(DER\); .* openssl x509 -inform der"
    ):
        make_context(cafile=binary)
