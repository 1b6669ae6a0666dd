"""The login of a connection: its states, sessions that end (KIP-368), and requests out of order."""

from __future__ import annotations

import pytest

from kclient.broker.security import ListenerSpec, SaslServer, UserStore, VerifiedToken
from kclient.net.sasl import Plain
from kclient.types import Secret
from kclient.wire.api import ApiKey
from tests.unit.broker.security.support import (
    ALICE,
    NOW,
    FakeClock,
    Peer,
    bearer,
    generic,
    peer,
    scram,
    unsecured,
)

BOB = b"\0bob\0bob-secret"


def _short_sessions(*mechanisms: str) -> Peer:
    return peer(*(mechanisms or ("PLAIN", "SCRAM-SHA-256")), max_reauth_ms=4000)


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are() -> None:
    for mechanism in ("GSSAPI", "OAUTHBEARER", "plain", ""):
        found = peer("SCRAM-SHA-256", "PLAIN")
        answer = found.handshake(mechanism)
        assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-256"])
        assert found.server.failed


def test_the_mechanisms_are_listed_in_kafkas_order() -> None:
    answer = peer("OAUTHBEARER", "SCRAM-SHA-256", "PLAIN", "SCRAM-SHA-512").handshake("PLAIN")
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER"]


def test_a_proof_before_the_handshake_is_out_of_place() -> None:
    found = peer("PLAIN")
    assert found.send(ALICE).error_code == 34
    assert found.server.failed
    assert found.handshake("PLAIN").error_code == 34


def test_a_second_handshake_is_out_of_place() -> None:
    found = peer("PLAIN")
    found.handshake("PLAIN")
    answer = found.handshake("PLAIN")
    assert (answer.error_code, answer.mechanisms) == (34, [])
    assert found.server.failed
    assert found.send(ALICE).error_code == 34
    assert not found.server.authenticated


def test_after_a_failure_nothing_is_accepted_any_more() -> None:
    found = peer("PLAIN")
    assert found.begin("PLAIN", b"garbage").error_code == 58
    assert found.send(ALICE).error_code == 34
    assert found.handshake("PLAIN").error_code == 34
    assert not any(found.server.admits(key) for key in ApiKey)


def test_requests_of_the_login_are_refused_after_it_and_leave_it_as_it_is() -> None:
    found = peer("PLAIN")
    assert found.begin("PLAIN", ALICE).error_code == 0
    answer = found.send(BOB)
    assert (answer.error_code, answer.error_message) == (
        34,
        "SaslAuthenticate request received after successful authentication",
    )
    assert (found.handshake("PLAIN").error_code, found.handshake("PLAIN").mechanisms) == (34, [])
    assert found.server.principal == "User:alice"
    assert (found.server.authenticated, found.server.failed) == (True, False)


def test_only_what_a_login_needs_is_admitted_before_it() -> None:
    found = peer("PLAIN")
    sasl = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    assert {key for key in ApiKey if found.server.admits(key)} == {ApiKey.API_VERSIONS, *sasl}
    found.handshake("PLAIN")
    assert {key for key in ApiKey if found.server.admits(key)} == sasl
    found.send(ALICE)
    assert all(found.server.admits(key) for key in ApiKey)


def test_a_message_larger_than_kafka_takes_is_refused_unread() -> None:
    users = {"alice": Secret("x" * 524_288)}
    assert peer("PLAIN", users=users).begin("PLAIN", b"\0alice\0" + b"x" * 524_288).error_code == 58


def test_without_a_limit_a_session_does_not_end() -> None:
    for limit in (None, 0):
        found = peer("PLAIN", max_reauth_ms=limit)
        assert found.begin("PLAIN", ALICE).session_lifetime_ms == 0
        assert found.server.must_reauthenticate_by is None
        found.clock.now += 1e9
        assert not found.server.expired()


def test_a_session_ends_when_the_listener_says_so() -> None:
    found = _short_sessions()
    assert found.begin("PLAIN", ALICE).session_lifetime_ms == 4000
    assert found.server.must_reauthenticate_by == NOW + 4
    assert not found.server.expired(NOW + 4)
    assert found.server.expired(NOW + 4.001)
    found.clock.now += 4.001
    assert found.server.expired()
    assert [key for key in ApiKey if found.server.admits(key)] == [ApiKey.SASL_HANDSHAKE]


def test_a_session_ends_with_its_token_or_with_the_listeners_limit_whichever_comes_first() -> None:
    assert peer().begin("OAUTHBEARER", bearer(unsecured(lifetime=100))).session_lifetime_ms == 100_000
    for lifetime, expected in ((100, 4000), (2, 2000)):
        found = _short_sessions("OAUTHBEARER")
        answer = found.begin("OAUTHBEARER", bearer(unsecured(lifetime=lifetime)))
        assert answer.session_lifetime_ms == expected
        assert found.server.must_reauthenticate_by == NOW + expected / 1000


def test_only_the_last_answer_of_a_login_tells_how_long_it_holds() -> None:
    found = _short_sessions()
    assert found.begin("SCRAM-SHA-256", b"n,,n=alice,r=abc").session_lifetime_ms == 0
    assert _short_sessions().log_in(scram()).session_lifetime_ms == 4000


