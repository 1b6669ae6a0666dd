"""Constructors that fail: what crash reports, which show the variables of frames, may tell then."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from kclient import AsyncConsumer, AsyncProducer, Consumer, Producer
from kclient.admin import Admin, AsyncAdmin
from kclient.broker import Broker
from kclient.config import ClientConfig
from kclient.errors import ConfigurationError
from kclient.net.sasl import ClientCredentials
from kclient.testing import RunningBroker
from kclient.types import Secret, Url

CLIENTS = [AsyncProducer, Producer, AsyncConsumer, Consumer, AsyncAdmin, Admin]
SECRET = "pl4nted"


def reported(fails: Callable[[], object]) -> str:
    """A report on an exception, with all variables but those of this file."""
    with pytest.raises(ConfigurationError) as caught:
        fails()
    report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    report.stack = traceback.StackSummary.from_list(
        [frame for frame in report.stack if frame.filename != __file__]
    )
    return "".join(report.format())


@pytest.mark.parametrize("kind", [*CLIENTS, Broker, RunningBroker])
def test_an_object_that_was_never_initialised_has_a_repr(kind: Any) -> None:
    assert repr(kind.__new__(kind)) == f"<{kind.__name__} half made>"


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    "secret",
    [
        {"sasl_plain_password": SECRET},
        {"sasl.password": SECRET},
        {"ssl_keydata": SECRET},
        {"sasl_oauthbearer_client_secret": Secret(SECRET)},
        {"sasl_oauthbearer_token_endpoint_url": f"https://me:{SECRET}@example.com/token?key={SECRET}"},
    ],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize(
    "fault",
    [{"request_timeout_ms": -1}, {"client_id": None}, {"no_such_option": 1}, {"bootstrap_servers": ""}],
    ids=lambda options: next(iter(options)),
)
def test_a_constructor_that_fails_leaves_no_secret_in_variables(
    kind: Any, secret: dict[str, Any], fault: dict[str, Any]
) -> None:
    for options in (secret | fault, fault | secret):
        report = reported(lambda options=options: kind(**options))  # type: ignore[misc]
        assert "half made" in report, "the variables are there"
        assert SECRET not in report


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_secret_under_a_misspelt_name_is_not_in_variables(kind: Any) -> None:
    assert SECRET not in reported(lambda: kind(sasl_plain_pasword=SECRET))


def test_a_config_does_not_show_who_and_what_is_in_a_url() -> None:
    address = f"https://me:{SECRET}@example.com/token?key={SECRET}"
    config = ClientConfig(sasl_oauthbearer_token_endpoint_url=address)
    assert "https://<hidden>@example.com/token?<hidden>" in repr(config)
    assert SECRET not in repr(config)
    assert config.sasl_oauthbearer_token_endpoint_url == address


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://example.com/token", "https://example.com/token"),
        ("https://example.com", "https://example.com"),
        (f"https://{SECRET}@example.com:8443/a/b", "https://<hidden>@example.com:8443/a/b"),
        (f"https://example.com/a?{SECRET}", "https://example.com/a?<hidden>"),
        (f"https://example.com/a#{SECRET}", "https://example.com/a#<hidden>"),
        (f"https://me:{SECRET}/{SECRET}@example.com/", "https://<hidden>"),
        (f"https://me:{SECRET}?{SECRET}@example.com/", "https://<hidden>"),
        (f"me:{SECRET}@example.com/a", "<hidden>@example.com/a"),
    ],
)
def test_a_url_shows_neither_user_nor_password_nor_query(address: str, shown: str) -> None:
    assert repr(Url(address)) == f"'{shown}'"


@pytest.mark.parametrize("address", ["ftp://example.com/", "https://me@example.com/", "http://example.com/"])
def test_a_refused_token_endpoint_leaves_no_key_in_variables(address: str) -> None:
    report = reported(lambda: ClientCredentials(f"{address}?key={SECRET}", "id", Secret("x")))
    assert SECRET not in report
