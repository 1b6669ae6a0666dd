"""From a client's configuration to what its connections need: TLS context, authenticator, sizes, times."""

from __future__ import annotations

import logging
from dataclasses import fields
from functools import partial
from random import Random

from kclient import __version__
from kclient.config import ClientConfig
from kclient.errors import ConfigurationError
from kclient.net.dial import DialSettings
from kclient.net.sasl import (
    Authenticator,
    ClientCredentials,
    Gssapi,
    OAuthBearer,
    Plain,
    Scram,
    TokenCallback,
    TokenProvider,
)
from kclient.net.tls import make_context
from kclient.net.tls_files import TlsFiles, trusted_by_default
from kclient.types import Secret

log: logging.Logger = logging.getLogger(__name__)


def dial_settings(config: ClientConfig, random: Random) -> DialSettings:
    """Everything that the connections of a client have in common; bad combinations are reported here."""
    protocol = config.security_protocol
    _refuse_what_would_be_ignored(config)
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
        software=("kclient", __version__),
    )


def _refuse_what_would_be_ignored(config: ClientConfig) -> None:
    """Who sets a certificate or a password believes to be protected by it; who checks no names does not."""
    given = [
        field.name
        for field in fields(config)
        if getattr(config, field.name) != field.default and field.name != "ssl_check_hostname"
    ]
    for prefix, protocols in (("ssl_", "SSL or SASL_SSL"), ("sasl_", "SASL_SSL or SASL_PLAINTEXT")):
        ignored = [name for name in given if name.startswith(prefix)]
        if config.sasl_oauthbearer_token_endpoint_url is not None and "ssl_cafile" in ignored:
            ignored.remove("ssl_cafile")  # it is for the token endpoint too
        if ignored and prefix.strip("_").upper() not in config.security_protocol:
            raise ConfigurationError(
                f"security_protocol={config.security_protocol} ignores {', '.join(ignored)}: "
                f"set it to {protocols}, or leave them out"
            )


def _tls(config: ClientConfig) -> TlsFiles:
    make = partial(
        make_context,
        context=config.ssl_context,
        cafile=config.ssl_cafile,
        capath=config.ssl_capath,
        cadata=config.ssl_cadata,
        certfile=config.ssl_certfile,
        certdata=config.ssl_certdata,
        keyfile=config.ssl_keyfile,
        keydata=_secret(config.ssl_keydata),
        password=_secret(config.ssl_password),
        check_hostname=config.ssl_check_hostname,
    )
    files = [config.ssl_cafile, config.ssl_capath, config.ssl_certfile, config.ssl_keyfile]
    own = (config.ssl_context, config.ssl_cafile, config.ssl_capath, config.ssl_cadata)
    return TlsFiles(make, files if any(own) else files + trusted_by_default())


def _authenticator(config: ClientConfig) -> Authenticator:
    match config.sasl_mechanism:
        case "PLAIN":
            return Plain(*_username_and_password(config))
        case "SCRAM-SHA-256" | "SCRAM-SHA-512" as mechanism:
            return Scram(
                mechanism,
                *_username_and_password(config),
                delegation_token=config.sasl_delegation_token,
                saslprep=config.sasl_scram_saslprep,
            )
        case "GSSAPI":
            return Gssapi(config.sasl_kerberos_service_name, domain_name=config.sasl_kerberos_domain_name)
        case _:
            return OAuthBearer(_token_source(config), extensions=config.sasl_oauthbearer_extensions)


def _token_source(config: ClientConfig) -> TokenCallback | TokenProvider:
    provider, url = config.sasl_oauth_token_provider, config.sasl_oauthbearer_token_endpoint_url
    if (provider is None) == (url is None):
        raise ConfigurationError(
            "sasl_mechanism=OAUTHBEARER needs one of sasl_oauth_token_provider (a callable, returns a token) "
            "and sasl_oauthbearer_token_endpoint_url (an OpenID provider's token endpoint)"
        )
    if url is None:
        if not callable(provider) and not isinstance(provider, TokenProvider):
            raise ConfigurationError(  # its value may be a token
                "sasl_oauth_token_provider must be a callable, or an object with a method token(), "
                f"not {type(provider).__name__}"
            )
        return provider  # type: ignore[no-any-return]
    client_id, secret = config.sasl_oauthbearer_client_id, _secret(config.sasl_oauthbearer_client_secret)
    if not client_id or secret is None:
        raise ConfigurationError(
            "sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_id and "
            "sasl_oauthbearer_client_secret"
        )
    return ClientCredentials(
        url,
        client_id,
        secret,
        scope=config.sasl_oauthbearer_scope,
        audience=config.sasl_oauthbearer_audience,
        allow_http=config.sasl_oauthbearer_allow_http,
        cafile=config.ssl_cafile,
    )


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
