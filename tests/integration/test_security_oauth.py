"""OAUTHBEARER against real brokers: tokens of one's own, and from an OpenID provider."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.errors import AuthenticationError, ConfigurationError
from kclient.net.sasl import Token
from kclient.types import Secret
from tests.support.secured import WRONG, Visitor
from tools.kafka.oidc import TokenIssuer, unsecured_token
from tools.kafka.security import USERS

pytestmark = pytest.mark.kafka


def _with_token(visitor: Visitor, listener: str, token: str) -> dict[str, Any]:
    visitor.plant(token)
    return visitor.options(listener, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=lambda: token)


def _with_provider(visitor: Visitor, **more: Any) -> dict[str, Any]:
    options = visitor.options(
        "OIDC",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=visitor.security.token_server.url,
        sasl_oauthbearer_client_id="alice",
        sasl_oauthbearer_client_secret=USERS["alice"],
        sasl_oauthbearer_allow_http=True,
    )
    return options | more


class _Provider:
    """As other clients have them."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        await asyncio.sleep(0)
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"traceId": "123"}


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    "way", ["function", "coroutine function", "Token with a lifetime", "provider object"]
)
def test_a_client_is_known_by_the_subject_of_its_token(any_visitor: Visitor, listener: str, way: str) -> None:
    token = any_visitor.plant(unsecured_token("alice"))

    async def fetch() -> str:
        await asyncio.sleep(0)
        return token

    sources: dict[str, Any] = {
        "function": lambda: token,
        "coroutine function": fetch,
        "Token with a lifetime": lambda: Token(Secret(token), 300),
        "provider object": _Provider(token),
    }
    options = any_visitor.options(
        listener, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=sources[way]
    )
    assert any_visitor.identity(options) == "alice"


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_an_expired_token_is_refused_at_once(any_visitor: Visitor, listener: str) -> None:
    expired = unsecured_token("alice", lifetime=-60)
    error = any_visitor.refusal(_with_token(any_visitor, listener, expired))
    assert isinstance(error, AuthenticationError)
    assert "the broker refuses the OAuth token" in str(error)
    assert len(any_visitor.connections) == 1


def test_a_token_that_the_provider_signed_is_accepted(visitor: Visitor) -> None:
    signed = visitor.security.token_issuer.token("alice")
    assert visitor.identity(_with_token(visitor, "OIDC", signed)) == "alice"


@pytest.mark.parametrize(
    "flaw", ["other audience", "foreign key", "no signature", "expired", "signature cut off"]
)
def test_a_token_that_the_provider_would_not_give_is_refused_at_once(visitor: Visitor, flaw: str) -> None:
    issuer = visitor.security.token_issuer
    tokens = {
        "other audience": issuer.token("alice", audience="somebody else"),
        "foreign key": TokenIssuer().token("alice"),
        "no signature": unsecured_token("alice"),
        "expired": issuer.token("alice", lifetime=-600),
        "signature cut off": issuer.token("alice").rpartition(".")[0] + ".",
    }
    error = visitor.refusal(_with_token(visitor, "OIDC", tokens[flaw]))
    assert isinstance(error, AuthenticationError)
    assert "the broker refuses the OAuth token: status invalid_token" in str(error)
    assert len(visitor.connections) == 1


def test_client_credentials_get_a_token_from_the_provider(visitor: Visitor) -> None:
    assert visitor.identity(_with_provider(visitor)) == "alice"


@pytest.mark.parametrize(
    "wrong", [{"sasl_oauthbearer_client_secret": WRONG}, {"sasl_oauthbearer_client_id": "mallory"}]
)
def test_a_provider_that_refuses_the_client_is_an_authentication_error_at_once(
    visitor: Visitor, wrong: dict[str, str]
) -> None:
    error = visitor.refusal(_with_provider(visitor, **wrong))
    assert isinstance(error, AuthenticationError)
    assert "no token from http://127.0.0.1" in str(error)
    assert "invalid_client (HTTP status 401)" in str(error)
    [broker] = visitor.connections
    assert broker == visitor.kafka.node(1).port("OIDC")


def test_a_token_endpoint_without_tls_is_refused_before_anything_is_sent(visitor: Visitor) -> None:
    error = visitor.refusal(_with_provider(visitor, sasl_oauthbearer_allow_http=False))
    assert isinstance(error, ConfigurationError)
    assert "is not https, so others can read the client secret" in str(error)
    assert visitor.connections == []


def test_a_provider_that_cannot_be_reached_is_worth_another_try(visitor: Visitor) -> None:
    nowhere = "http://127.0.0.1:1/token"
    options = _with_provider(visitor, sasl_oauthbearer_token_endpoint_url=nowhere)
    error = visitor.refusal(options | {"default_api_timeout_ms": 500})
    assert not isinstance(error, AuthenticationError)
    assert f"no token from {nowhere}" in str(error)
