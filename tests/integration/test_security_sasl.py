"""SASL with passwords and delegation tokens against real brokers, and what a client may do once it is in."""

from __future__ import annotations

import asyncio
import base64

import pytest

from kclient.cluster.client import Cluster
from kclient.errors import AuthenticationError, KafkaTimeoutError, TopicAuthorizationFailedError, error_for
from kclient.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
)
from tests.support.secured import SUPER_USER, WRONG, Visitor
from tools.kafka.security import USERS

pytestmark = [pytest.mark.kafka, pytest.mark.uvloop]

LISTENERS = ["SASL_PLAINTEXT", "SASL_SSL"]
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
WATCHED_SECONDS = 0.5  # many times the wait between two attempts


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_is_known_by_the_user_whose_password_it_has(
    any_visitor: Visitor, listener: str, mechanism: str
) -> None:
    assert any_visitor.identity(any_visitor.password(listener, mechanism)) == "alice"
    assert any_visitor.identity(any_visitor.password(listener, mechanism, "bob")) == "bob"


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_at_once_and_not_tried_again(
    visitor: Visitor, listener: str, mechanism: str
) -> None:
    async def attempt() -> None:
        cluster = visitor.cluster(visitor.password(listener, mechanism, password=WRONG))
        try:
            with pytest.raises(AuthenticationError) as caught:
                await cluster.start(cluster.deadline())
            visitor.hear(caught.value)
            assert not isinstance(caught.value, KafkaTimeoutError)
            assert "SASL_AUTHENTICATION_FAILED (58)" in str(caught.value)
            await asyncio.sleep(WATCHED_SECONDS)
            visitor.heed(cluster)
            assert len(visitor.connections) == 1
            # Somebody who asks again is told again: the password may have been set right meanwhile.
            with pytest.raises(AuthenticationError):
                await cluster.metadata.refreshed(cluster.deadline())
            assert len(visitor.connections) == 2
        finally:
            await cluster.close()

    asyncio.run(attempt())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_old_broker_refuses_a_wrong_password_at_once_too(old_visitor: Visitor, mechanism: str) -> None:
    error = old_visitor.refusal(old_visitor.password("SASL_SSL", mechanism, password=WRONG))
    assert isinstance(error, AuthenticationError)
    assert len(old_visitor.connections) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_unknown_user_is_refused(any_visitor: Visitor, mechanism: str) -> None:
    options = any_visitor.password("SASL_SSL", mechanism, "mallory")
    assert isinstance(any_visitor.refusal(options), AuthenticationError)
    assert len(any_visitor.connections) == 1


def test_a_mechanism_that_the_listener_lacks_is_refused_with_those_it_has(visitor: Visitor) -> None:
    for mechanism in MECHANISMS:
        error = visitor.refusal(visitor.password("OIDC", mechanism))
        assert isinstance(error, AuthenticationError)
        assert f"does not accept SASL mechanism {mechanism}; it offers: OAUTHBEARER" in str(error)
    assert len(visitor.connections) == len(MECHANISMS)


def test_a_listener_without_sasl_says_so(any_visitor: Visitor) -> None:
    options = any_visitor.password("SASL_PLAINTEXT", "PLAIN")
    error = any_visitor.refusal(options | {"bootstrap_servers": any_visitor.kafka.bootstrap()})
    assert isinstance(error, AuthenticationError)
    assert len(any_visitor.connections) == 1


def test_plain_without_tls_warns_that_the_password_can_be_read(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    visitor.identity(visitor.password("SASL_SSL", "PLAIN"))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    visitor.identity(visitor.password("SASL_PLAINTEXT", "PLAIN"))
    [warning] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "sends the password of PLAIN unencrypted" in warning


def test_the_search_for_secrets_finds_what_a_client_would_show(visitor: Visitor) -> None:
    password = USERS["alice"]
    assert visitor.shown_secrets(f"DEBUG sends {f'alice:{password}'.encode()!r}") != []
    assert visitor.shown_secrets(base64.b64encode(f"alice:{password}".encode()).decode()) != []
    token = visitor.plant("header.claims-of-alice.signature")
    assert visitor.shown_secrets(f"DEBUG got ...{token[-10:]}") != []
    assert visitor.shown_secrets("DEBUG nothing") == []


def test_what_no_acl_allows_is_a_typed_error_and_leaves_the_client_working(any_visitor: Visitor) -> None:
    async def ask(cluster: Cluster) -> None:
        cluster.metadata.follow(["for-alice", "for-bob"])
        snapshot = await cluster.metadata.refreshed(cluster.deadline())
        assert set(snapshot.topics) == {"for-alice"}
        assert isinstance(error_for(snapshot.errors["for-bob"]), TopicAuthorizationFailedError)
        assert snapshot.errors["for-bob"] == TopicAuthorizationFailedError.code == 29

    any_visitor.run(any_visitor.password("SASL_SSL", "SCRAM-SHA-512"), ask)
    assert len(any_visitor.connections) == 1


def test_a_super_user_needs_no_acl(any_visitor: Visitor) -> None:
    assert any_visitor.identity(any_visitor.password("SASL_SSL", "SCRAM-SHA-256", "admin")) == SUPER_USER


async def _new_delegation_token(cluster: Cluster) -> tuple[str, str]:
    """Id and HMAC of a token, which every broker knows by then."""
    deadline = cluster.deadline()
    made = await cluster.call(
        None,
        lambda _: CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=60_000),
        CreateDelegationTokenRequest,
        deadline,
    )
    assert made.error_code == 0
    known: set[str] = set()
    while made.token_id not in known:
        described = await cluster.call(
            None,
            lambda _: DescribeDelegationTokenRequest(owners=None),
            DescribeDelegationTokenRequest,
            deadline,
        )
        known = {token.token_id for token in described.tokens}
    return made.token_id, base64.b64encode(made.hmac).decode()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_delegation_token_lets_in_for_its_owner(any_visitor: Visitor, mechanism: str) -> None:
    owner = any_visitor.password("SASL_SSL", "SCRAM-SHA-512", "bob")
    token_id, hmac = any_visitor.run(owner, _new_delegation_token)
    any_visitor.plant(hmac)
    options = any_visitor.password("SASL_SSL", mechanism, token_id, hmac, sasl_delegation_token=True)
    assert any_visitor.identity(options) == "bob"
    for changed in ({"sasl_plain_password": WRONG}, {"sasl_delegation_token": False}):
        assert isinstance(any_visitor.refusal(options | changed), AuthenticationError)


def test_a_client_without_sasl_is_told_that_the_listener_may_want_it(visitor: Visitor) -> None:
    options = visitor.options("SASL_PLAINTEXT", security_protocol="PLAINTEXT", default_api_timeout_ms=1_000)
    assert "may want SASL (check security_protocol)" in str(visitor.refusal(options))
