"""The store of SCRAM credentials, in the words of Kafka's AlterUserScramCredentials."""

from __future__ import annotations

import hashlib

import pytest

from kclient.broker.security import ListenerSpec, ScramCredential, UserStore
from kclient.errors import (
    BrokerError,
    ConfigurationError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from kclient.types import Secret
from tests.unit.broker.security.support import SCRAMS, USERS


def _spec(name: str, **users: Secret) -> ListenerSpec:
    return ListenerSpec(name, "SASL_PLAINTEXT", mechanisms=("PLAIN", *SCRAMS), users=users)


@pytest.mark.parametrize(
    ("user", "mechanism", "iterations", "kind", "said"),
    [
        ("u", "SCRAM-SHA-256", 4095, UnacceptableCredentialError, "Too few iterations"),
        ("u", "SCRAM-SHA-512", 16385, UnacceptableCredentialError, "Too many iterations"),
        ("", "SCRAM-SHA-256", 4096, UnacceptableCredentialError, "Username must not be empty"),
        ("u", "PLAIN", 4096, UnsupportedSaslMechanismError, "Unknown SCRAM mechanism"),
    ],
)
def test_a_credential_that_kafka_would_not_take_is_refused_in_its_words(
    user: str, mechanism: str, iterations: int, kind: type[BrokerError], said: str
) -> None:
    users = UserStore()
    with pytest.raises(kind) as caught:
        users.upsert(user, mechanism, ScramCredential(b"salt", iterations, b"", b""))
    assert caught.value.message == said
    with pytest.raises(kind):
        users.set_password(user, mechanism, Secret("x"), iterations=iterations)
    assert users.users() == []


def test_what_is_not_there_cannot_be_deleted() -> None:
    users = UserStore()
    users.set_password("alice", "SCRAM-SHA-256", Secret("x"))
    with pytest.raises(ResourceNotFoundError) as caught:
        users.delete("alice", "SCRAM-SHA-512")
    assert caught.value.message == "Attempt to delete a user credential that does not exist"
    users.delete("alice", "SCRAM-SHA-256")
    assert users.users() == []


def test_users_are_described_with_their_mechanisms() -> None:
    users = UserStore()
    users.set_password("bob", "SCRAM-SHA-512", Secret("x"), iterations=8192)
    users.set_password("bob", "SCRAM-SHA-256", Secret("x"))
    users.set_password("alice", "SCRAM-SHA-256", Secret("y"))
    assert users.users() == ["alice", "bob"]
    assert users.iterations("bob") == {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}
    assert users.iterations("nobody") == {}


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_a_salted_password_from_a_request_gives_the_same_credential_as_the_password(mechanism: str) -> None:
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(name, b"secret", b"salt", 5000)
    assert ScramCredential.from_salted(mechanism, salted, b"salt", 5000) == ScramCredential.from_password(
        mechanism, Secret("secret"), salt=b"salt", iterations=5000
    )


def test_every_credential_has_a_salt_of_its_own() -> None:
    salts = {ScramCredential.from_password("SCRAM-SHA-256", Secret("x")).salt for _ in range(5)}
    assert len(salts) == 5


def test_the_users_of_a_listener_are_taken_over_once() -> None:
    users, spec = UserStore(), _spec("A", **USERS)
    users.seed(spec)
    assert users.users() == ["alice", "bob"]
    assert list(users.iterations("alice")) == SCRAMS
    users.delete("alice", "SCRAM-SHA-256")
    users.set_password("bob", "SCRAM-SHA-256", Secret("changed"))
    changed = users.credential("bob", "SCRAM-SHA-256")
    users.seed(spec)
    users.seed(_spec("B", **USERS))
    assert users.credential("alice", "SCRAM-SHA-256") is None
    assert users.credential("bob", "SCRAM-SHA-256") is changed


def test_listeners_that_disagree_about_a_password_are_refused() -> None:
    users = UserStore()
    users.seed(_spec("A", alice=Secret("one")))
    with pytest.raises(ConfigurationError, match="different passwords for 'alice'"):
        users.seed(_spec("B", alice=Secret("two")))
