"""One node of the embedded cluster: its listeners, its connections, and the way of a request through it.

A request is decoded, shown to the hook and to the faults, handled, and its answer encoded. What is not
Kafka's protocol ends the connection; what Kafka would answer with an error is answered with that error.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any

from kclient.broker.api import APIS, Api, RequestContext
from kclient.broker.errors_to_answers import error_answer
from kclient.broker.fetch_sessions import FetchSessions
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.sasl_server import SaslServer
from kclient.broker.session import Session
from kclient.errors import BrokerError, ProtocolError, UnsupportedVersionError
from kclient.wire.api import ApiKey
from kclient.wire.frame import IncomingRequest, decode_request_header, encode_response
from kclient.wire.message import Request, Response
from kclient.wire.messages.connection import (
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

if TYPE_CHECKING:
    from kclient.broker.broker import Broker

log = logging.getLogger(__name__)


class Listener:
    """One port of a node."""

    def __init__(self, node: Node, spec: ListenerSpec) -> None:
        self.spec = spec
        self.port = spec.port
        self.max_request_bytes = node.broker.settings.number("socket.request.max.bytes")
        self.unauthenticated_max_bytes = node.broker.settings.number("sasl.server.max.receive.size")
        self._node = node
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        context: ssl.SSLContext | None = self.spec.ssl_context()
        self._server = await loop.create_server(
            lambda: Session(self._node, self), self.spec.host, self.port, ssl=context
        )
        # Kept over a restart of the node: clients look for it where it was.
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def sasl_server(self) -> SaslServer | None:
        if not self.spec.protocol.startswith("SASL"):
            return None
        return SaslServer(self.spec, self._node.broker.users, self._node.broker.clock)

    def principal(self, transport: asyncio.Transport) -> str:
        return self.spec.principal(transport.get_extra_info("peercert"))


class Node:
    """A broker of the cluster. `running` is False while it is stopped."""

    def __init__(self, broker: Broker, node_id: int, specs: list[ListenerSpec], rack: str | None) -> None:
        self.broker = broker
        self.node_id = node_id
        self.rack = rack
        self.running = False
        self.listeners = {spec.name: Listener(self, spec) for spec in specs}
        self.fetch_sessions = FetchSessions(broker.random)
        self._sessions: set[Session] = set()

    def __repr__(self) -> str:
        state = f"{len(self._sessions)} connections" if self.running else "stopped"
        return f"<Node {self.node_id} {state}>"

    async def start(self) -> None:
        for listener in self.listeners.values():
            await listener.open()
        self.running = True

    async def stop(self) -> None:
        """Close the ports and every connection at once, as a machine that loses power."""
        self.running = False
        self.fetch_sessions = FetchSessions(self.broker.random)
        for session in list(self._sessions):
            session.close()
        for listener in self.listeners.values():
            await listener.close()

    def opened(self, session: Session) -> None:
        self._sessions.add(session)

    def closed(self, session: Session) -> None:
        self._sessions.discard(session)

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
        # Bytes after the message are let pass, as Kafka does: librdkafka's Metadata for all topics has three.
        request, _ = api.request.decode_from(frame, header.body, header.version)
        context = self._context(session, header)
        if session.sasl is not None:
            early = self._login(session, header, request)
            if early is not None:
                return early
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
                return error_answer(request, error, context.version)

        try:
            return await self.broker.faults.around(session, context, request, handle)
        except BrokerError as error:
            return error_answer(request, error, context.version)

    def _login(self, session: Session, header: IncomingRequest, request: Request[Any]) -> bytes | None:
        """Answer the SASL requests; anything else before them ends the connection."""
        sasl = session.sasl
        assert sasl is not None
        response: Response
        if isinstance(request, SaslHandshakeRequest):
            response = sasl.handshake(request, header.version)
        elif isinstance(request, SaslAuthenticateRequest):
            response = sasl.authenticate(request)
            if sasl.authenticated:
                session.authenticated(sasl.principal)
        elif sasl.admits(header.key):
            return None
        else:
            raise ProtocolError(f"{session.client_host} has not authenticated, or its session has run out")
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
