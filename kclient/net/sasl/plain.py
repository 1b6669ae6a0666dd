"""SASL PLAIN (RFC 4616): user and password as they are. Only TLS keeps them from the network."""

from __future__ import annotations

from kclient.config import shown_half_made
from kclient.errors import AuthenticationError, ConfigurationError
from kclient.net.sasl.exchange import Exchange, is_text, shown
from kclient.types import Secret


class Plain:
    """Authenticates with user and password."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password
        for name, problem in (("username", _problem(username)), ("password", _problem(password.reveal()))):
            if problem:
                raise ConfigurationError(f"the {name} for SASL PLAIN {problem}")

    @shown_half_made
    def __repr__(self) -> str:
        return f"<Plain {self._username!r}>"

    async def exchange(self, _host: str, /) -> Exchange:
        return self._exchange()

    def _exchange(self) -> Exchange:
        # The answer means nothing: the password is out, and a broker that refuses it sends an error code.
        refusal = ""
        try:
            yield f"\0{self._username}\0{self._password.reveal()}".encode()
        except AuthenticationError as error:
            if self._password.reveal() not in str(error):
                raise
            refusal = shown(str(error), self._password)  # some brokers repeat what they got
        if refusal:
            raise AuthenticationError(refusal)


def _problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if "\0" in text:
        return "has a NUL character, which the mechanism cannot carry"
    return None if is_text(text) else "has half of a surrogate pair, which UTF-8 cannot carry"
