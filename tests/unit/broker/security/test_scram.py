"""SCRAM on the broker's side: the vector of RFC 7677, kclient's client half, and clients that mean harm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.broker.security import ScramCredential, UserStore
from kclient.types import Secret
from tests.unit.broker.security.support import SCRAMS, Peer, generic, peer, scram

FIRST = b"n,,n=alice,r=abc"


def _fields(message: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.decode().split(","))


def _challenged(found: Peer, first: bytes = FIRST, mechanism: str = "SCRAM-SHA-256") -> bytes:
    answer = found.begin(mechanism, first)
    assert answer.error_code == 0
    return bytes(answer.auth_bytes)


def _final(
    challenge: bytes,
    first: bytes = FIRST,
    password: str = "alice-secret",
    binding: str = "n,,",
    **changes: str,
) -> bytes:
    """The client's second message, written from RFC 5802 without looking at either half."""
    fields = _fields(challenge) | changes
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    unproven = f"c={base64.b64encode(binding.encode()).decode()},r={fields['r']}".encode()
    said = b",".join((first.split(b",", 2)[2], challenge, unproven))
    mask = hmac.digest(hashlib.sha256(key).digest(), said, "sha256")
    proof = bytes(one ^ other for one, other in zip(key, mask, strict=True))
    return unproven + b",p=" + base64.b64encode(proof)


