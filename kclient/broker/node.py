"""One node of the embedded cluster: its listeners, its connections, and the way of a request through it.

A request is decoded, shown to the hook and to the faults, handled, and its answer encoded. What is not
Kafka's protocol ends the connection; what Kafka would answer with an error is answered with that error.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from typing import TYPE_CHECKING, Any

from kclient.broker.api import APIS, Api, RequestContext
from kclient.broker.errors_to_answers import error_answer
from kclient.broker.fetch_sessions import FetchSessions
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.sasl_server import SaslServer
from kclient.broker.session import Session
from kclient.errors import (
    BrokerError,
    ConfigurationError,
    KafkaStorageError,
    ProtocolError,
    UnsupportedVersionError,
)
from kclient.wire.api import ApiKey
from kclient.wire.frame import IncomingRequest, decode_request_header, encode_response
from kclient.wire.message import Request, Response
from kclient.wire.messages.connection import (
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kclient.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from kclient.broker.broker import Broker

log: logging.Logger = logging.getLogger(__name__)

# asyncio takes one number for two things. Those that wait to be accepted may be many: one that is sent away
# tries again after a second. Those accepted in one go are few: where descriptors are short, asyncio complains
# about each of them before it pauses.
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 8
_ADDRESS = re.compile(r"(\w+)://(\[[^\]]+\]|[^\[\]:/]+):(\d{1,5})")
_SASL = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class Listener:
    """One port of a node."""

    def __init__(self, node: Node, spec: ListenerSpec) -> None:
        self.spec = spec
        self.port: int = spec.port
        self._advertised = _advertised(node, spec)
        self.max_request_bytes: int = node.broker.settings.number("socket.request.max.bytes")
        self.unauthenticated_max_bytes: int = node.broker.settings.number("sasl.server.max.receive.size")
        self._node = node
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Listener {self.spec.name} on port {self.port}>"

    @property
    def host(self) -> str:
        """Where clients are told to connect to."""
        return self._advertised[0] if self._advertised else self.spec.host

    @property
    def advertised_port(self) -> int:
        """The port that clients are told."""
        return self._advertised[1] if self._advertised else self.port

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        context: ssl.SSLContext | None = self.spec.ssl_context()
        self._server = await loop.create_server(
            lambda: Session(self._node, self),
            self.spec.host,
            self.port,
            ssl=context,
            backlog=_ACCEPTED_AT_ONCE,
        )
        for shown in self._server.sockets:
            if hasattr(shown, "dup"):  # not in a simulation
                with shown.dup() as real:
                    real.listen(_BACKLOG)
        # Kept over a restart of the node: clients look for it where it was.
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Accept nobody any more. Not awaited: that would be for clients in the middle of a TLS handshake."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def sasl_server(self) -> SaslServer | None:
        if not self.spec.protocol.startswith("SASL"):
            return None
        broker = self._node.broker
        return SaslServer(self.spec, broker.users, broker.clock, max_message=self.unauthenticated_max_bytes)

    def principal(self, transport: asyncio.Transport) -> str:
        return self.spec.principal(transport.get_extra_info("peercert"))


def _advertised(node: Node, spec: ListenerSpec) -> tuple[str, int] | None:
    """What `advertised.listeners` says of a listener. Its ports are the first node's; others follow."""
    for text in filter(None, node.broker.settings["advertised.listeners"].split(",")):
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise ConfigurationError(
                f"advertised.listeners has {text!r}: write PLAINTEXT://host:port, several with commas"
            )
        name, host, port = match.groups()
        if name == spec.name:
            return host.strip("[]"), int(port) + node.node_id - 1
    return None


