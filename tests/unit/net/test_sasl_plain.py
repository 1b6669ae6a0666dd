"""SASL PLAIN."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from kclient.errors import AuthenticationError, ConfigurationError, SaslAuthenticationFailedError
from kclient.net.sasl import Conversation, Plain
from kclient.types import Secret


def test_user_and_password_are_sent_as_rfc_4616_says() -> None:
    talk = Conversation(asyncio.run(Plain("tim", Secret("tanstaaftanstaaf")).exchange("broker")))
    assert talk.start() == b"\0tim\0tanstaaftanstaaf"
    assert talk.answer(b"") is None


def test_text_beyond_ascii_is_sent_as_utf_8() -> None:
    talk = Conversation(asyncio.run(Plain("jürgen", Secret("pässwörd")).exchange("broker")))
    assert talk.start() == "\0jürgen\0pässwörd".encode()


def test_each_authentication_is_a_fresh_exchange() -> None:
    plain = Plain("tim", Secret("secret"))
    first, second = asyncio.run(plain.exchange("a")), asyncio.run(plain.exchange("a"))
    assert Conversation(first).start() == Conversation(second).start()


@pytest.mark.parametrize(
    ("user", "password", "problem"),
    [
        ("ti\0m", "x", "username for SASL PLAIN has a NUL"),
        ("tim", "hunt\0er2", "password for SASL PLAIN has a NUL"),
        ("", "x", "username for SASL PLAIN is empty"),
        ("tim", "", "password for SASL PLAIN is empty"),
        ("tim", "hunter\ud800", "password for SASL PLAIN has half of a surrogate"),
    ],
)
def test_what_the_mechanism_cannot_carry_is_refused_at_once(user: str, password: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        Plain(user, Secret(password))
    assert "hunt" not in str(caught.value)


def test_a_broker_that_repeats_the_password_is_not_quoted() -> None:
    talk = Conversation(asyncio.run(Plain("tim", Secret("tanstaaf")).exchange("broker")))
    talk.start()
    error = talk.refused(SaslAuthenticationFailedError("tim's password is not 'tanstaaf'"))
    assert isinstance(error, AuthenticationError)
    assert "tim's password is not '<hidden>'" in str(error)
    assert "tanstaaf" not in "".join(traceback.format_exception(error))
