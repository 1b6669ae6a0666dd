"""The server half of SASL OAUTHBEARER (RFC 7628): a token says who the client is. Driven by `sasl_server`.

A token is refused in two steps: a JSON text without an error code, then, after one more byte from the
client, the error. As in Kafka a token has the characters of a JSON web token only.
"""

from __future__ import annotations

import re

from kclient.broker.security.exchange import Proven, RefusedError
from kclient.broker.security.tokens import TokenRefusedError, TokenVerifier
from kclient.types import Secret

_SEPARATOR = "\x01"
_HEADER = re.compile(r"n,(?:a=((?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_PAIR = re.compile(r"([A-Za-z]+)=([\x20-\x7e\t\r\n]+)")
_AUTH = re.compile(r"bearer +([-_.A-Za-z0-9]+)", re.IGNORECASE)
_INVALID = '{"status":"invalid_token"}'


class OAuthBearerExchange:
    """One message, or two where the token is refused."""

    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier
        self._refused = False

    def step(self, message: bytes, /) -> bytes | Proven:
        if self._refused:
            raise RefusedError(_INVALID if message == _SEPARATOR.encode() else None)
        act_as, token = _read(message)
        try:
            found = self._verifier.verify(token)
        except TokenRefusedError:
            self._refused = True
            return _INVALID.encode()
        if act_as not in (None, found.subject):
            raise RefusedError(
                f"Authentication failed: Client requested an authorization id ({act_as}) that is different "
                f"from the token's principal name ({found.subject})"
            )
        return Proven(found.subject, expires_at=found.expires_at)


def _read(message: bytes) -> tuple[str | None, Secret]:
    """Whom the client wants to act as, and the token; the extensions (KIP-342) are checked and left alone."""
    try:
        header, *pairs, last, end = message.decode("ascii").split(_SEPARATOR)
    except ValueError as error:  # also if there are too few parts
        raise RefusedError from error
    greeting = _HEADER.fullmatch(header)
    if greeting is None or last or end:
        raise RefusedError
    values: dict[str, str] = {}
    for pair in pairs:
        found = _PAIR.fullmatch(pair)
        if found is None or found[1] in values:
            raise RefusedError
        values[found[1]] = found[2]
    auth = _AUTH.fullmatch(values.get("auth", ""))
    if auth is None:
        raise RefusedError
    act_as = greeting[1]
    return act_as and act_as.replace("=2C", ",").replace("=3D", "="), Secret(auth[1])
