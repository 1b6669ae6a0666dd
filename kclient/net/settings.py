"""From a client's configuration to what its connections need: TLS context, authenticator, sizes, times."""

from __future__ import annotations

import logging
import ssl
from importlib.metadata import PackageNotFoundError, version
from random import Random

from kclient.config import ClientConfig
from kclient.errors import ConfigurationError
from kclient.net.dial import DialSettings
from kclient.net.sasl import Authenticator, Plain, Scram
from kclient.net.tls import make_context
from kclient.types import Secret

log = logging.getLogger(__name__)

DISTRIBUTION = "kclient-kafka"


def dial_settings(config: ClientConfig, random: Random) -> DialSettings:
    """Everything that the connections of a client have in common; bad combinations are reported here."""
    protocol = config.security_protocol
    if protocol == "SASL_PLAINTEXT" and config.sasl_mechanism == "PLAIN":
        log.warning(
            "security_protocol=SASL_PLAINTEXT sends the password of %s unencrypted", config.sasl_mechanism
        )
    return DialSettings(
        protocol=protocol,
        client_id=config.client_id,
        request_timeout=config.request_timeout_ms / 1000,
        setup_timeout=config.socket_connection_setup_timeout_ms / 1000,
        max_frame=config.receive_message_max_bytes,
        random=random,
        tls=_tls(config) if protocol.endswith("SSL") else None,
        sasl=_authenticator(config) if protocol.startswith("SASL") else None,
        send_buffer=config.send_buffer_bytes,
        receive_buffer=config.receive_buffer_bytes,
        software=("kclient", _our_version()),
    )


def _tls(config: ClientConfig) -> ssl.SSLContext:
    return make_context(
        context=config.ssl_context,
        cafile=config.ssl_cafile,
        cadata=config.ssl_cadata,
        certfile=config.ssl_certfile,
        certdata=config.ssl_certdata,
        keyfile=config.ssl_keyfile,
        keydata=_secret(config.ssl_keydata),
        password=_secret(config.ssl_password),
        check_hostname=config.ssl_check_hostname,
    )


def _authenticator(config: ClientConfig) -> Authenticator:
    mechanism = config.sasl_mechanism
    if mechanism == "PLAIN":
        return Plain(*_username_and_password(config))
    if mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        return Scram(mechanism, *_username_and_password(config))
    raise ConfigurationError(f"sasl_mechanism={mechanism} is not supported yet")


def _username_and_password(config: ClientConfig) -> tuple[str, Secret]:
    username, password = config.sasl_plain_username, _secret(config.sasl_plain_password)
    if not username or password is None:
        raise ConfigurationError(
            f"sasl_mechanism={config.sasl_mechanism} needs sasl_plain_username and sasl_plain_password"
        )
    return username, password


def _secret(value: str | Secret | None) -> Secret | None:
    """The config has made a `Secret` of it; its declared type says what users may pass."""
    return Secret(value) if isinstance(value, str) else value


def _our_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