class Node:
    """A broker of the cluster. `running` is False while it is stopped."""

    def __init__(self, broker: Broker, node_id: int, specs: list[ListenerSpec], rack: str | None) -> None:
        self.broker = broker
        self.node_id = node_id
        self.rack = rack
        self.running: bool = False
        self.listeners: dict[str, Listener] = {spec.name: Listener(self, spec) for spec in specs}
        self.fetch_sessions: FetchSessions = FetchSessions(broker.random)
        # In the order of their last activity.
        self._sessions: dict[Session, None] = {}
        self._max_idle = broker.settings.number("connections.max.idle.ms") / 1000
        self._reaper: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        state = f"{len(self._sessions)} connections" if self.running else "stopped"
        return f"<Node {self.node_id} {state}>"

    async def start(self) -> None:
        """Open all ports, or none."""
        self.running = True
        try:
            for listener in self.listeners.values():
                await listener.open()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close the ports and every connection at once, as a machine that loses power."""
        self.running = False
        self.fetch_sessions = FetchSessions(self.broker.random)
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        for listener in self.listeners.values():
            listener.close()
        for session in list(self._sessions):
            session.close()

    def opened(self, session: Session) -> None:
        if not self.running:  # it was accepted, or shook hands for TLS, while the ports were closed
            session.close()
        self._sessions[session] = None
        self.touched(session)
        if self._reaper is None and self._max_idle >= 0:
            self._reap_in(self._max_idle)

    def touched(self, session: Session) -> None:
        """A session did something: it is the last to be closed for idleness."""
        session.active_at = asyncio.get_running_loop().time()
        if session in self._sessions:
            del self._sessions[session]
            self._sessions[session] = None

    def closed(self, session: Session) -> None:
        self._sessions.pop(session, None)

    def _reap_in(self, seconds: float) -> None:
        self._reaper = asyncio.get_running_loop().call_later(seconds, self._reap)

    def _reap(self) -> None:
        """Close connections that have been idle for too long; a request that takes its time is not idle."""
        self._reaper = None
        now = asyncio.get_running_loop().time()
        for session in list(self._sessions):
            left = session.active_at + self._max_idle - now
            if left > 0:
                self._reap_in(left)
                return
            if session.busy or session.silent:
                self.touched(session)
            else:
                log.debug("node %d closes %r, which is idle", self.node_id, session)
                session.close_idle()
                self.closed(session)
        if self._sessions:
            self._reap_in(self._max_idle)

    def broken(self, error: BaseException | None) -> None:
        """A handler failed in a way that is our fault; the client only sees its connection end."""
        log.error("node %d: a request could not be handled", self.node_id, exc_info=error)

    def refused(self, session: Session, error: ProtocolError) -> None:
        """A client did not speak Kafka's protocol, or not as it is spoken here, and loses its connection."""
        log.info("node %d ends the connection of %s: %s", self.node_id, session.client_host, error)

    async def answer(self, session: Session, frame: bytes | memoryview) -> bytes | None:
        """The whole way of one request; None where nothing is to be sent."""
        if session.sasl is not None and session.sasl.raw_tokens:
            return self._raw_login(session, session.sasl, bytes(frame))
        header = decode_request_header(frame)
        api = APIS.get(header.key)
        if api is None:
            raise ProtocolError(f"API {header.key} is not spoken here")
        if header.version not in api.versions:
            return _refuse_version(header)
        if session.sasl is not None and header.key not in _SASL and not session.sasl.admits(header.key):
            raise ProtocolError(f"{session.client_host} has not authenticated, or its session has run out")
        # Bytes after the message are let pass, as Kafka does: librdkafka's Metadata for all topics has three.
        request, _ = api.request.decode_from(frame, header.body, header.version)
        context = self._context(session, header)
        if session.sasl is not None and header.key in _SASL:
            return self._login(session, session.sasl, header, request)
        response = await self._respond(session, context, api, request)
        return None if response is None else encode_response(response, header.version, header.correlation_id)

    def _context(self, session: Session, header: IncomingRequest) -> RequestContext:
        return RequestContext(
            broker=self.broker,
            node=self,
            version=header.version,
            client_id=header.client_id or "",
            client_host=f"/{session.client_host}",
            principal=session.principal,
            listener=session.listener.spec.name,
        )

    async def _respond(
        self, session: Session, context: RequestContext, api: Api, request: Request[Any]
    ) -> Response | None:
        async def handle() -> Response | None:
            try:
                return await api.handler(context, request)
            except BrokerError as error:
                if isinstance(error, KafkaStorageError):
                    self.broker.disk.refused(error)
                return _error_answer(request, error, context.version)

        try:
            return await self.broker.faults.around(session, context, request, handle)
        except BrokerError as error:
            return _error_answer(request, error, context.version)

    def _login(
        self, session: Session, sasl: SaslServer, header: IncomingRequest, request: Request[Any]
    ) -> bytes | None:
        """Answer the SASL requests."""
        response: Response
        if isinstance(request, SaslHandshakeRequest):
            response = sasl.handshake(request, header.version)
        else:
            assert isinstance(request, SaslAuthenticateRequest)
            response = sasl.authenticate(request)
            if sasl.authenticated:
                session.authenticated(sasl.principal)
        answer = encode_response(response, header.version, header.correlation_id)
        return self._end_failed(session, sasl, answer)

    def _raw_login(self, session: Session, sasl: SaslServer, token: bytes) -> bytes | None:
        """Frames that hold nothing but a token, as clients send them after SaslHandshake v0."""
        reply = sasl.raw(token)
        if sasl.authenticated:
            session.authenticated(sasl.principal)
        answer = None if reply is None else len(reply).to_bytes(4) + reply
        return self._end_failed(session, sasl, answer)

    def _end_failed(self, session: Session, sasl: SaslServer, answer: bytes | None) -> bytes | None:
        if sasl.failed:
            session.write(answer or b"")
            session.close_after_writing()
            raise ProtocolError(f"{session.client_host} failed to authenticate")
        return answer


def _error_answer(request: Request[Any], error: BrokerError, version: int) -> Response:
    """The answer that says so, to those who wait for one; the others lose their connection."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        raise ProtocolError(f"records that nobody waits for could not be written: {error}")
    return error_answer(request, error, version)


def _refuse_version(header: IncomingRequest) -> bytes:
    """ApiVersions says in version 0 what it would have understood (KIP-511); else the connection ends."""
    if header.key != ApiKey.API_VERSIONS:
        raise ProtocolError(f"{ApiKey(header.key).name} v{header.version} is not spoken here")
    spoken = APIS[ApiKey.API_VERSIONS].versions
    item = ApiVersionsResponse.ApiVersion(
        api_key=ApiKey.API_VERSIONS, min_version=spoken.first, max_version=spoken.last
    )
    response = ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=[item])
    return encode_response(response, 0, header.correlation_id)
