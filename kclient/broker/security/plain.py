"""The server half of SASL PLAIN (RFC 4616): user and password as they are. Driven by `sasl_server`."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from kclient.broker.security.exchange import Proven, RefusedError
from kclient.types import Secret

_PARTS = 3


class PlainExchange:
    """Compares with the passwords of a listener. A name that nobody has costs as long as a wrong password."""

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords

    def step(self, message: bytes, /) -> Proven:
        # Invalid UTF-8 becomes text that no password has, as in Kafka.
        parts = message.decode("utf-8", "replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise RefusedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        act_as, user, password = parts
        for name, value in (("username", user), ("password", password)):
            if not value:
                raise RefusedError(f"Authentication failed: {name} not specified")
        if not self._fits(user, password):
            raise RefusedError("Authentication failed: Invalid username or password")
        if act_as not in ("", user):
            raise RefusedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Proven(user)

    def _fits(self, user: str, password: str) -> bool:
        known = self._passwords.get(user)
        expected = Secret(secrets.token_hex()) if known is None else known
        # Digests have one length, so not even that of the password shows in the time.
        same = hmac.compare_digest(_digest(password), _digest(expected.reveal()))
        return same and known is not None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
