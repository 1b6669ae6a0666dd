"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides prove that they know the password.

What the broker says is not trusted until its signature is verified, so all of it is bounded: few iterations
would make the password cheap to guess from a recorded exchange, very many would keep this process busy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import NamedTuple

from kclient.config import shown_half_made
from kclient.errors import AuthenticationError, ConfigurationError
from kclient.net.sasl.exchange import Exchange, is_text, shown
from kclient.net.sasl.saslprep import saslprep as prepare
from kclient.types import Secret

MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 1_000_000

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NONCE_BYTES = 24
_NO_CHANNEL_BINDING = "n,,"
_CHALLENGE = re.compile(rb"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/]+={0,2}),i=([0-9]+)(?:,.*)?", re.DOTALL)
_VERIFIER = re.compile(rb"v=([A-Za-z0-9+/]+={0,2})(?:,.*)?", re.DOTALL)
# All brokers of a cluster hold the same salt for a user; a few more cover the time of a password change.
_KEPT_KEYS = 4


class Scram:
    """Authenticates with user and password, or with a delegation token: its id and its HMAC in base64.

    Kafka salts passwords as they are. RFC 5802 wants them prepared first, which `saslprep` does, for brokers
    that follow it; it changes few passwords, such as those with letters of full width.
    """

    def __init__(  # noqa: PLR0913 - credentials, and how to use them
        self,
        mechanism: str,
        username: str,
        password: Secret,
        *,
        delegation_token: bool = False,
        saslprep: bool = False,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        if mechanism not in _HASHES:
            raise ConfigurationError(f"{mechanism!r} is no SCRAM mechanism: use one of {', '.join(_HASHES)}")
        self.mechanism = mechanism
        self._username = _checked("username", Secret(username), saslprep).reveal()
        self._password = _checked("password", password, saslprep)
        self._password_changed = self._password != password
        self._extensions = ",tokenauth=true" if delegation_token else ""
        self._random_bytes = random_bytes
        self._derived: dict[tuple[bytes, int], _Keys] = {}

    @shown_half_made
    def __repr__(self) -> str:
        return f"<Scram {self.mechanism} {self._username!r}>"

    async def exchange(self, _host: str, /) -> Exchange:
        return self._exchange()

    def _exchange(self) -> Exchange:
        nonce = base64.b64encode(self._random_bytes(_NONCE_BYTES)).decode()
        first = f"n={_escaped(self._username)},r={nonce}{self._extensions}"
        answer = yield f"{_NO_CHANNEL_BINDING}{first}".encode()
        challenge = _read_challenge(answer, nonce)
        keys = self._keys(challenge)
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        final = f"c={binding},r={challenge.nonce}"
        said = b",".join((first.encode(), answer, final.encode()))
        try:
            answer = yield f"{final},p={keys.proof(said)}".encode()
        except AuthenticationError as refusal:
            if self._password_changed:
                raise AuthenticationError(
                    f"{refusal} (SASLprep changes this password, Kafka does not: sasl_scram_saslprep=False)"
                ) from refusal
            raise
        if not hmac.compare_digest(_read_signature(answer), keys.server_signature(said)):
            raise AuthenticationError(
                "the broker's SCRAM signature is wrong: it does not know the password and may be an impostor"
            )

    def _keys(self, challenge: _Challenge) -> _Keys:
        """Derived once per salt: a million iterations take a second or so, on the event loop."""
        known = challenge.salt, challenge.iterations
        keys = self._derived.get(known)
        if keys is None:
            if len(self._derived) == _KEPT_KEYS:
                del self._derived[next(iter(self._derived))]
            keys = self._derived[known] = _Keys(_HASHES[self.mechanism], self._password, *known)
        return keys


class _Challenge(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class _Keys:
    """What follows from password, salt and iterations; as good as the password, so never shown."""

    __slots__ = ("_client", "_hash", "_server")

    def __init__(self, hash_name: str, password: Secret, salt: bytes, iterations: int) -> None:
        salted = hashlib.pbkdf2_hmac(hash_name, password.reveal().encode(), salt, iterations)
        self._hash = hash_name
        self._client = hmac.digest(salted, b"Client Key", hash_name)
        self._server = hmac.digest(salted, b"Server Key", hash_name)

    def proof(self, said: bytes) -> str:
        stored = hashlib.new(self._hash, self._client).digest()
        signature = hmac.digest(stored, said, self._hash)
        proof = bytes(key ^ mask for key, mask in zip(self._client, signature, strict=True))
        return base64.b64encode(proof).decode()

    def server_signature(self, said: bytes) -> bytes:
        return hmac.digest(self._server, said, self._hash)


def _read_challenge(answer: bytes, nonce: str) -> _Challenge:
    found = _CHALLENGE.fullmatch(answer)
    if found is None:
        raise _not_understood(answer, "first")
    both_nonces = found[1].decode()
    if not both_nonces.startswith(nonce) or both_nonces == nonce:
        raise AuthenticationError("the broker's SCRAM nonce does not continue ours: the answer is not to us")
    iterations = int(found[3][:10])  # ten digits are too many already, and a longer number costs time
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise AuthenticationError(
            f"the broker asks for {iterations} SCRAM iterations, not {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    return _Challenge(both_nonces, _decoded(found[2], answer, "first"), iterations)


def _read_signature(answer: bytes) -> bytes:
    found = _VERIFIER.fullmatch(answer)
    if found is None:
        raise _not_understood(answer, "final")
    return _decoded(found[1], answer, "final")


def _decoded(text: bytes, answer: bytes, which: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _not_understood(answer, which) from error


def _not_understood(answer: bytes, which: str) -> AuthenticationError:
    if answer.startswith(b"e="):
        reason = answer[2:].partition(b",")[0].decode("utf-8", "replace")
        return AuthenticationError(f"the broker refuses the SCRAM login: {shown(reason)}")
    return AuthenticationError(f"the broker's {which} SCRAM message is malformed ({len(answer)} bytes)")


def _checked(name: str, text: Secret, saslprep: bool) -> Secret:
    if not text.reveal() or not is_text(text.reveal()):
        raise ConfigurationError(f"the {name} for SCRAM is empty, or has characters that UTF-8 cannot carry")
    if not saslprep:
        return text
    prepared = Secret(prepare(text.reveal()) or "")
    if not prepared.reveal():
        raise ConfigurationError(
            f"the {name} for SCRAM has characters that SASLprep (RFC 4013) prohibits: control characters, say"
        )
    return prepared


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")
