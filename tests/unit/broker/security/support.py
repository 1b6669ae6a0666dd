"""Short ways to a SASL server, and logins of kclient's own client halves with it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

from kclient.broker.security import ListenerSpec, SaslServer, UnsecuredTokens, UserStore
from kclient.net.sasl import Authenticator, Conversation, Scram
from kclient.types import Secret
from kclient.wire.messages.connection import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

USERS = {"alice": Secret("alice-secret"), "bob": Secret("bob-secret")}
ALICE = b"\0alice\0alice-secret"
SCRAMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS = ("PLAIN", *SCRAMS, "OAUTHBEARER")
NOW = 1_700_000_000.0


class FakeClock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def wall(self) -> float:
        return self.now


class Peer:
    """A connection's server half, with the requests a client would send to it."""

    def __init__(self, spec: ListenerSpec, users: UserStore | None = None, **options: Any) -> None:
        self.clock = options.pop("clock", None) or FakeClock()
        self.users = users or UserStore()
        self.server = SaslServer(spec, self.users, self.clock, **options)

    def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        return self.server.handshake(SaslHandshakeRequest(mechanism=mechanism), version)

    def send(self, message: bytes) -> SaslAuthenticateResponse:
        return self.server.authenticate(SaslAuthenticateRequest(auth_bytes=message))

    def begin(self, mechanism: str, message: bytes) -> SaslAuthenticateResponse:
        assert self.handshake(mechanism).error_code == 0
        return self.send(message)

    def log_in(self, client: Authenticator) -> SaslAuthenticateResponse:
        """The whole exchange with a client half of kclient; the last answer."""
        talk = Conversation(asyncio.run(client.exchange("broker")))
        answer = self.begin(client.mechanism, talk.start())
        while answer.error_code == 0:
            message = talk.answer(bytes(answer.auth_bytes))
            if message is None:
                return answer
            answer = self.send(message)
        talk.close()
        return answer


def peer(*mechanisms: str, store: UserStore | None = None, **options: Any) -> Peer:
    """A connection to a listener with alice, bob and these mechanisms, or all."""
    clock = FakeClock()
    offered = mechanisms or MECHANISMS
    if "OAUTHBEARER" in offered:
        options.setdefault("oauth", UnsecuredTokens(i_know_these_are_not_verified=True, clock=clock))
    extra = {"new_nonce": options.pop("new_nonce")} if "new_nonce" in options else {}
    options.setdefault("users", USERS)
    spec = ListenerSpec("SASL", "SASL_PLAINTEXT", mechanisms=offered, **options)
    return Peer(spec, store, clock=clock, **extra)


def scram(
    mechanism: str = "SCRAM-SHA-256", user: str = "alice", password: str | None = None, **more: Any
) -> Scram:
    return Scram(mechanism, user, Secret(password or f"{user}-secret"), **more)


def generic(mechanism: str, what: str = "authentication") -> str:
    """What Kafka says where the reason is nobody's business."""
    return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {mechanism}"


def encoded(content: Mapping[str, object] | bytes | str) -> str:
    """A part of a token."""
    if isinstance(content, Mapping):
        content = json.dumps(content)
    data = content.encode() if isinstance(content, str) else content
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsecured(subject: str = "alice", lifetime: float = 100, **claims: object) -> str:
    """A token that nobody signed."""
    return f"{encoded({'alg': 'none'})}.{encoded({'sub': subject, 'exp': NOW + lifetime, **claims})}."


def bearer(token: str, greeting: str = "n,,", **extensions: str) -> bytes:
    """The first message of OAUTHBEARER."""
    pairs = {"auth": f"Bearer {token}", **extensions}
    return "\x01".join([greeting, *(f"{name}={value}" for name, value in pairs.items()), "", ""]).encode()
