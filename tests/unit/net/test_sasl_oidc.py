"""Tokens by client credentials: what is asked of the provider, and what is made of its answers."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from kclient.errors import AuthenticationError, ConfigurationError, KafkaConnectionError, KafkaError
from kclient.net.sasl import ClientCredentials, OAuthBearer, Token
from kclient.types import Secret

_URL = "https://login.example.com/oauth/token?tenant=t-key"
_SECRET = "hunter2-secret"
_GOOD = {"access_token": "abc.def", "token_type": "Bearer", "expires_in": 300}

Respond = Callable[[httpx.Request], httpx.Response]


def _source(respond: Respond, **options: Any) -> ClientCredentials:
    return ClientCredentials(
        _URL, "alice", Secret(_SECRET), transport=httpx.MockTransport(respond), **options
    )


def _fetch(respond: Respond, **options: Any) -> Token:
    return asyncio.run(_source(respond, **options)())


def _answering(content: object, status: int = 200, **headers: str) -> Respond:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda _: _response(status, body, headers)


def _response(status: int, body: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


class Recorder:
    """A provider that remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return _response(200, json.dumps(_GOOD).encode())

    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.requests[-1].content.decode())

    def credentials(self) -> str:
        return base64.b64decode(self.requests[-1].headers["Authorization"].removeprefix("Basic ")).decode()


def test_the_provider_is_asked_for_a_token_with_id_and_secret_in_the_header() -> None:
    provider = Recorder()
    assert _fetch(provider) == Token(Secret("abc.def"), 300.0)
    assert str(provider.requests[0].url) == _URL
    assert provider.requests[0].method == "POST"
    assert provider.credentials() == f"alice:{_SECRET}"
    assert provider.form() == {"grant_type": ["client_credentials"]}


def test_scope_audience_and_further_parameters_go_into_the_form() -> None:
    provider = Recorder()
    _fetch(provider, scope="kafka read", audience="api://kafka", parameters={"resource": "r"})
    assert provider.form() == {
        "grant_type": ["client_credentials"],
        "scope": ["kafka read"],
        "audience": ["api://kafka"],
        "resource": ["r"],
    }


@pytest.mark.parametrize(("urlencode", "sent"), [(False, "al ice:p:w%"), (True, "al+ice:p%3Aw%25")])
def test_id_and_secret_are_encoded_on_request(urlencode: bool, sent: str) -> None:
    provider = Recorder()
    transport = httpx.MockTransport(provider)
    source = ClientCredentials(_URL, "al ice", Secret("p:w%"), urlencode=urlencode, transport=transport)
    asyncio.run(source())
    assert provider.credentials() == sent


def test_the_token_is_kept_by_the_authenticator_until_it_is_nearly_over() -> None:
    provider, now = Recorder(), 0.0
    oauth = OAuthBearer(_source(provider), clock=lambda: now)
    for now in (0.0, 239.0, 240.0, 479.0):  # noqa: B007 - the clock reads it
        asyncio.run(oauth.exchange("broker"))
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("expires_in", "lifetime"),
    [
        (3599, 3599.0),
        ("3599", 3599.0),
        (0, None),
        (-1, None),
        (True, None),
        (10**400, None),
        (float("inf"), None),
        (float("nan"), None),
        ("soon", None),
        ("9" * 10_000, None),
        (None, None),
        ([], None),
    ],
)
def test_a_lifetime_is_taken_only_if_it_makes_sense(expires_in: object, lifetime: float | None) -> None:
    assert _fetch(_answering(_GOOD | {"expires_in": expires_in})).lifetime == lifetime


def test_a_provider_that_names_no_type_or_lifetime_is_good_enough() -> None:
    assert _fetch(_answering({"access_token": "abc"})) == Token(Secret("abc"))