def test_the_exchange_of_rfc_7677_is_reproduced_byte_by_byte() -> None:
    users = UserStore()
    credential = ScramCredential.from_password(
        "SCRAM-SHA-256", Secret("pencil"), salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    )
    users.upsert("user", "SCRAM-SHA-256", credential)
    found = peer("SCRAM-SHA-256", store=users, new_nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert _challenged(found, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    answer = found.send(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert answer.auth_bytes == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert found.server.principal == "User:user"


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_client_and_server_convince_each_other(mechanism: str) -> None:
    found = peer(mechanism)
    assert found.log_in(scram(mechanism)).error_code == 0
    assert found.server.principal == "User:alice"


@pytest.mark.parametrize("mechanism", SCRAMS)
@pytest.mark.parametrize("client", [("alice", "wrong"), ("alice", "bob-secret"), ("mallory", "alice-secret")])
def test_a_wrong_password_and_an_unknown_name_get_the_same_answer_at_the_same_step(
    mechanism: str, client: tuple[str, str]
) -> None:
    found = peer(mechanism)
    answer = found.log_in(scram(mechanism, *client))
    assert (answer.error_code, answer.error_message) == (58, generic(mechanism))
    assert answer.auth_bytes == b""
    assert found.server.failed
    assert found.server.principal == "User:ANONYMOUS"


def test_the_challenge_for_an_unknown_name_looks_like_any_other_and_stays_the_same() -> None:
    users = UserStore()
    challenges = {
        name: [
            _fields(_challenged(peer("SCRAM-SHA-256", store=users), f"n,,n={name},r=abc".encode()))
            for _ in range(2)
        ]
        for name in ("alice", "mallory", "trudy")
    }
    salts = {name: {each["s"] for each in twice} for name, twice in challenges.items()}
    assert all(len(found) == 1 for found in salts.values())
    assert len(set.union(*salts.values())) == 3
    for name in ("mallory", "trudy"):
        salt = base64.b64decode(challenges[name][0]["s"])
        assert salt.isalnum()
        assert 20 <= len(salt) <= 26
        assert challenges[name][0]["i"] == "4096"


def test_decoys_differ_between_brokers() -> None:
    first, second = (UserStore().decoy("mallory", "SCRAM-SHA-256") for _ in range(2))
    assert first.salt != second.salt


def test_nonces_continue_the_clients_and_never_repeat() -> None:
    nonces = [_fields(_challenged(peer("SCRAM-SHA-256")))["r"] for _ in range(5)]
    assert len(set(nonces)) == 5
    assert all(nonce.startswith("abc") and len(nonce) > 20 for nonce in nonces)


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", ",=,="])
def test_commas_and_equals_signs_in_names_are_unescaped(name: str) -> None:
    found = peer("SCRAM-SHA-256", users={name: Secret("its-secret")})
    assert found.log_in(scram(user=name, password="its-secret")).error_code == 0
    assert found.server.principal == f"User:{name}"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"garbage",
        b"n,,n=alice",
        b"n,,r=abc,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=a=lice,r=abc",
        b"n,,n=al\0ice,r=abc",
        b"n,,n=alice,r=ab c",
        b"n,,m=x,n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        "n,,n=jürgen,r=abc".encode(),
        b"\xff\xff",
        FIRST + b"\0",
        FIRST + b",",
        b"n,,n=" + b"=2" * 200_000,
        FIRST + b",a=b" * 100_000 + b",",
    ],
    ids=lambda first: str(first)[:30],
)
def test_a_first_message_that_is_malformed_is_refused(first: bytes) -> None:
    found = peer("SCRAM-SHA-256")
    answer = found.begin("SCRAM-SHA-256", first)
    assert (answer.error_code, answer.error_message) == (58, generic("SCRAM-SHA-256"))
    assert found.server.failed


def test_unknown_extensions_are_left_alone() -> None:
    found = peer("SCRAM-SHA-256")
    first = FIRST + b",foo=bar"
    assert found.send(_final(_challenged(found, first), first)).error_code == 0


def test_acting_as_oneself_is_allowed_and_as_another_is_not() -> None:
    first = b"n,a=alice,n=alice,r=abc"
    found = peer("SCRAM-SHA-256")
    assert found.send(_final(_challenged(found, first), first, binding="n,a=alice,")).error_code == 0
    for name in ("alice", "mallory"):
        answer = peer("SCRAM-SHA-256").begin("SCRAM-SHA-256", f"n,a=bob,n={name},r=abc".encode())
        assert answer.error_message == (
            "Authentication failed: Client requested an authorization id that is different from username"
        )


def test_a_password_does_not_open_a_delegation_token() -> None:
    answer = peer("SCRAM-SHA-256").log_in(scram(delegation_token=True))
    assert (answer.error_code, answer.error_message) == (58, generic("SCRAM-SHA-256"))


@pytest.mark.parametrize("binding", ["y,,", "p=tls-unique,,", "n,a=alice,"])
def test_a_final_message_with_another_channel_binding_is_refused_though_its_proof_fits(binding: str) -> None:
    found = peer("SCRAM-SHA-256")
    assert found.send(_final(_challenged(found), binding=binding)).error_code == 58


@pytest.mark.parametrize("nonce", ["abc", "abcdef", "x"])
def test_a_final_message_with_another_nonce_is_refused_though_its_proof_fits(nonce: str) -> None:
    found = peer("SCRAM-SHA-256")
    assert found.send(_final(_challenged(found), r=nonce)).error_code == 58


def test_a_nonce_that_repeats_the_clients_part_is_let_pass_as_kafka_does() -> None:
    found = peer("SCRAM-SHA-256")
    challenge = _challenged(found)
    assert found.send(_final(challenge, r="abc" + _fields(challenge)["r"])).error_code == 0


def test_a_recorded_login_cannot_be_replayed() -> None:
    users = UserStore()
    first = peer("SCRAM-SHA-256", store=users)
    recorded = _final(_challenged(first))
    assert first.send(recorded).error_code == 0
    second = peer("SCRAM-SHA-256", store=users)
    _challenged(second)
    assert second.send(recorded).error_code == 58
    assert not second.server.authenticated


def test_a_refused_proof_cannot_be_tried_again_in_the_same_exchange() -> None:
    found = peer("SCRAM-SHA-256")
    challenge = _challenged(found)
    assert found.send(_final(challenge, password="wrong")).error_code == 58
    assert found.send(_final(challenge)).error_code == 34
    assert found.server.failed


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rb",r=abc", b",r=abd"),
        (rb"....$", b""),
        (rb"......$", b"====="),
        (rb",p=.*", b",p=AAAA"),
        (rb",p=.*", b""),
        (rb"$", b",x=y"),
        (rb"$", b"\0"),
        (rb".+", b""),
        (rb".+", b"\x01"),
        (rb".+", FIRST),
        (rb".+", b"c=biws,r=abc,p=" + b"A" * 500_000),
        (rb",p=.*", b",a=b" * 100_000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_final_message_that_was_tampered_with_is_refused(pattern: bytes, replacement: bytes) -> None:
    found = peer("SCRAM-SHA-256")
    final = re.sub(pattern, lambda _: replacement, _final(_challenged(found)), count=1)
    answer = found.send(final)
    assert (answer.error_code, answer.error_message) == (58, generic("SCRAM-SHA-256"))
    assert found.server.failed


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4))
def test_no_garbage_gets_anybody_in(messages: list[bytes]) -> None:
    found = peer("SCRAM-SHA-256", users={})
    found.handshake("SCRAM-SHA-256")
    codes = [found.send(message).error_code for message in messages]
    assert set(codes) <= {0, 34, 58}
    assert not found.server.authenticated


def test_changed_and_deleted_passwords_count_at_once() -> None:
    users = UserStore()
    assert peer("SCRAM-SHA-256", store=users).log_in(scram()).error_code == 0
    users.set_password("alice", "SCRAM-SHA-256", Secret("changed"), iterations=8192)
    assert peer("SCRAM-SHA-256", store=users).log_in(scram()).error_code == 58
    assert peer("SCRAM-SHA-256", store=users).log_in(scram(password="changed")).error_code == 0
    users.delete("alice", "SCRAM-SHA-256")
    assert peer("SCRAM-SHA-256", store=users).log_in(scram(password="changed")).error_code == 58
    assert peer("SCRAM-SHA-256", store=users).log_in(scram()).error_code == 58


def test_a_credential_serves_its_own_mechanism_only() -> None:
    users = UserStore()
    users.set_password("carol", "SCRAM-SHA-512", Secret("carol-secret"))
    offered = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert peer(*offered, store=users).log_in(scram("SCRAM-SHA-256", "carol")).error_code == 58
    assert peer(*offered, store=users).log_in(scram("SCRAM-SHA-512", "carol")).error_code == 0
