"""From options to what connections need: which combinations are refused, and that nothing is ignored."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kclient.config import ClientConfig
from kclient.errors import ConfigurationError
from kclient.net.dial import DialSettings
from kclient.net.settings import dial_settings


def settings(**options: Any) -> DialSettings:
    return dial_settings(ClientConfig(**options), Random(0))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_options_without_tls_are_refused_and_not_ignored(protocol: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"security_protocol={protocol} ignores ssl_cafile: set it to SSL or SASL_SSL",
    ):
        settings(
            security_protocol=protocol,
            ssl_cafile="ca.pem",
            **({"sasl_mechanism": "PLAIN"} if "SASL" in protocol else {}),
        )


def test_names_that_need_not_be_checked_are_no_protection_that_is_missed() -> None:
    """Files for Java's clients say so for all protocols."""
    assert settings(security_protocol="PLAINTEXT", ssl_check_hostname=False).tls is None


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_password_without_sasl_is_refused_and_not_ignored(protocol: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"security_protocol={protocol} ignores sasl_mechanism, sasl_plain_password: set it to SASL_SSL",
    ) as caught:
        settings(security_protocol=protocol, sasl_mechanism="PLAIN", sasl_plain_password="hunter2")
    assert "hunter2" not in str(caught.value)


def test_the_token_endpoint_may_have_an_authority_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match=r"ssl_cafile='missing\.pem' cannot be read"):
        settings(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url="https://provider/token",
            sasl_oauthbearer_client_id="me",
            sasl_oauthbearer_client_secret="mine",
            ssl_cafile="missing.pem",
        )


@pytest.mark.parametrize("given", ["a.dotted.path", object()])
def test_a_token_provider_that_cannot_be_asked_is_refused_without_being_shown(given: object) -> None:
    with pytest.raises(
        ConfigurationError, match=r"must be a callable, or an object with a method token\(\)"
    ) as caught:
        settings(
            security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=given
        )
    assert "dotted" not in str(caught.value)