@pytest.mark.parametrize(
    ("respond", "complaint", "kind"),
    [
        (
            _answering({"error": "invalid_client"}, 401),
            r"invalid_client \(HTTP status 401\)",
            AuthenticationError,
        ),
        (_answering({"error": f"no {_SECRET}"}, 400), "it refuses the request", AuthenticationError),
        (_answering({"error": ["invalid_client"]}, 400), "it refuses the request", AuthenticationError),
        (_answering(b"<html>", 403), "no JSON object", AuthenticationError),
        (_answering(_GOOD, 201), "it refuses the request", AuthenticationError),
        (_answering({"error": "server_error"}, 503), "status 503", KafkaConnectionError),
        (_answering({}, 429), "status 429", KafkaConnectionError),
        (
            _answering(b"", 302, Location="https://evil.example.com/"),
            "redirects elsewhere",
            AuthenticationError,
        ),
        (_answering(b"", 307, Location="/other"), "redirects elsewhere", AuthenticationError),
        (_answering({}), "no access_token", AuthenticationError),
        (_answering({"access_token": 7}), "no access_token", AuthenticationError),
        (_answering({"access_token": ""}), "no access_token", AuthenticationError),
        (_answering(_GOOD | {"token_type": "mac"}), "not of the type 'Bearer'", AuthenticationError),
        (_answering(b"\xff\xfe"), "no JSON object", AuthenticationError),
        (_answering([1]), "no JSON object", AuthenticationError),
        (_answering(b"[" * 500_000), "no JSON object", AuthenticationError),
        (_answering(b" " * 1_000_001), "larger than 1000000 bytes", AuthenticationError),
    ],
)
def test_an_answer_without_a_usable_token_is_explained(
    respond: Respond, complaint: str, kind: type[KafkaError]
) -> None:
    with pytest.raises(kind, match=complaint) as caught:
        _fetch(respond)
    assert "https://login.example.com/oauth/token:" in str(caught.value)
    for private in (_SECRET, "t-key", "evil", "abc.def"):
        assert private not in str(caught.value)


def test_a_redirect_is_not_followed() -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(307, headers={"Location": "https://evil.example.com/"})

    with pytest.raises(AuthenticationError):
        _fetch(respond)
    assert asked == [_URL]


def test_a_compressed_answer_is_not_expanded() -> None:
    def respond(_: httpx.Request) -> httpx.Response:
        return _response(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})

    with pytest.raises(AuthenticationError, match="compressed"):
        _fetch(respond)


class _Drip(httpx.AsyncByteStream):
    """An answer of which one byte comes, and then nothing."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()


def test_an_answer_that_does_not_end_is_given_up() -> None:
    began = time.monotonic()
    with pytest.raises(KafkaConnectionError, match=r"no token within 0\.05 s"):
        _fetch(lambda _: httpx.Response(200, stream=_Drip()), timeout=0.05)
    assert time.monotonic() - began < 10


def test_a_provider_that_cannot_be_reached_is_worth_another_try() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"refused, says {_SECRET}", request=request)

    with pytest.raises(KafkaConnectionError, match="refused, says <hidden>") as caught:
        _fetch(respond)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    seen: dict[str, Any] = {}
    original = httpx.AsyncClient

    def recording(**options: Any) -> httpx.AsyncClient:
        seen.update(options)
        return original(**options)

    monkeypatch.setattr(httpx, "AsyncClient", recording)
    context = ssl.create_default_context()
    assert _fetch(Recorder(), ssl_context=context).value == Secret("abc.def")
    assert seen["trust_env"] is False
    assert seen["verify"] is context


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://login.example.com/token?k=private", "is not https"),
        ("file:///etc/passwd", "must be https"),
        ("login.example.com/token", "must be https"),
        ("https://", "must be https"),
        ("https://host:port/", "must be https"),
        ("", "must be https"),
        ("https://alice:private@login.example.com/token", "user or password"),
    ],
)
def test_an_address_that_no_secret_should_go_to_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        ClientCredentials(url, "alice", Secret(_SECRET))
    assert "private" not in str(caught.value)


def test_http_can_be_allowed_but_no_other_scheme() -> None:
    ClientCredentials("http://127.0.0.1:1/token", "alice", Secret(_SECRET), allow_http=True)
    with pytest.raises(ConfigurationError, match="must be https"):
        ClientCredentials("ftp://127.0.0.1/token", "alice", Secret(_SECRET), allow_http=True)


@pytest.mark.parametrize(("name", "secret"), [("", "x"), ("a", ""), ("a", "x\ud800")])
def test_credentials_that_cannot_be_sent_are_refused(name: str, secret: str) -> None:
    with pytest.raises(ConfigurationError, match="client id or secret"):
        ClientCredentials(_URL, name, Secret(secret))


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'kclient-kafka\[oauth\]'"):
        ClientCredentials(_URL, "alice", Secret(_SECRET))
