"""OAUTHBEARER: the exchange, where tokens come from, and how long they are kept."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from kclient.errors import (
    AuthenticationError,
    ConfigurationError,
    KafkaConnectionError,
    SaslAuthenticationFailedError,
)
from kclient.net.sasl import Conversation, OAuthBearer, Token
from kclient.testing import Simulation, simulate
from kclient.types import Secret

_TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."


class Time:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Issuer:
    """Gives out numbered tokens."""

    def __init__(self, lifetime: float | None = None) -> None:
        self.lifetime = lifetime
        self.issued = 0

    async def __call__(self) -> Token:
        await asyncio.sleep(0)
        self.issued += 1
        return Token(Secret(f"token-{self.issued}"), self.lifetime)


def _start(oauth: OAuthBearer) -> tuple[Conversation, bytes]:
    talk = Conversation(asyncio.run(oauth.exchange("broker")))
    return talk, talk.start()


def _sent(oauth: OAuthBearer) -> bytes:
    return _start(oauth)[1]


def test_the_token_is_sent_as_rfc_7628_says_and_an_empty_answer_is_success() -> None:
    talk, first = _start(OAuthBearer(lambda: _TOKEN))
    assert first == b"n,,\x01auth=Bearer " + _TOKEN.encode() + b"\x01\x01"
    assert talk.answer(b"") is None


def test_extensions_follow_the_token() -> None:
    oauth = OAuthBearer(
        lambda: Token(Secret("t"), extensions={"identityPoolId": "pool-1"}),
        extensions={"logicalCluster": "lkc 1"},
    )
    assert _sent(oauth) == b"n,,\x01auth=Bearer t\x01logicalCluster=lkc 1\x01identityPoolId=pool-1\x01\x01"


@pytest.mark.parametrize("name", ["auth", "Auth", "", "with space", "a=b", "naïve"])
def test_a_name_that_is_none_for_an_extension_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name for a SASL extension"):
        OAuthBearer(lambda: "t", extensions={name: "x"})


@pytest.mark.parametrize("value", ["", "a\x01auth=Bearer other", "naïve", "a\0"])
def test_a_value_that_would_break_out_of_its_extension_is_refused(value: str) -> None:
    oauth = OAuthBearer(lambda: Token(Secret("t"), extensions={"name": value}))
    with pytest.raises(ConfigurationError, match="the SASL extension 'name'"):
        _sent(oauth)


async def _async_token() -> str:
    return _TOKEN


class _Provider:
    async def token(self) -> str:
        return _TOKEN


class _BlockingProvider:
    def token(self) -> str:
        return _TOKEN


class _Extending(_Provider):
    def __init__(self, extensions: dict[str, str] | None) -> None:
        self._extensions = extensions

    def extensions(self) -> dict[str, str] | None:
        return self._extensions


@pytest.mark.parametrize(
    "source",
    [
        lambda: _TOKEN,
        lambda: Secret(_TOKEN),
        lambda: Token(Secret(_TOKEN)),
        _async_token,
        _Provider(),
        _BlockingProvider(),
        _Extending({}),
        _Extending(None),
    ],
)
def test_a_token_may_come_from_callbacks_and_providers_sync_and_async(source: Any) -> None:
    assert _sent(OAuthBearer(source)) == b"n,,\x01auth=Bearer " + _TOKEN.encode() + b"\x01\x01"


def test_a_providers_own_extensions_are_sent() -> None:
    assert _sent(OAuthBearer(_Extending({"a": "b"}))).endswith(b"\x01a=b\x01\x01")


@pytest.mark.parametrize("token", ["", "Bearer abc", "abc\n", "a\x01b", "a,b", "tökén", "=abc"])
def test_a_token_with_other_characters_than_allowed_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(AuthenticationError, match="RFC 6750") as caught:
        _sent(OAuthBearer(lambda: token))
    assert not token or token not in str(caught.value)


def test_a_provider_that_returns_something_else_is_a_configuration_error() -> None:
    source: Any = lambda: (_TOKEN, 123)  # noqa: E731 - what the signer for AWS returns
    with pytest.raises(ConfigurationError, match="returned tuple") as caught:
        _sent(OAuthBearer(source))
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert _TOKEN not in shown


def test_a_provider_that_fails_is_the_cause_of_the_error() -> None:
    def fails() -> str:
        raise OSError("metadata service is down")

    with pytest.raises(AuthenticationError, match="fails failed: OSError") as caught:
        _sent(OAuthBearer(fails))
    assert isinstance(caught.value.__cause__, OSError)


def test_a_kafka_error_of_a_provider_passes_as_it_is() -> None:
    async def fails() -> str:
        raise KafkaConnectionError("no route to the token endpoint")

    with pytest.raises(KafkaConnectionError, match="no route"):
        _sent(OAuthBearer(fails))


def test_a_refused_token_needs_one_more_byte_before_the_error() -> None:
    talk, _ = _start(OAuthBearer(lambda: _TOKEN))
    assert talk.answer(b'{"status":"invalid_token","scope":"kafka","openid-configuration":"x"}') == b"\x01"
    refusal = SaslAuthenticationFailedError("invalid")
    error = talk.refused(refusal)
    assert str(error) == "the broker refuses the OAuth token: status invalid_token, scope kafka"
    assert error.__cause__ is refusal


@pytest.mark.parametrize("again", [b"", b'{"status":"ok"}', b"welcome"])
def test_a_refused_token_stays_refused_whatever_the_broker_says_next(again: bytes) -> None:
    talk, _ = _start(OAuthBearer(lambda: _TOKEN))
    talk.answer(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationError, match="status invalid_token"):
        talk.answer(again)


@pytest.mark.parametrize(
    "answer",
    [b"\x00", b"\xff\xfe", b"[" * 60_000, b"[1]", b"{}", b'{"status":7}', b"{" + b" " * 100_000, b'"text"'],
)
def test_an_answer_that_makes_no_sense_is_a_refusal(answer: bytes) -> None:
    talk, _ = _start(OAuthBearer(lambda: _TOKEN))
    assert talk.answer(answer) == b"\x01"
    with pytest.raises(AuthenticationError, match="refuses the OAuth token") as caught:
        talk.answer(b"")
    assert len(str(caught.value)) < 300


def test_a_broker_that_repeats_the_token_does_not_get_it_into_an_error() -> None:
    talk, _ = _start(OAuthBearer(lambda: _TOKEN))
    talk.answer(b'{"status":"bad token ' + _TOKEN.encode() + b'"}')
    errors = [talk.refused(SaslAuthenticationFailedError(f"cannot parse {_TOKEN}"))]
    talk, _ = _start(OAuthBearer(lambda: _TOKEN))
    errors.append(talk.refused(SaslAuthenticationFailedError(f"cannot parse {_TOKEN}")))
    for error in errors:
        assert isinstance(error, AuthenticationError)
        assert "<hidden>" in str(error)
        assert _TOKEN not in "".join(traceback.format_exception(error))


def test_a_plain_error_code_passes_as_it_is() -> None:
    talk, _ = _start(OAuthBearer(lambda: _TOKEN))
    refusal = SaslAuthenticationFailedError("not today")
    assert talk.refused(refusal) is refusal


def test_a_token_is_kept_for_four_fifths_of_its_life() -> None:
    clock, issuer = Time(), Issuer(lifetime=100)
    oauth = OAuthBearer(issuer, clock=clock)
    for moved, expected in ((0.0, b"token-1"), (79.0, b"token-1"), (1.0, b"token-2"), (79.9, b"token-2")):
        clock.now += moved
        assert expected in _sent(oauth)
    assert issuer.issued == 2


def test_a_token_without_a_lifetime_is_fetched_for_every_login() -> None:
    oauth = OAuthBearer(Issuer())
    assert b"token-1" in _sent(oauth)
    assert b"token-2" in _sent(oauth)


@pytest.mark.parametrize("refuse", [lambda talk: talk.answer(b"{}"), lambda _: None])
def test_a_kept_token_that_a_broker_refuses_is_not_used_again(
    refuse: Callable[[Conversation], object],
) -> None:
    oauth = OAuthBearer(Issuer(lifetime=100))
    talk, _ = _start(oauth)
    refuse(talk)
    talk.refused(SaslAuthenticationFailedError())
    assert b"token-2" in _sent(oauth)


def test_an_old_exchange_that_fails_does_not_drop_a_newer_token() -> None:
    clock, issuer = Time(), Issuer(lifetime=100)
    oauth = OAuthBearer(issuer, clock=clock)
    old, _ = _start(oauth)
    clock.now += 90
    assert b"token-2" in _sent(oauth)
    old.refused(SaslAuthenticationFailedError())
    assert b"token-2" in _sent(oauth)


@pytest.mark.parametrize("lifetime", [None, 100.0])
def test_logins_at_the_same_time_share_one_token(lifetime: float | None) -> None:
    issuer = Issuer(lifetime)
    oauth = OAuthBearer(issuer)

    async def log_in_all() -> list[bytes]:
        exchanges = await asyncio.gather(*(oauth.exchange(f"broker-{n}") for n in range(20)))
        return [Conversation(exchange).start() for exchange in exchanges]

    assert len(set(asyncio.run(log_in_all()))) == 1
    assert issuer.issued == 1


def test_a_cancelled_login_does_not_stand_in_the_way_of_others() -> None:
    async def scenario() -> bytes:
        began = asyncio.Event()

        async def source() -> str:
            if not began.is_set():
                began.set()
                await asyncio.Event().wait()
            return "second"

        oauth = OAuthBearer(source)
        stuck = asyncio.create_task(_start_on(oauth))
        waiting = asyncio.create_task(_start_on(oauth))
        await began.wait()
        stuck.cancel()
        message = await waiting
        assert stuck.cancelled()
        return message

    assert b"second" in asyncio.run(scenario())


async def _start_on(oauth: OAuthBearer) -> bytes:
    return Conversation(await oauth.exchange("broker")).start()


def _fails_with(raised: type[BaseException], kind: str) -> Any:
    def fails() -> str:
        raise raised

    async def fails_later() -> str:
        await asyncio.sleep(0)
        raise raised

    class Provider:
        def token(self) -> Any:
            return fails() if kind == "provider" else _TOKEN

        def extensions(self) -> Any:
            return fails()

    return {"function": fails, "coroutine": fails_later}.get(kind) or Provider()


@pytest.mark.parametrize("kind", ["function", "coroutine", "provider", "extensions"])
@pytest.mark.parametrize("raised", [ValueError, asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_whatever_a_provider_raises_is_an_error_that_names_it_and_no_cancellation(
    raised: type[BaseException], kind: str, exits: list[BaseException]
) -> None:
    async def main(_: Simulation) -> None:
        bearer = OAuthBearer(_fails_with(raised, kind))
        with pytest.raises(AuthenticationError, match=rf"_fails_with.* failed: {raised.__name__}") as caught:
            await bearer.exchange("broker")
        assert isinstance(caught.value.__cause__, raised)
        with pytest.raises(AuthenticationError):  # nothing is locked
            await bearer.exchange("broker")

    simulate(main)
    assert bool(exits) == issubclass(raised, SystemExit | KeyboardInterrupt)


def test_a_login_that_runs_out_of_time_ends_its_provider_too() -> None:
    ended: list[bool] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            ended.append(True)
        return _TOKEN

    async def main(_: Simulation) -> None:
        bearer = OAuthBearer(slow)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await bearer.exchange("broker")
        assert ended

    simulate(main)


@pytest.mark.parametrize(
    "given",
    [
        None,
        17,
        b"bytes",
        [_TOKEN],
        Token(17),  # type: ignore[arg-type]
        Token(Secret(_TOKEN), "3600"),  # type: ignore[arg-type]
        Token(Secret(_TOKEN), 3600, {"name": 17}),  # type: ignore[dict-item]
        Token(Secret(_TOKEN), 3600, {17: "value"}),  # type: ignore[dict-item]
    ],
)
def test_what_is_no_token_is_a_configuration_error(given: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _sent(OAuthBearer(lambda: given))
    assert _TOKEN not in str(caught.value)


@pytest.mark.parametrize("given", [17, "a=b", [("a", "b")]])
def test_extensions_that_are_no_mapping_are_a_configuration_error(given: Any) -> None:
    class Provider:
        def token(self) -> str:
            return _TOKEN

        def extensions(self) -> Any:
            return given

    with pytest.raises(ConfigurationError, match="return a mapping"):
        _sent(OAuthBearer(Provider()))
