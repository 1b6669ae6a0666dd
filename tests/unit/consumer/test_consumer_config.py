"""The options of a consumer: what they may be, and what the group's half gets of them."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer, ConsumerConfig
from kclient.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P3D", 259_200_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:PT0.5S", 500),
    ],
)
def test_a_duration_is_read_as_iso_8601_writes_it(text: str, milliseconds: float) -> None:
    assert ConsumerConfig(auto_offset_reset=text).reset_age() == milliseconds


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"auto_offset_reset": "newest"}, "not one of earliest, latest, none or by_duration"),
        ({"auto_offset_reset": "by_duration:P"}, "with a duration as in"),
        ({"auto_offset_reset": "by_duration:PT"}, "with a duration as in"),
        ({"auto_offset_reset": "by_duration:-PT1H"}, "with a duration as in"),
        ({"auto_offset_reset": "PT1H"}, "with a duration as in"),
        ({"group_id": ""}, "name the group, or leave it out"),
        ({"group_instance_id": "one"}, "needs a group_id"),
        ({"heartbeat_interval_ms": 45_000}, "must be below session_timeout_ms"),
        ({"key_deserializer": "json"}, "must be callable"),
        ({"on_poison": "ignore"}, '"raise", "skip" or a callable'),
        ({"max_poll_records": 0}, "below its least value"),
        ({"isolation_level": "serializable"}, "is not one of"),
        ({"prefetch_max_bytes": 0}, "below its least value"),
        ({"fetch_min_byte": 1}, "did you mean 'fetch_min_bytes'"),
        ({"group_id": "g", "partition_assignment_strategy": ["fair"]}, "'fair' is none of"),
    ],
)
@pytest.mark.parametrize("client", [AsyncConsumer, Consumer])
def test_what_cannot_be_is_refused_when_the_consumer_is_made(
    client: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        client(**options)


def test_kafkas_names_and_texts_are_understood() -> None:
    config = ConsumerConfig.from_options(
        {"group.id": "billing", "max.poll.records": "500", "enable.auto.commit": "false"}
    )
    assert (config.group_id, config.max_poll_records, config.enable_auto_commit) == ("billing", 500, False)


def test_the_groups_half_gets_every_option_that_concerns_it() -> None:
    assert ConsumerConfig().group_settings() is None
    given = {
        "group_id": "billing",
        "group_protocol": "consumer",
        "group_instance_id": "one",
        "group_remote_assignor": "uniform",
        "client_rack": "a",
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 1_000,
        "max_poll_interval_ms": 20_000,
        "rebalance_timeout_ms": 5_000,
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 100,
    }
    settings = ConsumerConfig.from_options(
        {**given, "partition_assignment_strategy": "range"}
    ).group_settings()
    assert settings is not None
    assert settings.partition_assignment_strategy == ("range",)
    assert {name: getattr(settings, name) for name in given} == given
