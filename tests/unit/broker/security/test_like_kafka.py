"""The same logins with a real broker and with ours give the same answers, word for word.

What differs on purpose is in the docstring of `sasl_server` and not among these logins.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Protocol, TypeAlias

import pytest

from kclient.broker.security import (
    JwksVerifier,
    ListenerSpec,
    SaslServer,
    TokenVerifier,
    UnsecuredTokens,
    UserStore,
)
from kclient.clock import SystemClock
from kclient.types import Secret
from kclient.wire.frame import decode_response, encode_request
from kclient.wire.message import Request
from kclient.wire.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.unit.broker.security.support import ALICE, bearer
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import StartCluster
from tools.kafka.oidc import AUDIENCE, TokenIssuer, unsecured_token
from tools.kafka.security import MECHANISMS, REAUTHENTICATION_MS, USERS, Security

pytestmark = pytest.mark.kafka

CLOSED = "closed"
FIRST = b"n,,n=alice,r=abc"
Step: TypeAlias = str | bytes  # a mechanism for SaslHandshake, or a message for SaslAuthenticate


class Side(Protocol):
    def take(self, step: Step, /) -> Any: ...


class Ours:
    def __init__(self, spec: ListenerSpec, users: UserStore) -> None:
        self._server = SaslServer(spec, users, SystemClock())

    def take(self, step: Step, /) -> Any:
        if self._server.failed:
            return CLOSED
        if isinstance(step, str):
            return self._server.handshake(SaslHandshakeRequest(mechanism=step))
        return self._server.authenticate(SaslAuthenticateRequest(auth_bytes=step))


class Theirs:
    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)

    def take(self, step: Step, /) -> Any:
        request: Request[Any]
        if isinstance(step, str):
            request, version = SaslHandshakeRequest(mechanism=step), 1
        else:
            request, version = SaslAuthenticateRequest(auth_bytes=step), 2
        try:
            self.socket.sendall(encode_request(request, version, 1, "test"))
            frame = self._read(*struct.unpack(">i", self._read(4)))
            kind: Any = type(request)
            return decode_response(frame, kind, version)
        except (EOFError, ConnectionError):
            return CLOSED

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def _told(answer: Any) -> object:
    """An answer without what chance and the clock put into it."""
    if answer == CLOSED:
        return CLOSED
    if hasattr(answer, "mechanisms"):
        return answer.error_code, list(answer.mechanisms)
    said = bytes(answer.auth_bytes)
    if said.startswith(b"r="):
        nonce, salt, iterations = said.split(b",")
        said = b"%b %d %b" % (nonce[:5], len(salt) // 8, iterations)
    lifetime = answer.session_lifetime_ms
    return (
        answer.error_code,
        answer.error_message,
        said,
        lifetime if lifetime < 10_000 else round(lifetime, -5),
    )


def _each(mechanism: str, messages: list[bytes], *then: Step) -> list[list[Step]]:
    return [[mechanism, message, *then] for message in messages]


def _logins(issuer: TokenIssuer) -> dict[str, list[list[Step]]]:
    plain = [
        *(ALICE, b"alice" + ALICE, b"bob" + ALICE, b"bob\0alice\0wrong", b"\0alice\0wrong", b"\0mallory\0x"),
        *(b"\0\0x", b"\0alice\0", b"", b"garbage", ALICE + b"\0more", b"\0" * 1000, b"\xff\0alice\0x"),
    ]
    first = [
        *(FIRST, b"n,a=alice,n=alice,r=abc", b"n,a=bob,n=alice,r=abc", FIRST + b",foo=bar", b"garbage", b""),
        *(b"y,,n=alice,r=abc", b"p=x,,n=alice,r=abc", b"n,,n=alice", b"n,,n=a=lice,r=abc"),
        "n,,n=jürgen,r=abc".encode(),
    ]
    token = unsecured_token("alice")
    tokens = [
        *(bearer(token), bearer(token, "n,a=alice,", foo="bar"), bearer(token, "n,a=bob,"), bearer("a.b.c")),
        *(bearer(unsecured_token("alice", lifetime=-60)), bearer("!!"), bearer(issuer.token("alice"))),
        *(bearer(token, **{"f-1": "x"}), b"", b"\x01", b"n,,\x01\x01", b"garbage"),
    ]
    signed = [
        *(bearer(issuer.token("alice")), bearer(issuer.token("alice", audience="other")), bearer(token)),
        *(bearer(issuer.token("alice", lifetime=-60)), bearer(TokenIssuer().token("alice"))),
    ]
    return {
        "SASL_PLAINTEXT": [
            ["NONE", ALICE],
            ["PLAIN", "PLAIN", ALICE],
            *_each("PLAIN", plain, ALICE, "PLAIN"),
            *_each("SCRAM-SHA-256", first),
            ["SCRAM-SHA-512", FIRST, b"c=biws,r=zzz,p=AAAA", FIRST],
            *_each("OAUTHBEARER", tokens, b"\x01", b"\x01"),
        ],
        "OIDC": [["PLAIN"], *_each("OAUTHBEARER", signed, b"\x01")],
        "REAUTH": [
            ["PLAIN", ALICE, "PLAIN", ALICE, "PLAIN", ALICE],
            ["PLAIN", ALICE, "PLAIN", b"\0bob\0bob-secret", ALICE],
            ["PLAIN", ALICE, "PLAIN", b"\0alice\0wrong", ALICE],
            ["SCRAM-SHA-256", FIRST, FIRST],
        ],
    }


def _specs(issuer: TokenIssuer, directory: Any) -> dict[str, ListenerSpec]:
    users = {name: Secret(password) for name, password in USERS.items()}
    unsecured = UnsecuredTokens(i_know_these_are_not_verified=True)
    keys = directory / "jwks.json"
    keys.write_text(issuer.jwks())
    verified = JwksVerifier(keys, audience=AUDIENCE, issuer=None)

    def spec(name: str, mechanisms: tuple[str, ...], oauth: TokenVerifier, **options: Any) -> ListenerSpec:
        return ListenerSpec(
            name, "SASL_PLAINTEXT", mechanisms=mechanisms, users=users, oauth=oauth, **options
        )

    return {
        "SASL_PLAINTEXT": spec("SASL_PLAINTEXT", MECHANISMS, unsecured),
        "OIDC": spec("OIDC", ("OAUTHBEARER",), verified),
        "REAUTH": spec("REAUTH", MECHANISMS, unsecured, max_reauth_ms=REAUTHENTICATION_MS),
    }


def _conversation(side: Side, steps: list[Step]) -> list[object]:
    told = [_told(side.take(step)) for step in steps]
    return told[: told.index(CLOSED) + 1] if CLOSED in told else told


def _with(cluster: KafkaCluster, listener: str, steps: list[Step]) -> list[object]:
    theirs = Theirs(cluster.bootstrap(listener))
    with theirs.socket:
        return _conversation(theirs, steps)


def test_the_same_logins_get_the_same_answers_from_kafka(kafka_cluster: StartCluster, tmp_path: Any) -> None:
    cluster = kafka_cluster(security=Security("SASL_PLAINTEXT", "OIDC", "REAUTH"))
    assert cluster.security is not None
    issuer = cluster.security.token_issuer
    specs, users = _specs(issuer, tmp_path), UserStore()
    differences = []
    for listener, logins in _logins(issuer).items():
        for steps in logins:
            ours = _conversation(Ours(specs[listener], users), steps)
            theirs = _with(cluster, listener, steps)
            if ours != theirs:
                differences.append((steps, ours, theirs))
    assert differences == []
