"""SASL GSSAPI (RFC 4752): Kerberos, through the `gssapi` package, which is imported on first use.

The ticket for the broker comes from the KDC over the network, by a call that blocks: it is made on a thread
before the exchange begins. What follows is computation.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Protocol, TypeAlias

from kclient.config import shown_half_made
from kclient.errors import AuthenticationError, ConfigurationError, KafkaConnectionError
from kclient.net.sasl.exchange import Exchange, shown
from kclient.threads import WAITING

_NO_SECURITY_LAYER = 1
_MAX_STEPS = 8  # Kerberos needs one or two
_KDC_UNREACHABLE = -1765328228 & 0xFFFFFFFF
_NO_SUCH_SERVICE = -1765328377 & 0xFFFFFFFF


class Wrapped(Protocol):
    """What `gssapi` returns from wrapping and unwrapping."""

    @property
    def message(self) -> bytes: ...


class SecurityContext(Protocol):
    """The part of `gssapi.SecurityContext` that an exchange needs."""

    @property
    def complete(self) -> bool: ...
    def step(self, token: bytes | None = None) -> bytes | None: ...
    def wrap(self, message: bytes, encrypt: bool) -> Wrapped: ...
    def unwrap(self, message: bytes) -> Wrapped: ...


OpenContext: TypeAlias = Callable[[str, str], SecurityContext]


class Gssapi:
    """Authenticates with the Kerberos credentials of this process: a ticket cache or a client keytab.

    Brokers are the principals `service_name/host`; `domain_name` stands in for the host where all brokers
    share one principal. `authzid` asks to act as somebody else.
    """

    mechanism = "GSSAPI"

    def __init__(
        self,
        service_name: str = "kafka",
        *,
        domain_name: str | None = None,
        authzid: str = "",
        open_context: OpenContext | None = None,
    ) -> None:
        self._service_name = service_name
        self._domain_name = domain_name
        self._authzid = authzid
        self._open_context = open_context or _kerberos()

    @shown_half_made
    def __repr__(self) -> str:
        return f"<Gssapi {self._service_name}@{self._domain_name or '*'}>"

    async def exchange(self, host: str, /) -> Exchange:
        host = self._domain_name or host
        try:
            context, first = await asyncio.get_running_loop().run_in_executor(WAITING, self._begin, host)
        except Exception as error:
            code = getattr(error, "min_code", None)
            if code == _KDC_UNREACHABLE:
                raise KafkaConnectionError(f"Kerberos: {shown(str(error))}") from error
            advice = (
                "the broker's principal is made of sasl_kerberos_service_name and its host, "
                "or sasl_kerberos_domain_name"
                if code == _NO_SUCH_SERVICE
                else "run kinit, or name a keytab in the environment variable KRB5_CLIENT_KTNAME"
            )
            raise _failed(f"no ticket for {self._service_name}/{host} ({advice})", error) from error
        return self._exchange(context, first)

    def _begin(self, host: str) -> tuple[SecurityContext, bytes]:
        context = self._open_context(self._service_name, host)
        return context, context.step() or b""

    def _exchange(self, context: SecurityContext, message: bytes) -> Exchange:
        answer = yield message
        for _ in range(_MAX_STEPS):
            if context.complete:
                break
            answer = yield _step(context, answer)
        else:
            raise AuthenticationError(f"Kerberos: broker and client do not agree after {_MAX_STEPS} messages")
        yield self._choose_layer(context, answer)

    def _choose_layer(self, context: SecurityContext, offer: bytes) -> bytes:
        """Decline protection of what follows, and so any size of it: that is the business of TLS."""
        try:
            offered = context.unwrap(offer).message
        except Exception as error:
            raise _failed("the broker's offer of security layers is not genuine", error) from error
        if len(offered) != 4:
            raise AuthenticationError(
                f"the broker's offer of security layers has {len(offered)} bytes, not 4"
            )
        if not offered[0] & _NO_SECURITY_LAYER:
            raise AuthenticationError(
                "the broker insists on a GSSAPI security layer; Kafka uses none: use TLS"
            )
        choice = bytes((_NO_SECURITY_LAYER, 0, 0, 0)) + self._authzid.encode()
        try:
            return context.wrap(choice, False).message
        except Exception as error:
            raise _failed("the choice of security layer cannot be signed", error) from error


def _step(context: SecurityContext, answer: bytes) -> bytes:
    try:
        return context.step(answer) or b""
    except Exception as error:
        raise _failed("the broker's answer is not acceptable", error) from error


def _failed(what: str, error: Exception) -> AuthenticationError:
    return AuthenticationError(f"Kerberos: {what}: {shown(str(error))}")


def _kerberos() -> OpenContext:
    try:
        gssapi = importlib.import_module("gssapi")  # an extra: most users have no Kerberos
    except (ImportError, OSError) as error:  # OSError: the package is there, the Kerberos library is not
        raise ConfigurationError(
            "sasl_mechanism=GSSAPI needs the Python package gssapi and the Kerberos library: "
            "pip install 'kclient-kafka[gssapi]'"
        ) from error

    def open_context(service_name: str, host: str) -> SecurityContext:
        name = gssapi.Name(f"{service_name}@{host}", gssapi.NameType.hostbased_service)
        flags = (
            gssapi.RequirementFlag.mutual_authentication
            | gssapi.RequirementFlag.integrity
            | gssapi.RequirementFlag.out_of_sequence_detection
        )
        context: SecurityContext = gssapi.SecurityContext(
            name=name, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags
        )
        return context

    return open_context
