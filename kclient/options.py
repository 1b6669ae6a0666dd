"""The options of every client as type checkers know them, for the keyword arguments of constructors.

What an option means, and what it may be, is said in `config`; a test holds names and types to be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os
    import ssl

    from kclient.types import Secret


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of every client, for `**options: Unpack[ClientOptions]`."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_cafile: str | os.PathLike[str] | None
    ssl_capath: str | os.PathLike[str] | None
    ssl_cadata: str | None
    ssl_certfile: str | os.PathLike[str] | None
    ssl_certdata: str | None
    ssl_keyfile: str | os.PathLike[str] | None
    ssl_keydata: str | Secret | None
    ssl_password: str | Secret | None
    ssl_check_hostname: bool
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | Secret | None
    sasl_delegation_token: bool
    sasl_scram_saslprep: bool
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: Any
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_id: str | None
    sasl_oauthbearer_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_audience: str | None
    sasl_oauthbearer_extensions: Mapping[str, str] | None
    sasl_oauthbearer_allow_http: bool
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    receive_message_max_bytes: int
