"""What all SASL mechanisms have in common: an exchange is a generator that does no I/O.

It yields the bytes of the next SaslAuthenticate request and is resumed with the `auth_bytes` of the answer.
It returns once the mechanism is content with the broker and raises `AuthenticationError` if it is not: after
a few messages, whatever the broker says. An error code that the broker answers with is thrown into it as an
exception, so that the mechanism can add what it knows.

`dial` drives exchanges, through `Conversation`; a mechanism is an `Authenticator`, which makes them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeAlias

from kclient.errors import KafkaError
from kclient.types import Secret

Exchange: TypeAlias = Generator[bytes, bytes, None]

_SHOWN = 200


class Authenticator(Protocol):
    """Who a client is, and how it proves that. One serves all connections of a client."""

    @property
    def mechanism(self) -> str:
        """The name that goes into SaslHandshake."""

    async def exchange(self, host: str, /) -> Exchange:
        """A fresh exchange for one authentication with the broker on `host`, the first or a later one.

        What has to be awaited (a token, a ticket) is awaited here, before the exchange begins.
        """


class Conversation:
    """The rules of an exchange: `start` once, then `answer` for every answer until it returns None.

    >>> def mechanism():
    ...     assert (yield b"hello") == b"who are you?"
    ...     yield b"me"
    >>> talk = Conversation(mechanism())
    >>> talk.start(), talk.answer(b"who are you?"), talk.answer(b""), talk.done
    (b'hello', b'me', None, True)
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._rounds = 0
        self.done: bool = False

    def __repr__(self) -> str:
        return f"<Conversation {'done' if self.done else 'open'} after {self._rounds} rounds>"

    def start(self) -> bytes:
        """The first message: in all of Kafka's mechanisms the client speaks first."""
        if self._rounds or self.done:
            raise RuntimeError("this exchange has begun already: make a new one to authenticate again")
        self._rounds = 1
        return next(self._exchange)

    def answer(self, auth_bytes: bytes) -> bytes | None:
        """Take the broker's answer; the next message to send, or None when the exchange is complete."""
        if not self._rounds or self.done:
            raise RuntimeError("no answer is due: the exchange has not begun, or is over")
        try:
            message = self._exchange.send(auth_bytes)
        except StopIteration:
            self.done = True
            return None
        except BaseException:
            self.done = True
            raise
        self._rounds += 1
        return message

    def refused(self, error: KafkaError) -> KafkaError:
        """The broker answered with an error: what to raise, with what the mechanism has to say about it."""
        self.done = True
        try:
            self._exchange.throw(error)
        except KafkaError as explained:
            return explained
        except StopIteration:
            return error
        self.close()
        return error

    def close(self) -> None:
        """Give the exchange up."""
        self.done = True
        self._exchange.close()


def shown(text: str, *hidden: Secret) -> str:
    """A stranger's text as it may stand in an error: one printable line, not long, without our secrets."""
    for secret in hidden:
        text = text.replace(secret.reveal(), "<hidden>")
    line = "".join(char if char.isprintable() else "?" for char in text[:_SHOWN])
    return line if len(text) <= _SHOWN else f"{line}…"


def is_text(text: str) -> bool:
    """Whether UTF-8 can carry a text; told without an exception, which would carry a text that is secret."""
    return not any("\ud800" <= char <= "\udfff" for char in text)
