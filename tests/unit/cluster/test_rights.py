"""Which right is missing, and who lacks it, as errors say it; a real broker is asked in tests/integration."""

from __future__ import annotations

import pickle
from copy import copy
from typing import Any

import pytest

from kclient.cluster.rights import lacking, user_of
from kclient.config import ClientConfig
from kclient.errors import (
    AuthorizationError,
    DelegationTokenAuthorizationFailedError,
    NonEmptyGroupError,
    TopicAuthorizationFailedError,
)
from kclient.wire.messages.fetch import FetchRequest
from kclient.wire.messages.produce import ProduceRequest

ALICE = ClientConfig(
    security_protocol="SASL_SSL",
    sasl_mechanism="PLAIN",
    sasl_plain_username="alice",
    sasl_plain_password="wonderland",
)


def test_an_error_of_a_missing_right_names_it_and_the_user() -> None:
    error = TopicAuthorizationFailedError(about="topic orders")
    assert lacking(error, ProduceRequest, ALICE) is error
    assert str(error) == (
        "TOPIC_AUTHORIZATION_FAILED (29) for topic orders: User 'alice' has no ACL for Write on the topic."
    )
    assert error.reason == "User 'alice' has no ACL for Write on the topic."


def test_what_is_not_known_is_not_named() -> None:
    error = lacking(TopicAuthorizationFailedError(about="topic orders"), FetchRequest, ClientConfig())
    assert str(error).endswith(": The principal has no ACL for Read on the topic.")
    assert str(TopicAuthorizationFailedError()).endswith(
        "The principal has no ACL for this operation on the topic."
    )
    other = lacking(DelegationTokenAuthorizationFailedError(), ProduceRequest, ALICE)
    assert str(other).endswith(": User 'alice' may not do this with the delegation token.")


def test_what_is_known_better_replaces_what_was_said_before() -> None:
    error = TopicAuthorizationFailedError()
    error.explain("Describe", "alice")
    error.explain("Read", None)
    assert (error.operation, error.principal) == ("Read", "alice")


@pytest.mark.parametrize("twin", [copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_says_the_same(twin: Any) -> None:
    error = lacking(TopicAuthorizationFailedError("no", about="topic orders"), "Write", ALICE)
    assert isinstance(twin(error), AuthorizationError)
    assert str(twin(error)) == str(error)


def test_other_outcomes_stay_as_they_are() -> None:
    for outcome in (None, 17, NonEmptyGroupError(about="group g")):
        before = str(outcome)
        assert str(lacking(outcome, "Write", ALICE)) == before


@pytest.mark.parametrize(
    ("options", "user"),
    [
        ({"sasl_mechanism": "SCRAM-SHA-512"}, "alice"),
        ({"sasl_mechanism": "SCRAM-SHA-512", "sasl_delegation_token": True}, None),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_plain_username": None}, None),
        ({"security_protocol": "SSL"}, None),
    ],
)
def test_the_user_is_known_where_a_name_logs_in(options: dict[str, Any], user: str | None) -> None:
    given = {"security_protocol": "SASL_SSL", "sasl_plain_username": "alice"} | options
    assert user_of(ClientConfig.from_options(given)) == user
