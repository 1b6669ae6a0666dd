"""OAUTHBEARER on the broker's side: its message, the two steps of a refusal, tokens that nobody signed."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.broker.security import TokenRefusedError, UnsecuredTokens, VerifiedToken
from kclient.errors import AuthenticationError, ConfigurationError, SaslAuthenticationFailedError
from kclient.net.sasl import Conversation, OAuthBearer
from kclient.types import Secret
from tests.unit.broker.security.support import NOW, FakeClock, bearer, encoded, generic, peer, unsecured

INVALID = '{"status":"invalid_token"}'
NONE = encoded({"alg": "none"})


def _verify(token: str) -> VerifiedToken:
    return UnsecuredTokens(i_know_these_are_not_verified=True, clock=FakeClock()).verify(Secret(token))


def _unsigned(claims: str | bytes) -> str:
    return f"{NONE}.{encoded(claims)}."


def test_a_client_is_known_by_the_subject_of_its_token() -> None:
    found = peer("OAUTHBEARER")
    answer = found.log_in(OAuthBearer(lambda: unsecured("alice"), extensions={"logicalCluster": "lkc-1"}))
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert found.server.principal == "User:alice"


def test_a_token_is_refused_in_two_steps() -> None:
    found = peer("OAUTHBEARER")
    answer = found.begin("OAUTHBEARER", bearer(unsecured(lifetime=-1)))
    assert (answer.error_code, answer.auth_bytes) == (0, INVALID.encode())
    assert (found.server.authenticated, found.server.failed) == (False, False)
    answer = found.send(b"\x01")
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (58, INVALID, b"")
    assert found.server.failed


def test_the_client_half_understands_the_refusal() -> None:
    found = peer("OAUTHBEARER")
    talk = Conversation(asyncio.run(OAuthBearer(lambda: unsecured(lifetime=-1)).exchange("broker")))
    message = talk.answer(bytes(found.begin("OAUTHBEARER", talk.start()).auth_bytes))
    assert message is not None
    answer = found.send(message)
    error = talk.refused(SaslAuthenticationFailedError(answer.error_message))
    assert isinstance(error, AuthenticationError)
    assert "invalid_token" in str(error)


def test_after_a_refusal_another_token_does_not_help() -> None:
    found = peer("OAUTHBEARER")
    found.begin("OAUTHBEARER", bearer(unsecured(lifetime=-1)))
    answer = found.send(bearer(unsecured()))
    assert (answer.error_code, answer.error_message) == (58, generic("OAUTHBEARER"))
    assert found.server.failed


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"garbage",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer !!\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"p=x,,\x01auth=Bearer abc\x01\x01",
        b"n,,auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01\x01\x01",
        b"n,,\x01auth=Bearer abc\x01\x01more",
        b"n,,\x01auth=Bearer abc\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer a\0bc\x01\x01",
        b"n,,\x01auth=Bearer abc\xff\x01\x01",
        bearer(unsecured(), **{"f-1": "bar"}),
        bearer(unsecured(), foo="b\u00e4r"),
        bearer(unsecured(), foo=""),
        bearer(unsecured(), "n,a=al=ice,"),
        b"\x01" * 500_000,
        b"n,,\x01" + b"a=b\x01" * 100_000,
        b"n,,\x01auth=Bearer " + b" " * 500_000,
    ],
    ids=lambda message: str(message)[:30],
)
def test_a_message_that_is_malformed_is_refused_at_once(message: bytes) -> None:
    found = peer("OAUTHBEARER")
    answer = found.begin("OAUTHBEARER", message)
    assert (answer.error_code, answer.error_message) == (58, generic("OAUTHBEARER"))
    assert found.server.failed


def test_acting_as_oneself_is_allowed_and_as_another_is_not() -> None:
    assert peer("OAUTHBEARER").begin("OAUTHBEARER", bearer(unsecured(), "n,a=alice,")).error_code == 0
    found = peer("OAUTHBEARER")
    answer = found.begin("OAUTHBEARER", bearer(unsecured(), "n,a=bob,"))
    assert (answer.error_code, answer.error_message) == (
        58,
        (
            "Authentication failed: Client requested an authorization id (bob) that is different "
            "from the token's principal name (alice)"
        ),
    )
    assert not found.server.authenticated


@given(st.binary(max_size=200))
def test_no_garbage_gets_anybody_in(message: bytes) -> None:
    found = peer("OAUTHBEARER")
    assert found.begin("OAUTHBEARER", message).error_code == 58
    assert not found.server.authenticated


@given(st.text("abcXYZ019-_.", max_size=200))
def test_no_token_of_garbage_proves_anything(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        _verify(token)


def test_unsecured_tokens_have_to_be_asked_for_by_name() -> None:
    for value in (False, 1, "yes"):
        with pytest.raises(ConfigurationError, match="everybody in as anybody"):
            UnsecuredTokens(i_know_these_are_not_verified=value)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        UnsecuredTokens()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "token",
    [
        unsecured(lifetime=0),
        unsecured(lifetime=-0.001),
        unsecured(nbf=NOW + 31),
        unsecured(iat=NOW + 3600),
        unsecured(nbf="soon"),
        unsecured(subject=""),
        f"{NONE}.{encoded({'exp': NOW + 1})}.",
        f"{NONE}.{encoded({'sub': 7, 'exp': NOW + 1})}.",
        f"{NONE}.{encoded({'sub': 'alice'})}.",
        f"{NONE}.{encoded({'sub': 'alice', 'exp': str(NOW + 1)})}.",
        f"{NONE}.{encoded({'sub': 'alice', 'exp': True})}.",
        f"{NONE}.{encoded({'sub': 'alice', 'exp': NOW * 1000})}.",
        _unsigned('{"sub": "alice", "exp": NaN}'),
        _unsigned('{"sub": "alice", "exp": Infinity}'),
        _unsigned('{"sub": "alice", "exp": 1e999}'),
        _unsigned('{"sub": "alice", "exp": ' + "9" * 5000 + "}"),
        _unsigned('{"sub": "bob", "sub": "alice", "exp": 9000000000}'),
        _unsigned("[" * 50_000),
        _unsigned("[]"),
        _unsigned(b"\xff"),
        unsecured() + encoded("signature"),
        unsecured() + ".",
        unsecured()[:-1],
        unsecured().replace(".", "=.", 1),
        unsecured().replace(NONE, encoded({"alg": "RS256"})),
        unsecured().replace(NONE, encoded({"alg": "None"})),
        unsecured().replace(NONE, encoded({"alg": None})),
        unsecured().replace(NONE, encoded({})),
        unsecured().replace(NONE, encoded({"alg": "none", "crit": ["exp"]})),
        "",
        "a",
        "..",
        "." * 100_000,
    ],
    ids=lambda token: str(token)[-30:],
)
def test_a_token_whose_claims_or_form_are_wrong_is_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        _verify(token)


def test_clocks_may_differ_a_little_about_when_a_token_begins() -> None:
    assert _verify(unsecured(nbf=NOW + 29, iat=NOW + 29)) == VerifiedToken("alice", NOW + 100)
