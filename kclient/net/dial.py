"""From an address to a connection that is ready for requests: TCP, TLS, ApiVersions, SASL.

The one place where exceptions of the operating system and of TLS become kclient's. A failure is either
worth another try at once (`KafkaConnectionError`) or not (`AuthenticationError`, `IncompatibleBrokerError`):
a wrong password is reported at once and never looks like a time-out. Nothing of it is kept for the next
connection: a token that was refused is not shown again, and certificates are those of their files by then.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.errors import (
    AuthenticationError,
    ConfigurationError,
    FrameTooLargeError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    ProtocolError,
    UnsupportedSaslMechanismError,
    error_for,
)
from kclient.net.connection import Connection
from kclient.net.sasl import Authenticator, Conversation, Exchange
from kclient.net.tls import explain_tls_failure, may_lack_tls
from kclient.net.tls_files import TlsFiles
from kclient.threads import WAITING
from kclient.wire.api import negotiate
from kclient.wire.messages.connection import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kclient.wire.versions import VersionRange

_UNSUPPORTED_VERSION = 35
# Re-authenticate somewhere in this part of a session's life, so that connections do not all do it at once.
_SESSION_PART = (0.85, 0.95)
# Seconds after which a source of credentials that failed is asked again, as long as the session lasts.
_ASK_AGAIN = 1.0
# Kafka lets a connection authenticate again once a second, and takes that also after the session has ended.
_ONCE_IN = 1.01
# For a port on which TLS fails: what it is asked with, and seconds in which it has to answer.
_NOBODY = ("unknown", "unknown")
_TIME_TO_ANSWER = 1.0
_FIRST_BYTES = {0x15: "TLS: set security_protocol to SSL or SASL_SSL", 0x48: "HTTP: it is not a Kafka broker"}


@dataclass(frozen=True, slots=True)
class DialSettings:
    """What all connections of a client have in common."""

    protocol: str
    client_id: str
    request_timeout: float
    setup_timeout: float
    max_frame: int
    random: Random
    tls: TlsFiles | None = None
    sasl: Authenticator | None = None
    send_buffer: int | None = None
    receive_buffer: int | None = None
    software: tuple[str, str] = ("kclient", "unknown")


async def dial(endpoint: Endpoint, settings: DialSettings, deadline: Deadline) -> Connection:
    """A connection on which requests can be sent."""
    loop = asyncio.get_running_loop()
    deadline = deadline.earlier(loop, settings.setup_timeout)
    try:
        async with asyncio.timeout_at(deadline.at):
            connection = await _connect(loop, endpoint, settings, deadline)
            try:
                await _introduce(connection, endpoint, settings, deadline)
            except BaseException:
                connection.close()
                raise
            return connection
    except KafkaError:
        raise
    except TimeoutError:
        raise KafkaConnectionError(
            f"connecting to {endpoint} did not end within {deadline.seconds:g} s: "
            f"the host is down, a firewall drops its packets, or the port does not speak {settings.protocol}"
        ) from None


async def _connect(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, settings: DialSettings, deadline: Deadline
) -> Connection:
    """Try every address of the name in turn (KIP-302); each gets its share of the time."""
    if not 0 < endpoint.port < 65536:  # as a broker may advertise it; the resolver would cut it to 16 bits
        raise KafkaConnectionError(f"cannot connect to {endpoint}: there is no such port")
    try:
        found = await _resolve(loop, endpoint)
    except (OSError, ValueError) as error:  # ValueError: no name that could be asked for, such as "a..b"
        why = getattr(error, "strerror", None) or error
        raise KafkaConnectionError(f"cannot resolve {endpoint.host!r}: {why}") from error
    addresses = list(dict.fromkeys(address[4][:2] for address in found))
    failure: KafkaError = KafkaConnectionError(f"{endpoint.host!r} resolves to no address")
    for left, (host, port) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            async with asyncio.timeout(deadline.remaining(loop) / left):
                return await _open(loop, endpoint, str(host), int(port), settings)
        except TimeoutError:
            failure = KafkaConnectionError(f"{endpoint} ({host}) did not accept a connection in time")
        except (ssl.SSLError, ConnectionError) as error:
            failure = explain_tls_failure(error, endpoint.host) if settings.tls else _refused(endpoint, error)
            if settings.tls and may_lack_tls(error) and await _lacks_tls(loop, endpoint, str(host), settings):
                failure = _without_tls(endpoint, settings)
                break
        except OSError as error:
            failure = _refused(endpoint, error)
    try:
        raise failure
    finally:
        del failure  # this frame is in its traceback: a cycle


async def _lacks_tls(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, host: str, settings: DialSettings
) -> bool:
    """Whether a broker answers there in plain text. It is asked what it speaks, and told nothing of us."""
    plain = replace(settings, protocol="PLAINTEXT", client_id="", tls=None, sasl=None, software=_NOBODY)
    try:
        async with asyncio.timeout(_TIME_TO_ANSWER):
            connection = await _open(loop, endpoint, host, endpoint.port, plain)
            try:
                return bool(await _ask_versions(connection, plain, Deadline.after(loop, _TIME_TO_ANSWER)))
            finally:
                connection.close()
                await connection.wait_closed()
    except (KafkaError, OSError):  # a time-out too
        return False


def _without_tls(endpoint: Endpoint, settings: DialSettings) -> ConfigurationError:
    other = settings.protocol.replace("SSL", "PLAINTEXT")
    return ConfigurationError(
        f"{endpoint} speaks Kafka without TLS: use the port of its {settings.protocol} listener, "
        f"or set security_protocol to {other}, which encrypts nothing"
    )


async def _resolve(loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> list[Any]:
    """The addresses of a host, as `socket.getaddrinfo` has them."""
    if getattr(type(loop), "getaddrinfo", None) is not asyncio.BaseEventLoop.getaddrinfo:
        return await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    # asyncio's own would wait for its turn among the application's `to_thread` calls.
    ask = partial(socket.getaddrinfo, endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return await loop.run_in_executor(WAITING, ask)


async def _open(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint, host: str, port: int, settings: DialSettings
) -> Connection:
    def make_protocol() -> Connection:
        return Connection(loop, str(endpoint), settings.client_id, settings.max_frame)

    # The name that was asked for is the one the certificate must carry, not the address it resolved to.
    server_hostname = endpoint.host if settings.tls else None
    context = settings.tls.context() if settings.tls else None
    transport, connection = await loop.create_connection(
        make_protocol, host, port, ssl=context, server_hostname=server_hostname
    )
    try:
        _tune(transport, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def _tune(transport: asyncio.BaseTransport, settings: DialSettings) -> None:
    endpoint_socket = transport.get_extra_info("socket")
    if endpoint_socket is None:
        return
    endpoint_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, size in (
        (socket.SO_SNDBUF, settings.send_buffer),
        (socket.SO_RCVBUF, settings.receive_buffer),
    ):
        if size is not None and size >= 0:
            endpoint_socket.setsockopt(socket.SOL_SOCKET, name, size)


def _refused(endpoint: Endpoint, error: OSError) -> KafkaConnectionError:
    # asyncio puts the address, once more, in the place of what the system says.
    why = error.strerror if error.errno is None else os.strerror(error.errno)
    return KafkaConnectionError(f"cannot connect to {endpoint}: {why or error}")


async def _introduce(
    connection: Connection, endpoint: Endpoint, settings: DialSettings, deadline: Deadline
) -> None:
    """Learn what the broker speaks, then say who we are."""
    try:
        connection.versions = await _ask_versions(connection, settings, deadline)
    except KafkaError as error:
        explained = _explain_first_answer(connection, endpoint, settings, error)
        if explained is None:
            raise
        try:
            raise explained from error
        finally:
            del explained  # this frame is in its traceback: a cycle
    if settings.sasl is not None:
        await SaslSession(connection, endpoint.host, settings, settings.sasl).begin(deadline)
    else:
        connection.silence_means = ": its listener may want SASL (check security_protocol)"
    connection.ready()


async def _ask_versions(
    connection: Connection, settings: DialSettings, deadline: Deadline
) -> dict[int, VersionRange]:
    request = ApiVersionsRequest(
        client_software_name=settings.software[0], client_software_version=settings.software[1]
    )
    version = ApiVersionsRequest.versions.last
    response = await connection.call(request, deadline, version=version)
    if response.error_code == _UNSUPPORTED_VERSION:
        # KIP-511: the answer, in version 0, says which versions would do; brokers before 2.4 say nothing.
        offered = _ranges(response).get(ApiVersionsRequest.api_key, VersionRange(0, 0))
        version = negotiate(ApiVersionsRequest.api_key, ApiVersionsRequest.versions, offered)
        response = await connection.call(request, deadline, version=version)
    error = error_for(response.error_code)
    if error is not None:
        raise error
    return _ranges(response)


def _ranges(response: ApiVersionsResponse) -> dict[int, VersionRange]:
    return {api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys}


def _explain_first_answer(
    connection: Connection, endpoint: Endpoint, settings: DialSettings, error: KafkaError
) -> KafkaError | None:
    """Say what a port that does not speak Kafka, or not in this way, is likely to be."""
    cause = connection.error
    # Under TLS 1.3 a broker refuses a client's certificate after the handshake, in place of an answer.
    alert = None if cause is None else cause.__cause__
    if isinstance(alert, ssl.SSLError):
        return explain_tls_failure(alert, endpoint.host)
    if isinstance(cause, FrameTooLargeError):
        speaks = _FIRST_BYTES.get(cause.size >> 24, "something other than Kafka")
        return ConfigurationError(f"{connection.name} speaks {speaks}")
    if isinstance(cause, ProtocolError):
        return KafkaConnectionError(
            f"{connection.name} does not answer as a Kafka broker does ({cause}): check host and port"
        )
    if connection.closed and settings.tls is None:
        return KafkaConnectionError(
            f"{error}, before it said anything: it may be shutting down, or its listener may not speak "
            f"{settings.protocol} (check security_protocol)"
        )
    return None


class SaslSession:
    """Authenticates a connection, and again before the session that the broker grants runs out (KIP-368)."""

    def __init__(
        self, connection: Connection, host: str, settings: DialSettings, authenticator: Authenticator
    ) -> None:
        self._connection = connection
        self._host = host
        self._settings = settings
        self._authenticator = authenticator
        self._loop = asyncio.get_running_loop()
        self._ends = 0.0
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None
        connection.on_close(self._end)

    async def begin(self, deadline: Deadline) -> None:
        """Authenticate now; renewal is arranged if the session has an end."""
        exchange = await self._authenticator.exchange(self._host)
        await self._authenticate(exchange, deadline)

    async def _renew(self) -> None:
        """Authenticate again on the live connection.

        The token is fetched before the gate closes, so requests wait for the exchange only. What is in
        flight needs no draining: the broker works in order, so it has answered all of it before it reads
        the handshake. A session that ends before its turn has come closes the gate earlier: behind its end
        the broker would hang up on any other request.
        """
        gates = 0
        try:
            wait = self._not_before - self._loop.time()
            if wait > 0:
                self._connection.hold()
                gates += 1
                await asyncio.sleep(wait)
            exchange = await self._fresh_exchange()
            deadline = Deadline.after(self._loop, self._settings.request_timeout)
            self._connection.hold()
            gates += 1
            await self._authenticate(exchange, deadline)
            self._not_before = self._loop.time() + _ONCE_IN
        except IllegalSaslStateError as error:  # it says nothing of our credentials
            lost = KafkaConnectionError(f"{self._connection.name} did not let this client log in again")
            lost.__cause__ = error
            self._connection.close(lost)
        except KafkaError as error:
            self._connection.close(error)
        finally:  # after closing, so that what was held is not sent
            for _ in range(gates):
                self._connection.release()

    async def _fresh_exchange(self) -> Exchange:
        """New credentials. Until the session ends the old ones do: a source that fails may work by then."""
        while True:
            try:
                return await self._next_exchange()
            except KafkaError:
                if self._loop.time() + 2 * _ASK_AGAIN > self._ends:
                    raise
            await asyncio.sleep(_ASK_AGAIN)

    async def _next_exchange(self) -> Exchange:
        deadline = Deadline.after(self._loop, self._settings.request_timeout)
        try:
            async with asyncio.timeout_at(deadline.at):
                return await self._authenticator.exchange(self._host)
        except TimeoutError:
            raise KafkaConnectionError(
                f"no fresh credentials for {self._connection.name} within {deadline.seconds:g} s"
            ) from None

    async def _authenticate(self, exchange: Exchange, deadline: Deadline) -> None:
        await self._handshake(deadline)
        version = self._connection.version_for(SaslAuthenticateRequest)
        conversation = Conversation(exchange)
        request = _saying(conversation.start())
        lifetime_ms = 0
        while request is not None:
            response = await self._connection.call(request, deadline, version=version, past_gate=True)
            error = error_for(response.error_code, response.error_message)
            if error is not None:
                raise conversation.refused(error)
            lifetime_ms = response.session_lifetime_ms
            request = _saying(conversation.answer(response.auth_bytes))
        if lifetime_ms > 0:
            self._ends = self._loop.time() + lifetime_ms / 1000
            part = self._settings.random.uniform(*_SESSION_PART)
            self._timer = self._loop.call_later(lifetime_ms / 1000 * part, self._start_renewal)

    async def _handshake(self, deadline: Deadline) -> None:
        mechanism = self._authenticator.mechanism
        version = self._connection.version_for(SaslHandshakeRequest)
        request = SaslHandshakeRequest(mechanism=mechanism)
        response = await self._connection.call(request, deadline, version=version, past_gate=True)
        error = error_for(response.error_code)
        if isinstance(error, UnsupportedSaslMechanismError):
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationError(
                f"{self._connection.name} does not accept SASL mechanism {mechanism}; it offers: {offered}"
            ) from error
        if error is not None:
            raise error

    def _start_renewal(self) -> None:
        self._renewal = self._loop.create_task(self._renew(), name=f"re-authenticate {self._connection.name}")
        self._renewal.add_done_callback(self._renewed)

    def _renewed(self, renewal: asyncio.Task[None]) -> None:
        """A connection whose renewal ended unexpectedly is replaced by the next one who needs it."""
        error = None if renewal.cancelled() else renewal.exception()
        if error is not None or renewal.cancelled():
            lost = KafkaConnectionError(
                f"re-authenticating with {self._connection.name} was cut short: {error!r}"
            )
            lost.__cause__ = error
            self._connection.close(lost)  # does nothing where it is what ended the renewal

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None:
            self._renewal.cancel()


def _saying(message: bytes | None) -> SaslAuthenticateRequest | None:
    """A message as a request, whose repr hides it: error reports show the variables of frames."""
    return None if message is None else SaslAuthenticateRequest(auth_bytes=message)