def test_a_session_is_renewed_also_after_its_end() -> None:
    for pause in (0.0, 3.0, 4.5, 1000.0):
        found = _short_sessions()
        found.log_in(scram())
        found.clock.now += pause
        assert found.log_in(scram()).session_lifetime_ms == 4000
        assert found.server.must_reauthenticate_by == NOW + pause + 4
        assert found.server.authenticated
        assert found.server.principal == "User:alice"


def test_while_a_session_is_renewed_nothing_else_is_served() -> None:
    found = _short_sessions()
    found.begin("PLAIN", ALICE)
    found.clock.now += 5
    assert found.handshake("PLAIN").error_code == 0
    assert not found.server.authenticated
    assert not found.server.expired()
    assert not found.server.admits(ApiKey.METADATA)
    assert not found.server.admits(ApiKey.API_VERSIONS)
    assert found.server.principal == "User:alice"


def test_a_session_is_renewed_at_most_once_a_second() -> None:
    found = _short_sessions()
    found.begin("PLAIN", ALICE)
    assert found.begin("PLAIN", ALICE).error_code == 0
    found.clock.now += 0.9
    answer = found.handshake("PLAIN")
    assert (answer.error_code, answer.mechanisms) == (34, [])
    assert found.server.authenticated
    found.clock.now += 0.2
    assert found.begin("PLAIN", ALICE).error_code == 0


def test_a_renewal_cannot_change_who_the_client_is() -> None:
    found = _short_sessions()
    found.begin("PLAIN", ALICE)
    answer = found.begin("PLAIN", BOB)
    assert (answer.error_code, answer.error_message) == (
        58,
        "Cannot change principals during re-authentication from User.alice: User.bob",
    )
    assert (found.server.authenticated, found.server.failed) == (False, True)
    assert found.server.principal == "User:alice"


def test_a_renewal_cannot_change_the_mechanism() -> None:
    found = _short_sessions()
    found.begin("PLAIN", ALICE)
    answer = found.begin("SCRAM-SHA-256", b"n,,n=alice,r=abc")
    assert (answer.error_code, answer.error_message) == (
        58,
        (
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported "
            "for re-authentication of mechanism 'PLAIN'"
        ),
    )
    assert found.server.failed


def test_a_renewal_with_a_wrong_password_ends_the_connection() -> None:
    found = _short_sessions()
    found.log_in(scram())
    answer = found.log_in(scram(password="wrong"))
    assert (answer.error_code, answer.error_message) == (58, generic("SCRAM-SHA-256", "re-authentication"))
    assert found.server.failed


def test_a_renewal_with_an_unknown_mechanism_ends_the_connection() -> None:
    found = _short_sessions()
    found.begin("PLAIN", ALICE)
    assert found.handshake("GSSAPI").error_code == 33
    assert found.server.failed


def test_clients_without_sasl_authenticate_send_tokens_as_they_are() -> None:
    found = peer("PLAIN")
    found.handshake("PLAIN", version=0)
    assert found.server.raw_tokens
    assert found.server.raw(ALICE) == b""
    assert (found.server.authenticated, found.server.raw_tokens) == (True, False)


def test_raw_tokens_that_are_refused_or_out_of_place_close_without_an_answer() -> None:
    refused, unasked, newer = peer("PLAIN"), peer("PLAIN"), peer("PLAIN")
    refused.handshake("PLAIN", version=0)
    newer.handshake("PLAIN", version=1)
    attempts = [(refused, BOB + b"x"), (unasked, ALICE), (newer, ALICE)]
    assert [each.server.raw(message) for each, message in attempts] == [None, None, None]
    assert all(each.server.failed for each in (refused, unasked, newer))


def test_whatever_a_verifier_raises_nobody_is_logged_in() -> None:
    class Broken:
        def verify(self, token: Secret, /) -> VerifiedToken:
            raise OSError(f"no connection for {len(token.reveal())} bytes")

    found = peer("OAUTHBEARER", oauth=Broken())
    with pytest.raises(OSError, match="no connection"):
        found.begin("OAUTHBEARER", bearer(unsecured()))
    assert (found.server.authenticated, found.server.failed) == (False, True)


def test_connections_do_not_share_a_login() -> None:
    spec = ListenerSpec("S", "SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"alice": Secret("alice-secret")})
    first, second = Peer(spec), Peer(spec)
    first.log_in(Plain("alice", Secret("alice-secret")))
    assert (first.server.authenticated, second.server.authenticated) == (True, False)


def test_its_repr_says_where_a_login_is() -> None:
    spec = ListenerSpec("S", "SASL_PLAINTEXT", mechanisms=("PLAIN",))
    server = SaslServer(spec, UserStore(), FakeClock())
    assert repr(server) == "<SaslServer greeting User:ANONYMOUS no mechanism yet>"
    found = peer("PLAIN")
    found.begin("PLAIN", ALICE)
    assert repr(found.server) == "<SaslServer known User:alice PLAIN>"
