"""The rules by which an exchange is driven."""

from __future__ import annotations

import pytest

from kclient.errors import AuthenticationError, KafkaError, SaslAuthenticationFailedError
from kclient.net.sasl import Conversation, Exchange
from kclient.net.sasl.exchange import is_text, shown
from kclient.types import Secret


def _two_rounds() -> Exchange:
    if (yield b"one") != b"go on":
        raise AuthenticationError("not what was expected")
    yield b"two"


def test_the_client_speaks_first_and_the_exchange_ends_with_an_answer() -> None:
    talk = Conversation(_two_rounds())
    assert talk.start() == b"one"
    assert talk.answer(b"go on") == b"two"
    assert not talk.done
    assert talk.answer(b"") is None
    assert repr(talk) == "<Conversation done after 2 rounds>"


def test_a_mechanism_that_is_not_content_ends_the_conversation() -> None:
    talk = Conversation(_two_rounds())
    talk.start()
    with pytest.raises(AuthenticationError, match="not what was expected"):
        talk.answer(b"something else")
    assert talk.done


def test_using_a_conversation_out_of_order_is_a_programming_error() -> None:
    talk = Conversation(_two_rounds())
    with pytest.raises(RuntimeError, match="no answer is due"):
        talk.answer(b"")
    talk.start()
    with pytest.raises(RuntimeError, match="begun already"):
        talk.start()
    talk.close()
    with pytest.raises(RuntimeError, match="no answer is due"):
        talk.answer(b"")


def test_a_refusal_comes_back_as_it_is_when_the_mechanism_has_nothing_to_add() -> None:
    talk = Conversation(_two_rounds())
    talk.start()
    refusal = SaslAuthenticationFailedError("wrong password")
    assert talk.refused(refusal) is refusal
    assert talk.done


def test_a_mechanism_can_explain_a_refusal() -> None:
    def explains() -> Exchange:
        try:
            yield b"hello"
        except AuthenticationError as error:
            raise AuthenticationError("because of the moon") from error

    talk = Conversation(explains())
    talk.start()
    assert str(talk.refused(SaslAuthenticationFailedError())) == "because of the moon"


@pytest.mark.parametrize("stubborn", [True, False])
def test_a_mechanism_cannot_talk_its_way_past_a_refusal(stubborn: bool) -> None:
    def ignores() -> Exchange:
        try:
            yield b"hello"
        except AuthenticationError:
            if stubborn:
                yield b"let me in"

    talk = Conversation(ignores())
    talk.start()
    refusal: KafkaError = SaslAuthenticationFailedError()
    assert talk.refused(refusal) is refusal


def test_a_strangers_text_is_shown_as_one_short_line_without_secrets() -> None:
    assert shown("bad\x1b[2J\ntoken hunter2!", Secret("hunter2")) == "bad?[2J?token <hidden>!"
    assert len(shown("x" * 10_000)) == 201


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert is_text("päss 😀")
    assert not is_text("p\ud800")
