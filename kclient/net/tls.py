"""TLS: the context that connections are made with, and what a failed handshake means.

Certificates come from PEM files or as PEM text; errors name the option and the file, never what is in it.
When a context is made again is said in `tls_files`.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kclient.errors import AuthenticationError, ConfigurationError, KafkaConnectionError, KafkaError
from kclient.net.stores import kind_of_store
from kclient.types import Secret

Location: TypeAlias = str | os.PathLike[str]

_log = logging.getLogger(__name__)
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")


def make_context(  # noqa: PLR0913 - one parameter per option, named ssl_… in the configuration
    *,
    context: ssl.SSLContext | None = None,
    cafile: Location | None = None,
    capath: Location | None = None,
    cadata: str | None = None,
    certfile: Location | None = None,
    keyfile: Location | None = None,
    certdata: str | None = None,
    keydata: Secret | None = None,
    password: Secret | None = None,
    check_hostname: bool = True,
) -> ssl.SSLContext:
    """A context for connections to brokers: TLS 1.2 or newer, certificates and host names verified.

    Without `cafile`, `capath` and `cadata` the system's authorities are trusted. The client's own certificate
    is in `certfile` (its key too, or in `keyfile`) or in the texts `certdata` and `keydata`; `password` opens
    an encrypted key. A `context` of one's own is used as it is.
    """
    given = _names_of(cafile=cafile, capath=capath, cadata=cadata, certfile=certfile, keyfile=keyfile)
    given += _names_of(certdata=certdata, keydata=keydata, password=password)
    given += _names_of(check_hostname=None if check_hostname else False)
    if context is not None:
        return _own_context(context, given)
    _check_identity(given)
    made = _trusting(cafile, capath, cadata)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = check_hostname
    if certfile is not None:
        certificate = _Source("ssl_certfile", Path(certfile))
        key = certificate if keyfile is None else _Source("ssl_keyfile", Path(keyfile))
        _present(made, certificate, key, password)
    elif certdata is not None and keydata is not None:
        with _private_files(Secret(certdata), keydata) as (certificate_path, key_path):
            certificate = _Source("ssl_certdata", certificate_path, is_file=False)
            _present(made, certificate, _Source("ssl_keydata", key_path, is_file=False), password)
    _be_loud(made)
    return made


def _names_of(**options: object) -> list[str]:
    return [f"ssl_{name}" for name, value in options.items() if value is not None]


def _own_context(context: ssl.SSLContext, given: list[str]) -> ssl.SSLContext:
    if given:
        raise ConfigurationError(
            f"ssl_context is used as it is, so {', '.join(given)} would be ignored: "
            "give the context alone, or let kclient make one from the other options"
        )
    if context.protocol == ssl.PROTOCOL_TLS_SERVER:
        raise ConfigurationError("ssl_context is for servers: make it with ssl.create_default_context()")
    _be_loud(context)
    return context


def _be_loud(context: ssl.SSLContext) -> None:
    if context.verify_mode != ssl.CERT_REQUIRED:
        _log.warning("broker certificates are not verified: anybody on the network can pose as a broker")
    elif not context.check_hostname:
        _log.warning(
            "the host names in broker certificates are not verified (ssl_check_hostname is off): "
            "any holder of a certificate of the same authority can pose as a broker"
        )


def _check_identity(given: list[str]) -> None:
    """Which options make sense together."""
    for one, other in (("ssl_certfile", "ssl_certdata"), ("ssl_keyfile", "ssl_keydata")):
        if one in given and other in given:
            raise ConfigurationError(f"{one} and {other} say the same thing twice: give one of them")
    needed = [
        ("ssl_keyfile", "ssl_certfile"),
        ("ssl_keydata", "ssl_certdata"),
        ("ssl_certdata", "ssl_keydata"),
    ]
    for option, companion in needed:
        if option in given and companion not in given:
            raise ConfigurationError(f"{option} is of no use without {companion}: give both")
    if "ssl_password" in given and not {"ssl_certfile", "ssl_keydata"} & set(given):
        raise ConfigurationError(
            "ssl_password opens the client's key, but there is none: give ssl_certfile too"
        )


def _trusting(cafile: Location | None, capath: Location | None, cadata: str | None) -> ssl.SSLContext:
    if cafile is not None:
        _check_readable("ssl_cafile", Path(cafile))
    if capath is not None and not Path(capath).is_dir():
        raise ConfigurationError(f"ssl_capath={str(capath)!r} is no directory")
    # Python would take an empty text for none, and trust the system's authorities.
    failure: Exception | None = None
    if cadata is None or "CERTIFICATE-----" in cadata:
        try:
            return ssl.create_default_context(
                ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata
            )
        except (OSError, ValueError, TypeError) as error:
            failure = error
    places = [] if cafile is None else [f"ssl_cafile={str(cafile)!r}"]
    places += [] if cadata is None else ["ssl_cadata"]
    where = " or ".join(places)
    if cafile is not None and cadata is None and (store := kind_of_store(Path(cafile))):
        raise ConfigurationError(f"{where} is {store}") from failure
    raise ConfigurationError(f"{where} has no certificate that can be read: it must be PEM text") from failure


class _Source(NamedTuple):
    """Where a certificate or a key is, under the option that said so."""

    option: str
    path: Path
    is_file: bool = True

    def __str__(self) -> str:
        return f"{self.option}={str(self.path)!r}" if self.is_file else self.option

    def has(self, label: bytes) -> bool:
        return label in self.path.read_bytes()


def _present(context: ssl.SSLContext, certificate: _Source, key: _Source, password: Secret | None) -> None:
    """Load the client's own certificate and key."""
    for source in (certificate, key):
        _check_readable(source.option, source.path)
    asked = False

    def reveal() -> str:
        # Also without a password: OpenSSL would ask for one on the terminal and wait.
        nonlocal asked
        asked = True
        return "" if password is None else password.reveal()

    failure: Exception | None = None
    try:
        context.load_cert_chain(certificate.path, key.path, reveal)
    except ssl.SSLError as error:
        failure = error
    except ValueError:  # a password too long or not encodable; the exception may hold it, so it is let go
        asked = True
    else:
        return
    raise ConfigurationError(_why_not_loaded(certificate, key, password, asked, failure)) from failure


