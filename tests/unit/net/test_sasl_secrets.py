"""No secret leaves by another door: planted ones are searched for wherever kclient writes.

Every scenario runs one path through SASL or TLS with planted secrets and returns the objects that somebody
might print. Their repr and str, the exceptions with their chains (and with the variables of every frame of
ours, as crash reporters show them) and everything logged at DEBUG level are searched.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from kclient.errors import SaslAuthenticationFailedError
from kclient.net.sasl import Authenticator, ClientCredentials, Conversation, OAuthBearer, Plain, Scram, Token
from kclient.net.tls import make_context
from kclient.types import Secret
from tests.support.planted import everything_logged, forms, told
from tools.kafka.certificates import Certificates

_PLANTED = "Pl4nted/S3cret"
_TOKEN = "pl4nted.token"
_URL = "https://login.example.com/token"

Scenario = Callable[[Path], object]


_FORMS = [*forms(_PLANTED), *forms(_TOKEN)]


def _talk(authenticator: Authenticator, *answers: bytes, refused: bool = False) -> object:
    talk = Conversation(asyncio.run(authenticator.exchange("broker")))
    talk.start()
    for answer in answers:
        talk.answer(answer)
    if refused:
        raise talk.refused(SaslAuthenticationFailedError("no"))
    return authenticator, talk


def _scram() -> Scram:
    return Scram("SCRAM-SHA-256", "alice", Secret(_PLANTED), random_bytes=lambda _: b"\0" * 24)


_CHALLENGE = b"r=" + base64.b64encode(b"\0" * 24) + b"server,s=c2FsdA==,i=4096"


def _provider(status: int, content: object) -> ClientCredentials:
    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, stream=httpx.ByteStream(json.dumps(content).encode()))

    return _client(respond)


def _client(respond: Callable[[httpx.Request], httpx.Response]) -> ClientCredentials:
    transport = httpx.MockTransport(respond)
    return ClientCredentials(
        _URL, "alice", Secret(_PLANTED), parameters={"assertion": _TOKEN}, urlencode=True, transport=transport
    )


def _unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def _fetch(source: ClientCredentials) -> object:
    return asyncio.run(source()), source


def _encrypted_key(directory: Path, password: str, *, as_text: bool) -> object:
    made = Certificates(directory)
    if not as_text:
        return make_context(
            certfile=made.client_certificate, keyfile=made.client_key_encrypted, password=Secret(password)
        )
    key = made.client_key_encrypted.read_text().replace("MI", "MI" + _TOKEN)
    return make_context(
        certdata=made.client_certificate.read_text(), keydata=Secret(key), password=Secret(password)
    )


_ECHO = json.dumps({"status": f"cannot parse {_TOKEN}"}).encode()
_SCENARIOS: dict[str, Scenario] = {
    "plain": lambda _: _talk(Plain("alice", Secret(_PLANTED)), b""),
    "plain refused": lambda _: _talk(Plain("alice", Secret(_PLANTED)), refused=True),
    "plain with NUL": lambda _: Plain("alice", Secret(f"{_PLANTED}\0")),
    "plain with surrogate": lambda _: Plain("alice", Secret(f"{_PLANTED}\ud800")),
    "scram": lambda _: _talk(_scram(), _CHALLENGE),
    "scram refused": lambda _: _talk(_scram(), _CHALLENGE, refused=True),
    "scram forged": lambda _: _talk(_scram(), _CHALLENGE, b"v=AAAA"),
    "scram garbage": lambda _: _talk(_scram(), b"\xff"),
    "scram unprepared": lambda _: Scram("SCRAM-SHA-512", "alice", Secret(f"{_PLANTED}\x07"), saslprep=True),
    "scram surrogate": lambda _: Scram("SCRAM-SHA-512", "alice", Secret(f"{_PLANTED}\ud800")),
    "oauth": lambda _: (_talk(OAuthBearer(lambda: _TOKEN), b""), Token(Secret(_TOKEN), 9, {"a": _PLANTED})),
    "oauth refused": lambda _: _talk(OAuthBearer(lambda: _TOKEN), refused=True),
    "oauth echoed": lambda _: _talk(OAuthBearer(lambda: _TOKEN), _ECHO, refused=True),
    "oauth echoed again": lambda _: _talk(OAuthBearer(lambda: _TOKEN), _ECHO, b""),
    "oauth bad token": lambda _: _talk(OAuthBearer(lambda: f"{_TOKEN} {_PLANTED}")),
    "oidc": lambda _: _fetch(_provider(200, {"access_token": _TOKEN, "expires_in": 300})),
    "oidc kept": lambda _: _talk(OAuthBearer(_provider(200, {"access_token": _TOKEN, "expires_in": 300}))),
    "oidc refused": lambda _: _fetch(_provider(401, {"error": _PLANTED, "error_description": _TOKEN})),
    "oidc no bearer": lambda _: _fetch(_provider(200, {"access_token": _TOKEN, "token_type": "mac"})),
    "oidc unreachable": lambda _: _fetch(_client(_unreachable)),
    "oidc surrogate": lambda _: ClientCredentials(_URL, "a", Secret(f"{_PLANTED}\ud800")),
    "tls wrong password": lambda path: _encrypted_key(path, _PLANTED, as_text=False),
    "tls long password": lambda path: _encrypted_key(path, _PLANTED * 100, as_text=False),
    "tls password that cannot be encoded": lambda path: _encrypted_key(
        path, f"{_PLANTED}\ud800", as_text=False
    ),
    "tls damaged key": lambda path: _encrypted_key(path, _PLANTED, as_text=True),
}
_FAILS = {name for name in _SCENARIOS if name not in ("plain", "scram", "oauth", "oidc", "oidc kept")}


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    with everything_logged() as stream:
        yield stream


def _printed(result: object) -> str:
    items = result if isinstance(result, tuple) else (result,)
    return "".join(
        f"{item!r} {item} {vars(item) if isinstance(item, Conversation) else ''}" for item in items
    )


@pytest.mark.parametrize("name", _SCENARIOS)
def test_no_planted_secret_is_printed_raised_or_logged(
    name: str, tmp_path: Path, logged: io.StringIO
) -> None:
    try:
        written = _printed(_SCENARIOS[name](tmp_path))
        failed = False
    except Exception as error:  # noqa: BLE001 - whatever it is, it is searched
        written = told(error)
        failed = True
    assert failed is (name in _FAILS), written
    written += logged.getvalue()
    assert [form for form in _FORMS if form in written] == []


def test_the_search_finds_what_it_searches_for(logged: io.StringIO) -> None:
    def leaks(password: str) -> None:
        logging.getLogger("kclient.test").debug("token %s", _TOKEN)
        raise ValueError(base64.b64encode(f"alice:{password}".encode()))

    with pytest.raises(ValueError, match="YWxpY2U6") as caught:
        leaks(_PLANTED)
    assert [form for form in _FORMS if form in told(caught.value)]
    assert _TOKEN in logged.getvalue()
