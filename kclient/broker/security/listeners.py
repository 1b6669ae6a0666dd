"""What a listener of the embedded broker demands of clients: TLS, SASL, both or nothing; checked at once.

No sockets here: `node` opens the port and asks a spec for its TLS context and for the name of a peer.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from kclient.broker.security.principals import principal_of
from kclient.broker.security.tokens import TokenVerifier
from kclient.errors import ConfigurationError
from kclient.types import Secret

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
ClientAuth = Literal["none", "required"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CERTIFICATE_REFUSED = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class _Outspoken(ssl.SSLObject):
    """Lets a client whose certificate is refused hear so.

    OpenSSL has the alert ready when the handshake fails, but asyncio ends the connection without sending it.
    It does send what is ready when more is to be read, so that is what it hears first. It hears of the
    failure when the client goes on; one that hangs up, or does nothing for a minute, is gone anyway.
    """

    _refusal: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            if error.reason not in _CERTIFICATE_REFUSED:
                raise
            self._refusal = error
            raise ssl.SSLWantReadError from error


@dataclass(frozen=True)
class ListenerSpec:
    """One listener; `repr` hides its passwords.

    >>> ListenerSpec("SASL", "SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"alice": Secret("hers")}).users
    mappingproxy({'alice': <hidden>})

    | option | what it is |
    |---|---|
    | `certfile`, `keyfile`, `password` | the broker's chain and key in PEM, and what opens the key |
    | `cafile`, `client_auth` | which authorities sign clients' certificates, and whether clients need one |
    | `users` | passwords for PLAIN; SCRAM credentials are derived from them once (`UserStore.seed`) |
    | `oauth` | decides about OAUTHBEARER tokens; there is no default |
    | `max_reauth_ms` | after this long a client has to authenticate again (KIP-368); None or 0: never |
    """

    name: str
    protocol: Protocol
    host: str = "127.0.0.1"
    port: int = 0
    certfile: str | Path | None = None
    keyfile: str | Path | None = None
    password: Secret | None = None
    cafile: str | Path | None = None
    client_auth: ClientAuth = "none"
    mechanisms: tuple[str, ...] = ()
    users: Mapping[str, Secret] = field(default_factory=dict, hash=False)
    oauth: TokenVerifier | None = None
    max_reauth_ms: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        object.__setattr__(self, "users", MappingProxyType(dict(self.users)))
        for problem in (*self._basic_problems(), *self._tls_problems(), *self._sasl_problems()):
            raise ConfigurationError(f"listener {self.name!r}: {problem}")

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def ssl_context(self) -> ssl.SSLContext | None:
        """The server's side of TLS, at least 1.2; None where the protocol has none. Reads the files."""
        if not self.uses_tls:
            return None
        for path in (self.certfile, self.keyfile, self.cafile):
            if path is not None and not Path(path).is_file():
                raise ConfigurationError(f"listener {self.name!r}: there is no file {str(path)!r}")
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.cafile)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"listener {self.name!r}: {str(self.cafile)!r} has no certificate that can be read"
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslobject_class = _Outspoken
        if self.client_auth == "required":
            context.verify_mode = ssl.CERT_REQUIRED
        self._present(context)
        return context

    def principal(self, certificate: Mapping[str, Any] | None) -> str:
        """Who a client is by its certificate (`getpeercert()`), before it says more."""
        return principal_of(certificate)

    def _present(self, context: ssl.SSLContext) -> None:
        assert self.certfile is not None
        try:
            # A function also where there is no password: OpenSSL would ask for one on the terminal and wait.
            context.load_cert_chain(self.certfile, self.keyfile, self._reveal)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"listener {self.name!r}: certificate {str(self.certfile)!r} and its key cannot be read, "
                "do not belong together, or the password does not open the key"
            ) from error

    def _reveal(self) -> str:
        return "" if self.password is None else self.password.reveal()

    def _basic_problems(self) -> Iterator[str]:
        if self.protocol not in PROTOCOLS:
            yield f"{self.protocol!r} is no protocol: use one of {', '.join(PROTOCOLS)}"
        if not self.name:
            yield "a listener needs a name"
        if not 0 <= self.port <= 65535:
            yield f"port {self.port} is not from 0 (any free one) to 65535"

    def _tls_problems(self) -> Iterator[str]:
        given = [
            name for name in ("certfile", "keyfile", "password", "cafile") if getattr(self, name) is not None
        ]
        if self.client_auth not in ("none", "required"):
            yield f"client_auth={self.client_auth!r} must be none or required"
        if not self.uses_tls and (given or self.client_auth != "none"):
            yield f"{', '.join(given) or 'client_auth'} is of no use without TLS: use SSL or SASL_SSL"
        if self.uses_tls and self.certfile is None:
            yield "TLS needs a certificate: give certfile, and keyfile if the key is in another file"
        if self.client_auth == "required" and self.cafile is None:
            yield "client_auth='required' needs cafile: the authorities that sign clients' certificates"

    def _sasl_problems(self) -> Iterator[str]:
        unknown = [name for name in self.mechanisms if name not in MECHANISMS]
        if unknown:
            yield f"{unknown[0]!r} is no SASL mechanism: use {', '.join(MECHANISMS)}"
        if self.uses_sasl != bool(self.mechanisms):
            yield "mechanisms belong to SASL_PLAINTEXT and SASL_SSL, which need at least one"
        if not self.uses_sasl and (self.users or self.oauth or self.max_reauth_ms):
            yield "users, oauth and max_reauth_ms are of no use without SASL"
        if ("OAUTHBEARER" in self.mechanisms) != (self.oauth is not None):
            yield (
                "OAUTHBEARER and oauth need each other: JwksVerifier verifies tokens, "
                "UnsecuredTokens is for tests; without one, no token could be told from another"
            )
        if self.max_reauth_ms is not None and self.max_reauth_ms < 0:
            yield f"max_reauth_ms={self.max_reauth_ms} is below 0, which means never"
        if not all(isinstance(password, Secret) for password in self.users.values()):
            yield "passwords are given as Secret"
