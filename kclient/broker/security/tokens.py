"""Bearer tokens: what a verifier is, how a JSON web token is taken apart, and which claims must hold.

Signatures are `jwks`'s. There is no verifier that accepts tokens because nothing was configured: whoever
wants tokens that nobody signed says so (`UnsecuredTokens`). `oauthbearer` calls verifiers.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from kclient.clock import Clock, SystemClock
from kclient.errors import AuthenticationError, ConfigurationError
from kclient.types import Secret

LEEWAY = 30.0  # seconds that clocks may differ, as in Kafka


class TokenRefusedError(AuthenticationError):
    """A token that proves nothing. The reason is not for the client, who learns only `invalid_token`."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """Whom a token is about, and until when (seconds of the wall clock)."""

    subject: str
    expires_at: float


class TokenVerifier(Protocol):
    """Decides about tokens. Serves all connections of a listener and may not block."""

    def verify(self, token: Secret, /) -> VerifiedToken:
        """What the token proves. Raises `TokenRefusedError` if that is nothing."""


@dataclass(frozen=True, slots=True)
class Jwt:
    """A token taken apart. Nothing in it is true before the signature is verified."""

    header: dict[str, Any]
    claims: dict[str, Any] = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def parse(cls, token: Secret) -> Jwt:
        found = _taken_apart(token)
        if found is None:
            raise TokenRefusedError(
                "the token is no signed JSON web token: three parts in base64url, two of them JSON objects"
            )
        return found

    @property
    def algorithm(self) -> str:
        found = self.header.get("alg")
        if not isinstance(found, str) or "crit" in self.header:
            raise TokenRefusedError(
                "the token's header names no algorithm, or demands what is not understood"
            )
        return found


class UnsecuredTokens:
    """Takes tokens that nobody signed (`alg` none) at their word, as a Kafka without a validator does.

    For tests of clients only: whoever reaches the listener may be anybody. The argument has to be given.

    >>> UnsecuredTokens(i_know_these_are_not_verified=True)
    <UnsecuredTokens: NOT verified>
    """

    def __init__(self, *, i_know_these_are_not_verified: bool, clock: Clock | None = None) -> None:
        if i_know_these_are_not_verified is not True:
            raise ConfigurationError(
                "unsecured tokens let everybody in as anybody: use JwksVerifier, "
                "or say i_know_these_are_not_verified=True"
            )
        self._clock = clock or SystemClock()

    def __repr__(self) -> str:
        return "<UnsecuredTokens: NOT verified>"

    def verify(self, token: Secret, /) -> VerifiedToken:
        jwt = Jwt.parse(token)
        if jwt.algorithm != "none" or jwt.signature:
            raise TokenRefusedError("the token is signed, and there is no key to verify it with")
        return check_times(jwt, self._clock.wall())


def check_times(jwt: Jwt, now: float) -> VerifiedToken:
    """The claims that every token has: a subject, and times that include this one."""
    subject = jwt.claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise TokenRefusedError("the token has no subject")
    expires_at = _time(jwt, "exp")
    if expires_at is None or expires_at <= now:
        raise TokenRefusedError("the token has expired, or does not say when it will")
    for claim in ("nbf", "iat"):
        since = _time(jwt, claim)
        if since is not None and since > now + LEEWAY:
            raise TokenRefusedError(f"the token is not valid yet, by its {claim}")
    return VerifiedToken(subject, expires_at)


def _time(jwt: Jwt, claim: str) -> float | None:
    value = jwt.claims.get(claim)
    if value is None:
        return None
    # Beyond this lies a mistake: milliseconds for seconds, say.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        raise TokenRefusedError(f"the token's {claim} is no time in seconds")
    return float(value)


# What follows gives None for what it cannot read: an exception would carry the token into tracebacks.
def _taken_apart(token: Secret) -> Jwt | None:
    parts = token.reveal().split(".", 3)
    if len(parts) != 3:
        return None
    header, claims, signature = (base64url(part) for part in parts)
    if header is None or claims is None or signature is None:
        return None
    named, claimed = _object(header), _object(claims)
    if named is None or claimed is None:
        return None
    return Jwt(named, claimed, f"{parts[0]}.{parts[1]}".encode(), signature)


def base64url(text: str) -> bytes | None:
    """The bytes behind base64 in the alphabet of URLs, which has no padding."""
    if not text.isascii() or any(char in text for char in "=+/"):
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except binascii.Error:
        return None


def _object(data: bytes) -> dict[str, Any] | None:
    """A JSON object in which no name comes twice: who reads the first and who reads the last would differ."""
    try:
        found = json.loads(data, object_pairs_hook=_distinct, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond all bounds")
    return number
