"""SASL OAUTHBEARER (RFC 7628): a token says who the client is. The exchange, and where tokens come from.

A broker refuses a token in two steps: it answers without an error code but with a JSON text, the client sends
one more byte, and only then comes the error code. Its first answer is not success.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from kclient.errors import AuthenticationError, ConfigurationError, KafkaError
from kclient.net.sasl.exchange import Exchange, shown
from kclient.types import Secret
from kclient.usercode import call, name_of

log: logging.Logger = logging.getLogger(__name__)

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, b64token
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")
_SEPARATOR = "\x01"
_REFUSAL_LIMIT = 65_536
# A new token is asked for when this part of the life of the one in hand is over.
_USED_LIFE = 0.8
# Seconds before its end at which a token may expire on its way to the broker.
_SPARE = 5.0
# Where the one in hand is still good: seconds that a login waits for a new one, and until the next one does.
_PATIENCE = 1.0
_ASK_AGAIN = 10.0


@dataclass(frozen=True, slots=True)
class Token:
    """An access token. `lifetime` is in seconds from now; without it the token is used for one login only."""

    value: Secret
    lifetime: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


Given: TypeAlias = str | Secret | Token
TokenCallback: TypeAlias = Callable[[], Given | Awaitable[Given]]


@runtime_checkable
class TokenProvider(Protocol):
    """An object with a `token` method, as other clients have it; its `extensions()` is optional."""

    def token(self) -> Given | Awaitable[Given]: ...


class OAuthBearer:
    """Authenticates with tokens from a callback or provider, which may be async and is awaited on the loop:
    one that waits for the network should be.

    A token with a lifetime is kept until four fifths of it are over; connections that need one at the same
    time share it. If the source fails or is slow then, the token goes on until it expires. `extensions`
    (KIP-342) go to the broker with the token.

    AWS MSK with IAM is a callback (`pip install aws-msk-iam-sasl-signer-python`):

        def token():
            value, _expires_at_ms = MSKAuthTokenProvider.generate_auth_token("eu-central-1")
            return value

        OAuthBearer(token)
    """

    mechanism = "OAUTHBEARER"

    def __init__(
        self,
        source: TokenCallback | TokenProvider,
        *,
        extensions: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_extensions(extensions or {})
        self._source = source
        self._extensions = dict(extensions or {})
        self._clock = clock
        self._fetching = asyncio.Lock()
        self._fetches = 0
        self._held: Token | None = None
        self._ask_at = 0.0
        self._good_until = 0.0

    def __repr__(self) -> str:
        return f"<OAuthBearer {'with a token' if self._held else 'without a token'}>"

    async def exchange(self, _host: str, /) -> Exchange:
        return self._exchange(await self._token())

    def _exchange(self, token: Token) -> Exchange:
        refusal: KafkaError | None = None
        status = ""
        try:
            status = _explained((yield self._first_message(token)), token.value)
            if not status:
                return
            yield _SEPARATOR.encode()
        except AuthenticationError as error:
            refusal = error
        if self._held is token:
            self._held = None
        if refusal is not None and token.value.reveal() in str(refusal):  # some brokers repeat what they got
            status = status or f"the broker refuses the OAuth token: {shown(str(refusal), token.value)}"
            refusal = None
        if refusal is not None and not status:
            raise refusal
        raise AuthenticationError(status) from refusal

    def _first_message(self, token: Token) -> bytes:
        pairs = {"auth": f"Bearer {token.value.reveal()}"} | self._extensions | dict(token.extensions)
        fields = [f"{name}={value}{_SEPARATOR}" for name, value in pairs.items()]
        return f"n,,{_SEPARATOR}{''.join(fields)}{_SEPARATOR}".encode()

    async def _token(self) -> Token:
        """The token to use now. A source that is down keeps nobody waiting while the one in hand is good."""
        held, now = self._held, self._clock()
        if held is None or now >= self._good_until:
            return await self._fetched()
        if now < self._ask_at or self._fetching.locked():
            return held
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._fetched()
        except KafkaError as error:
            failure = str(error)
        except TimeoutError:
            failure = f"it was not there within {_PATIENCE:g} s"
        log.warning("no new OAuth token, the one in hand goes on: %s", failure)
        self._ask_at = self._clock() + _ASK_AGAIN
        return held

    async def _fetched(self) -> Token:
        """A new token, which logins that wait at the same time share."""
        fetched_before = self._fetches
        async with self._fetching:
            if self._held is not None and self._fetches != fetched_before:
                return self._held
            asked_at = self._clock()
            token = await _fetch(self._source)
            self._fetches += 1
            self._held = token
            lifetime = token.lifetime or 0.0
            self._ask_at = asked_at + _USED_LIFE * lifetime
            self._good_until = max(self._ask_at, asked_at + lifetime - _SPARE)
            return token


async def _fetch(source: TokenCallback | TokenProvider) -> Token:
    token = _as_token(await _ask(source.token if isinstance(source, TokenProvider) else source))
    if hasattr(source, "extensions"):
        more = await _ask(source.extensions)
        token = Token(token.value, token.lifetime, {**token.extensions, **_as_mapping(more)})
    _check_extensions(token.extensions)
    if not _TOKEN.fullmatch(token.value.reveal()):
        raise AuthenticationError(
            "the OAuth token is empty or has characters that RFC 6750 does not allow; "
            "return the token alone, without 'Bearer' and without a line end"
        )
    return token


async def _ask(source: Callable[[], object]) -> object:
    given, error = await call(source)
    if error is None or isinstance(error, KafkaError):
        if error is not None:
            raise error
        return given
    # Its text may hold a secret, so only its kind is told.
    raise AuthenticationError(
        f"the OAuth token provider {name_of(source)} failed: {type(error).__name__}"
    ) from error


def _as_mapping(given: object) -> Mapping[str, str]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return given
    raise ConfigurationError(f"the extensions of the OAuth token provider are {given!r}: return a mapping")


def _as_token(given: object) -> Token:
    kind = type(given).__name__
    if isinstance(given, Token):
        return _checked(given)
    given = Secret(given) if isinstance(given, str) else given
    if isinstance(given, Secret):
        return Token(given)
    del given  # it may hold a token, and tracebacks can show what variables hold
    raise ConfigurationError(f"the OAuth token provider returned {kind}: return a str, Secret or Token")


def _checked(token: Token) -> Token:
    """A token whose fields are what they say: nobody has run a type checker over a provider."""
    value: object = token.value
    lifetime: object = token.lifetime
    if not isinstance(value, (str, Secret)):
        raise ConfigurationError(f"the OAuth token's value is {type(value).__name__}: give a str or Secret")
    if lifetime is not None and not isinstance(lifetime, (int, float)):
        raise ConfigurationError(
            f"the OAuth token's lifetime={lifetime!r} must be a number of seconds, or None"
        )
    return token if isinstance(value, Secret) else Token(Secret(value), token.lifetime, token.extensions)


def _check_extensions(extensions: Mapping[str, str]) -> None:
    given: Mapping[Any, Any] = extensions  # a provider's, over which no type checker was run
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise ConfigurationError(f"the SASL extension {name!r} must be text, and its value too")
        if not _EXTENSION_NAME.fullmatch(name) or name.lower() == "auth":
            raise ConfigurationError(
                f"{name!r} is no name for a SASL extension: use letters only, and not 'auth'"
            )
        if not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigurationError(f"the SASL extension {name!r} is empty or has characters beyond ASCII")


def _explained(answer: bytes, token: Secret) -> str:
    """Why the broker refuses the token, from its JSON text; an empty answer is no refusal."""
    if not answer:
        return ""
    content: object = None
    if len(answer) <= _REFUSAL_LIMIT:
        try:
            content = json.loads(answer)
        except (ValueError, RecursionError):
            content = None
    if not isinstance(content, dict):
        return f"the broker refuses the OAuth token, with {len(answer)} bytes that are no JSON object"
    said = [f"{name} {content[name]}" for name in ("status", "scope") if isinstance(content.get(name), str)]
    return f"the broker refuses the OAuth token: {shown(', '.join(said), token) or 'it does not say why'}"
