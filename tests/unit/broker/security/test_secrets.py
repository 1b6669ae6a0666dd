"""Planted secrets are searched for in everything that the broker's side of a login shows or answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from kclient.broker.security import JwksVerifier, ListenerSpec, ScramCredential, UserStore
from kclient.broker.security.tokens import Jwt, TokenRefusedError
from kclient.errors import KafkaError
from kclient.net.sasl import OAuthBearer, Plain
from kclient.types import Secret
from tests.support.planted import everything_logged, forms, told
from tests.unit.broker.security.support import Peer, bearer, peer, scram, unsecured
from tests.unit.broker.security.test_jwks import ANY, Issuer

PLANTED = "Pl4nted/S3cret"
USERS = {"alice": Secret(PLANTED), "bob": Secret("bob-secret")}


def _shown(found: Peer, *more: object) -> str:
    things = (found.server, found.users, found.server._spec, found.server._exchange, *more)
    inner = [vars(thing) for thing in things if hasattr(thing, "__dict__")]
    return f"{things!r} {[str(thing) for thing in things]} {inner!r}"


def _plain(right: bool) -> str:
    found = peer("PLAIN", "SCRAM-SHA-256", users=USERS)
    password = PLANTED if right else f"{PLANTED}x"
    return _shown(found, found.log_in(Plain("alice", Secret(password))))


def _scram(right: bool) -> str:
    found = peer("SCRAM-SHA-256", users=USERS)
    answer = found.begin("SCRAM-SHA-256", b"n,,n=alice,r=abc")
    shown = _shown(found, answer)
    again = peer("SCRAM-SHA-256", users=USERS)
    return shown + _shown(again, again.log_in(scram(password=PLANTED if right else f"{PLANTED}x")))


def _token(right: bool) -> str:
    found = peer("OAUTHBEARER")
    token = unsecured("alice", 100 if right else -100, jti=PLANTED)
    return _shown(found, found.begin("OAUTHBEARER", bearer(token)), found.send(b"\x01"))


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("scenario", [_plain, _scram, _token])
def test_no_login_shows_a_secret(scenario: Callable[[bool], str], right: bool) -> None:
    with everything_logged() as logged:
        shown = scenario(right) + logged.getvalue()
    assert "User:" in shown
    assert [form for form in forms(PLANTED) if form in shown] == []


def test_a_credential_shows_neither_salt_nor_keys() -> None:
    users = UserStore()
    users.set_password("alice", "SCRAM-SHA-256", Secret(PLANTED))
    found = users.credential("alice", "SCRAM-SHA-256")
    assert found is not None
    shown = f"{users!r} {vars(users)!r} {found!r}"
    for part in (found.salt, found.stored_key, found.server_key):
        assert repr(part)[2:-1] not in shown
        assert part.hex() not in shown
        assert base64.b64encode(part).decode() not in shown


def test_the_password_itself_is_not_kept_in_the_store() -> None:
    users = UserStore()
    users.seed(ListenerSpec("A", "SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users=USERS))

    def reach(thing: object) -> list[object]:
        if isinstance(thing, dict):
            return [inner for pair in thing.items() for part in pair for inner in reach(part)]
        if isinstance(thing, ScramCredential):
            return [thing.salt, thing.stored_key, thing.server_key]
        return [inner for part in thing for inner in reach(part)] if isinstance(thing, tuple) else [thing]

    kept = reach(vars(users))
    assert kept
    assert not any(isinstance(thing, Secret) or thing in (PLANTED, PLANTED.encode()) for thing in kept)


def test_why_a_token_was_refused_does_not_show_the_token() -> None:
    issuer, other = Issuer(), Issuer()
    verifier = JwksVerifier({"keys": [issuer.jwk()]}, **ANY)
    for token in (other.token(jti=PLANTED), issuer.token(jti=PLANTED), unsecured(jti=PLANTED), PLANTED):
        with pytest.raises(TokenRefusedError) as caught:
            verifier.verify(Secret(token))
        shown = told(caught.value)
        parts = {part for part in token.split(".") if len(part) > 30}
        assert [form for form in (*forms(PLANTED), *parts) if form in shown] == []


def test_a_token_taken_apart_shows_its_header_only() -> None:
    jwt = Jwt.parse(Secret(unsecured("alice", jti=PLANTED)))
    assert repr(jwt) == "Jwt(header={'alg': 'none'})"


def test_a_bad_configuration_does_not_show_passwords() -> None:
    with pytest.raises(KafkaError) as caught:
        ListenerSpec("A", "PLAINTEXT", users=USERS, password=Secret(PLANTED))
    assert [form for form in forms(PLANTED) if form in told(caught.value)] == []


def test_a_private_key_among_public_ones_is_not_shown() -> None:
    private = Issuer("ES256").jwk(d=PLANTED, x="!")
    with pytest.raises(KafkaError) as caught:
        JwksVerifier({"keys": [private]}, **ANY)
    assert PLANTED not in f"{caught.value} {caught.value!r}"


def test_the_client_half_gets_no_secret_back() -> None:
    found = peer("OAUTHBEARER")
    token = unsecured(lifetime=-1, jti=PLANTED)
    first = found.begin("OAUTHBEARER", bearer(token))
    assert json.loads(bytes(first.auth_bytes)) == {"status": "invalid_token"}
    assert repr(OAuthBearer(lambda: token)) == "<OAuthBearer without a token>"
