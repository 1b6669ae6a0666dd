"""The broker's side of a SASL login, without I/O: `node` brings requests and sends the answers.

| state | SaslHandshake | SaslAuthenticate | everything else |
|---|---|---|---|
| GREETING | of what is offered: PROVING; else error 33, FAILED | error 34, FAILED | ApiVersions only |
| PROVING | error 34, FAILED | the mechanism decides: PROVING, KNOWN, or error 58 and FAILED | refused |
| KNOWN | a session that ends may be renewed: PROVING; else error 34 | error 34 | until the session ends |
| FAILED | error 34 | error 34 | refused |

A session ends where the listener (`max_reauth_ms`) or the credential (a token's `exp`) says so, and is
renewed by another login (KIP-368) with the same mechanism and as the same principal, at most once a second.
While that is under way, nothing else is served. Once the end has passed, only a handshake is still taken.
The state is FAILED while a mechanism works, so whatever it raises leaves nobody logged in.

Kafka 4.3 differs in places that no honest client sees: it closes without an answer where this answers an
error (SaslAuthenticate first, another mechanism in a renewal), it refuses unknown SCRAM users at their
first message, and takes a second token after it refused one.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kclient.broker.security.exchange import Exchange, Proven, RefusedError
from kclient.broker.security.listeners import ListenerSpec
from kclient.broker.security.oauthbearer import OAuthBearerExchange
from kclient.broker.security.plain import PlainExchange
from kclient.broker.security.principals import ANONYMOUS
from kclient.broker.security.scram import ScramExchange
from kclient.broker.security.users import UserStore, random_text
from kclient.clock import Clock
from kclient.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kclient.wire.api import ApiKey
from kclient.wire.messages.connection import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

MAX_MESSAGE = 524_288  # sasl.server.max.receive.size
_RENEWAL_INTERVAL = 1.0
# The order in which Kafka lists them, whatever the order in which they were configured.
_LISTED = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER")


class State(Enum):
    """Where a login is."""

    GREETING = "greeting"
    PROVING = "proving"
    KNOWN = "known"
    FAILED = "failed"


_ADMITTED = {
    State.GREETING: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}),
    State.PROVING: frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}),
    State.FAILED: frozenset[ApiKey](),
}


class SaslServer:
    """Who is at the other end of one connection. `principal` is set by the login and kept by renewals."""

    def __init__(
        self,
        spec: ListenerSpec,
        users: UserStore,
        clock: Clock,
        *,
        new_nonce: Callable[[], str] = random_text,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        users.seed(spec)
        self._spec = spec
        self._users = users
        self._clock = clock
        self._new_nonce = new_nonce
        self._max_message = max_message
        self._state = State.GREETING
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._established: str | None = None  # the mechanism of the first login
        self._renewed_at: float | None = None
        self.principal: str = ANONYMOUS
        self.raw_tokens: bool = False  # after SaslHandshake v0: frames hold tokens alone, for `raw`
        self.must_reauthenticate_by: float | None = None  # wall clock

    def __repr__(self) -> str:
        return f"<SaslServer {self._state.value} {self.principal} {self._mechanism or 'no mechanism yet'}>"

    @property
    def authenticated(self) -> bool:
        """Whether requests are served; not while a login is renewed."""
        return self._state is State.KNOWN

    @property
    def failed(self) -> bool:
        """Whether the connection is to be closed once the last answer is sent."""
        return self._state is State.FAILED

    def expired(self, now: float | None = None) -> bool:
        """Whether the session is over: the connection is to be closed, unless a SaslHandshake comes."""
        end = self.must_reauthenticate_by
        return self.authenticated and end is not None and (self._clock.wall() if now is None else now) > end

    def admits(self, key: int) -> bool:
        """Whether a request of this kind may be handled now; the connection of one that may not is closed."""
        if self._state is State.KNOWN:
            return key == ApiKey.SASL_HANDSHAKE or not self.expired()
        return key in _ADMITTED[self._state]

    def handshake(self, request: SaslHandshakeRequest, version: int = 1) -> SaslHandshakeResponse:
        """Choose a mechanism; the first step of a login or of its renewal."""
        if self.authenticated:
            if not self._may_renew():
                return SaslHandshakeResponse(error_code=IllegalSaslStateError.code, mechanisms=[])
            self._renewed_at = self._clock.wall()
        elif self._state is not State.GREETING:
            self._state = State.FAILED
            return SaslHandshakeResponse(error_code=IllegalSaslStateError.code, mechanisms=[])
        offered = [name for name in _LISTED if name in self._spec.mechanisms]
        if request.mechanism not in offered:
            self._state = State.FAILED
            return SaslHandshakeResponse(error_code=UnsupportedSaslMechanismError.code, mechanisms=offered)
        self._mechanism = request.mechanism
        self._exchange = self._begin()
        self.raw_tokens = version == 0
        self._state = State.PROVING
        return SaslHandshakeResponse(error_code=0, mechanisms=offered)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Take the mechanism's next message."""
        if self.authenticated:
            return _error(
                IllegalSaslStateError.code,
                "SaslAuthenticate request received after successful authentication",
            )
        if self._state is not State.PROVING:
            self._state = State.FAILED
            return _error(
                IllegalSaslStateError.code,
                "Unexpected Kafka request of type SASL_AUTHENTICATE during SASL handshake.",
            )
        try:
            message, lifetime_ms = self._advance(bytes(request.auth_bytes))
        except RefusedError as refusal:
            return _error(SaslAuthenticationFailedError.code, refusal.said or self._no_more_than_failed())
        return SaslAuthenticateResponse(
            error_code=0, error_message="", auth_bytes=message, session_lifetime_ms=lifetime_ms
        )

    def raw(self, token: bytes) -> bytes | None:
        """Take the next message of a client without SaslAuthenticate; None closes without an answer."""
        if self._state is not State.PROVING or not self.raw_tokens:
            self._state = State.FAILED
            return None
        try:
            return self._advance(token)[0]
        except RefusedError:
            return None

    def _advance(self, message: bytes) -> tuple[bytes, int]:
        exchange, self._exchange = self._exchange, None
        self._state = State.FAILED
        if self._established not in (None, self._mechanism):
            raise RefusedError(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported "
                f"for re-authentication of mechanism '{self._established}'"
            )
        if exchange is None or len(message) > self._max_message:
            raise RefusedError
        outcome = exchange.step(message)
        if isinstance(outcome, Proven):
            return outcome.last_word, self._know(outcome)
        self._exchange, self._state = exchange, State.PROVING
        return outcome, 0

    def _know(self, proven: Proven) -> int:
        """Note who the client is; how long that holds, in milliseconds, 0 for as long as it stays."""
        principal = f"User:{proven.user}"
        if self._established is not None and principal != self.principal:
            before, now = self.principal.replace(":", ".", 1), principal.replace(":", ".", 1)
            raise RefusedError(f"Cannot change principals during re-authentication from {before}: {now}")
        now_s = self._clock.wall()
        limits = [self._spec.max_reauth_ms] if self._spec.max_reauth_ms else []
        if proven.expires_at is not None:
            limits.append(max(0, int((proven.expires_at - now_s) * 1000)))
        self.must_reauthenticate_by = now_s + min(limits) / 1000 if limits else None
        self.principal = principal
        self._established = self._mechanism
        self.raw_tokens = False
        self._state = State.KNOWN
        return min(limits, default=0)

    def _may_renew(self) -> bool:
        if self.must_reauthenticate_by is None:
            return False
        return self._renewed_at is None or self._clock.wall() - self._renewed_at >= _RENEWAL_INTERVAL

    def _begin(self) -> Exchange:
        if self._mechanism == "PLAIN":
            return PlainExchange(self._spec.users)
        if self._mechanism == "OAUTHBEARER":
            assert self._spec.oauth is not None, "a spec with OAUTHBEARER has a verifier"
            return OAuthBearerExchange(self._spec.oauth)
        return ScramExchange(self._mechanism, self._users, self._new_nonce)

    def _no_more_than_failed(self) -> str:
        what = "authentication" if self._established is None else "re-authentication"
        why = f"due to invalid credentials with SASL mechanism {self._mechanism}"
        return f"Authentication failed during {what} {why}"


def _error(code: int, message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
