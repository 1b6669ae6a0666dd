"""PLAIN on the broker's side. The texts are those of Kafka 4.3.1; `test_like_kafka` compares."""

from __future__ import annotations

import pytest

from kclient.net.sasl import Plain
from kclient.types import Secret
from tests.unit.broker.security.support import ALICE, peer

WRONG = "Authentication failed: Invalid username or password"


def test_a_client_with_the_right_password_is_known_by_its_name() -> None:
    found = peer("PLAIN")
    answer = found.log_in(Plain("alice", Secret("alice-secret")))
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert (found.server.authenticated, found.server.failed) == (True, False)
    assert found.server.principal == "User:alice"


@pytest.mark.parametrize("password", ["wrong", "bob-secret", "alice-secre", "alice-secrett", "ALICE-SECRET"])
@pytest.mark.parametrize("user", ["alice", "mallory", "Alice"])
def test_a_wrong_password_and_an_unknown_name_get_the_same_answer(user: str, password: str) -> None:
    found = peer("PLAIN")
    answer = found.log_in(Plain(user, Secret(password)))
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (58, WRONG, b"")
    assert (found.server.authenticated, found.server.failed) == (False, True)
    assert found.server.principal == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"garbage", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (ALICE + b"\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 100_000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\xff\xfe\0alice-secret", WRONG),
        (b"\0alice\0\xed\xa0\x80", WRONG),
        (b"\0alice\0" + b"x" * 500_000, WRONG),
        (b"bob\0alice\0wrong", WRONG),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_malformed_is_refused_in_kafkas_words(message: bytes, said: str) -> None:
    found = peer("PLAIN")
    answer = found.begin("PLAIN", message)
    assert (answer.error_code, answer.error_message) == (58, said)
    assert found.server.failed


def test_a_client_may_ask_to_act_as_itself() -> None:
    found = peer("PLAIN")
    assert found.begin("PLAIN", b"alice" + ALICE).error_code == 0


def test_names_and_passwords_beyond_ascii_fit() -> None:
    found = peer("PLAIN", users={"jürgen": Secret("pässwörd✓")})
    assert found.log_in(Plain("jürgen", Secret("pässwörd✓"))).error_code == 0
    assert found.server.principal == "User:jürgen"


def test_a_listener_without_users_lets_nobody_in() -> None:
    found = peer("PLAIN", users={})
    assert found.begin("PLAIN", ALICE).error_message == WRONG


def test_a_user_of_the_scram_store_is_no_user_for_plain() -> None:
    found = peer("PLAIN", "SCRAM-SHA-256", users={})
    found.users.set_password("alice", "SCRAM-SHA-256", Secret("alice-secret"))
    assert found.begin("PLAIN", ALICE).error_message == WRONG
