"""Settings of the embedded broker: what is misspelt is refused, not taken for its opposite."""

from __future__ import annotations

import pytest

from kclient.broker.settings import BrokerSettings
from kclient.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "value"),
    [("auto.create.topics.enable", "ture"), ("replica.selector.class", "RackAwareReplicaSelecter")],
)
def test_a_value_that_is_none_of_the_choices_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}='{value}' must be"):
        BrokerSettings({name: value})


def test_flags_may_be_written_in_capitals() -> None:
    assert BrokerSettings({"auto.create.topics.enable": "True"}).flag("auto.create.topics.enable")