def _why_not_loaded(
    certificate: _Source, key: _Source, password: Secret | None, asked: bool, failure: Exception | None
) -> str:
    reason = getattr(failure, "reason", None)
    if reason in _MISMATCHES:
        return f"the key in {key} does not belong to the certificate in {certificate}"
    if not certificate.has(b"CERTIFICATE-----"):
        store = kind_of_store(certificate.path, with_key=True)
        return f"{certificate} is {store}" if store else f"{certificate} has no PEM certificate"
    if not key.has(b"PRIVATE KEY-----"):
        return f"{key} has no PEM private key; say where it is with ssl_keyfile or ssl_keydata"
    if asked:
        advice = "set ssl_password" if password is None else "ssl_password does not open it"
        return f"the key in {key} is encrypted: {advice}"
    return f"{certificate} and {key} cannot be read as certificate and key: {reason or 'damaged'}"


def _check_readable(option: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigurationError(f"{option}={str(path)!r} cannot be read: {error.strerror}") from error


@contextmanager
def _private_files(*contents: Secret) -> Iterator[list[Path]]:
    """Texts as files for as long as the block runs: OpenSSL reads a client's chain only from files."""
    with tempfile.TemporaryDirectory(prefix="kclient-") as directory:  # mode 0700
        paths = [Path(directory) / f"{number}.pem" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content.reveal().encode("utf-8", "replace"))
        yield paths


_UNTRUSTED = (18, 19, 20, 21)  # self-signed, self-signed in the chain, issuer not found, leaf not verifiable
_WRONG_NAME = (62, 64)  # of a host, of an IP address
_WRONG_TIME = (9, 10)  # not valid yet, expired
_REFUSED_CERTIFICATE = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "requires a client certificate",
    "SSLV3_ALERT_NO_CERTIFICATE": "requires a client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "requires a client certificate, or refuses the one it got",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "does not support this kind of client certificate",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "says that the client certificate is revoked",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "says that the client certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "does not accept the client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "does not trust the authority that signed the client certificate",
    "TLSV1_ALERT_ACCESS_DENIED": "accepts the client certificate but not its owner",
    "TLSV1_ALERT_DECRYPT_ERROR": "could not verify that the client has the key of its certificate",
}
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_NOT_DECRYPTED = "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
_NOTHING_IN_COMMON = (
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS_AVAILABLE",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY",
)


def explain_tls_failure(error: ssl.SSLError | ConnectionError, host: str) -> KafkaError:
    """What a failed handshake means and what to do. Bad certificates stay bad; the rest is worth another try.

    With TLS 1.3 a broker refuses a client's certificate only after the handshake: then it is the first read
    that fails, with the same errors.
    """
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(_unverified(error, host))
    if reason in _REFUSED_CERTIFICATE:
        return AuthenticationError(
            f"{host} {_REFUSED_CERTIFICATE[reason]}: check ssl_certfile and ssl_keyfile, "
            "and which authorities the broker trusts"
        )
    return KafkaConnectionError(_broken(error, reason, host))


def may_lack_tls(error: ssl.SSLError | ConnectionError) -> bool:
    """Whether a handshake failed as it does on a port that does not speak TLS."""
    if isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return not isinstance(error, ConnectionRefusedError)
    return error.reason in _NO_TLS


def _broken(error: ssl.SSLError | ConnectionError, reason: str, host: str) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"{host} refused the connection: no broker listens on that port"
    if reason in _NO_TLS:
        return (
            f"{host} did not answer in TLS: the port probably does not speak TLS; "
            "use the port of its SSL listener, or another security_protocol"
        )
    if reason in _NOTHING_IN_COMMON:
        return (
            f"{host} and this client share no TLS version or cipher ({reason}): have the broker enable "
            "TLS 1.2 or 1.3; some brokers say in this way that they require a client certificate"
        )
    if reason == _NOT_DECRYPTED:
        return (
            f"what {host} sent after the TLS handshake cannot be decrypted ({reason}): in this way old "
            "brokers say that they require a client certificate, or refuse the one they got: "
            "check ssl_certfile"
        )
    if isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return (
            f"{host} closed the connection during the TLS handshake: the port probably does not speak TLS, "
            "or the broker is shutting down"
        )
    return f"TLS with {host} failed: {reason or error}"


def _unverified(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _WRONG_NAME:
        return (
            f"the broker's certificate is not for {host!r}, expected among its subject alternative names: "
            "connect by a name that it has, or have a certificate issued for this one"
        )
    if error.verify_code in _UNTRUSTED:
        return (
            f"the certificate of {host} is signed by an authority that is not trusted here "
            f"({error.verify_message}): set ssl_cafile to the certificate of that authority"
        )
    if error.verify_code in _WRONG_TIME:
        return f"{error.verify_message} for {host}: renew the broker's certificate, or set the clock right"
    return f"the certificate of {host} could not be verified: {error.verify_message}"
