"""The SCRAM credentials of a cluster, as AlterUserScramCredentials changes them. Never a password.

One store serves all listeners and nodes. PLAIN passwords are not here: they belong to a listener
(`ListenerSpec`), as in Kafka; `seed` derives SCRAM credentials from them once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kclient.errors import (
    ConfigurationError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from kclient.types import Secret

if TYPE_CHECKING:
    from kclient.broker.security.listeners import ListenerSpec

# By the numbers that Kafka gives them in requests.
SCRAM_MECHANISMS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
HASHES: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_RANDOM_BITS = 130


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a password: enough to check a proof, not enough to make one."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def from_salted(cls, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """From the salted password that AlterUserScramCredentials brings."""
        hash_name = HASHES[mechanism]
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        return cls(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", hash_name))

    @classmethod
    def from_password(
        cls, mechanism: str, password: Secret, *, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        """From a password; Kafka salts it as it is, without SASLprep."""
        salt = random_text().encode() if salt is None else salt
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.reveal().encode(), salt, iterations)
        return cls.from_salted(mechanism, salted, salt, iterations)


class UserStore:
    """Credentials by user and mechanism.

    >>> users = UserStore()
    >>> users.set_password("alice", "SCRAM-SHA-256", Secret("alice-secret"))
    >>> users.iterations("alice")
    {'SCRAM-SHA-256': 4096}
    """

    def __init__(self) -> None:
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._seeded: dict[tuple[str, str], bytes] = {}
        self._secret = secrets.token_bytes(32)

    def __repr__(self) -> str:
        return f"<UserStore {len(self._credentials)} SCRAM credentials of {len(self.users())} users>"

    def seed(self, spec: ListenerSpec) -> None:
        """Take over the users of a listener that offers SCRAM.

        Whoever was taken over once is not again, in however many listeners: a password that was changed or
        deleted since then stays so. Of the passwords themselves only a keyed fingerprint is kept, to
        compare listeners.
        """
        for mechanism in (name for name in HASHES if name in spec.mechanisms):
            for user, password in spec.users.items():
                fingerprint = hmac.digest(self._secret, password.reveal().encode(), "sha256")
                before = self._seeded.get((user, mechanism))
                if before is None:
                    self._seeded[user, mechanism] = fingerprint
                    self.set_password(user, mechanism, password)
                elif not hmac.compare_digest(before, fingerprint):
                    raise ConfigurationError(
                        f"two listeners have different passwords for {user!r}: SCRAM knows one per cluster"
                    )

    def set_password(
        self, user: str, mechanism: str, password: Secret, *, iterations: int = MIN_ITERATIONS
    ) -> None:
        """Keep what follows from a password; a salt is made up."""
        _check(user, mechanism)
        _check_iterations(iterations)
        self.upsert(
            user, mechanism, ScramCredential.from_password(mechanism, password, iterations=iterations)
        )

    def upsert(self, user: str, mechanism: str, credential: ScramCredential) -> None:
        """Keep a credential in the place of an older one. Raises the `BrokerError` that Kafka answers."""
        _check(user, mechanism)
        _check_iterations(credential.iterations)
        self._credentials[user, mechanism] = credential

    def delete(self, user: str, mechanism: str) -> None:
        """Forget a credential. Raises the `BrokerError` that Kafka answers with."""
        _check(user, mechanism)
        if self._credentials.pop((user, mechanism), None) is None:
            raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")

    def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        return self._credentials.get((user, mechanism))

    def decoy(self, user: str, mechanism: str) -> ScramCredential:
        """For a user who has none: looks like a credential, the same each time, and no password fits it."""

        def digest(purpose: str) -> bytes:
            return hmac.digest(
                self._secret, f"{purpose} {mechanism} {user}".encode("utf-8", "replace"), HASHES[mechanism]
            )

        # `digest` is as long as the mechanism's keys; the salt has the form of those made by us and by Kafka.
        salt = as_text(int.from_bytes(digest("salt")) >> (len(digest("salt")) * 8 - _RANDOM_BITS)).encode()
        return ScramCredential(salt, MIN_ITERATIONS, digest("stored"), digest("server"))

    def users(self) -> list[str]:
        return sorted({user for user, _ in self._credentials})

    def iterations(self, user: str) -> dict[str, int]:
        """What DescribeUserScramCredentials tells: the user's mechanisms, each with its iterations."""
        return {
            mechanism: found.iterations
            for mechanism in HASHES
            if (found := self._credentials.get((user, mechanism))) is not None
        }


def random_text(random_bits: Callable[[int], int] = secrets.randbits) -> str:
    """A salt or nonce in the form of Kafka's: 130 random bits in letters and digits."""
    return as_text(random_bits(_RANDOM_BITS))


def as_text(number: int) -> str:
    """A number in base 36."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"


def _check(user: str, mechanism: str) -> None:
    if mechanism not in HASHES:
        raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    if not user:
        raise UnacceptableCredentialError("Username must not be empty")


def _check_iterations(iterations: int) -> None:
    if iterations < MIN_ITERATIONS:
        raise UnacceptableCredentialError("Too few iterations")
    if iterations > MAX_ITERATIONS:
        raise UnacceptableCredentialError("Too many iterations")
