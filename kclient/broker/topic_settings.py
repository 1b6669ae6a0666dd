"""Settings of a topic: what it set itself over the broker's over Kafka's, and what may be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kclient.broker.settings import TOPIC_DEFAULTS, BrokerSettings
from kclient.errors import InvalidConfigError

FROM_TOPIC, FROM_BROKER, FROM_DEFAULT = 1, 4, 5  # config sources, as DescribeConfigs numbers them
_STRING, _INT, _LONG, _DOUBLE, _LIST = 2, 3, 5, 6, 7  # config types
_INT_SETTINGS = {
    "index.interval.bytes",
    "max.message.bytes",
    "min.insync.replicas",
    "segment.bytes",
    "segment.index.bytes",
}
_CHOICES = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
# The least value that Kafka allows; what is not here may be 0.
_LEAST = {
    "flush.messages": 1,
    "max.compaction.lag.ms": 1,
    "retention.bytes": -1,
    "retention.ms": -1,
    "min.insync.replicas": 1,
    "segment.ms": 1,
    "segment.bytes": 1048576,
    "segment.index.bytes": 4,
}


class Setting(NamedTuple):
    """One effective setting."""

    name: str
    value: str
    source: int


def effective_configs(own: Mapping[str, str], settings: BrokerSettings) -> list[Setting]:
    """Every setting that a topic has."""
    found = []
    for name, (default, broker_name) in sorted(TOPIC_DEFAULTS.items()):
        if name in own:
            found.append(Setting(name, own[name], FROM_TOPIC))
        elif broker_name in settings.given:
            found.append(Setting(name, settings.given[broker_name], FROM_BROKER))
        else:
            found.append(Setting(name, default, FROM_DEFAULT))
    return found


def config_type(name: str) -> int:
    if name == "cleanup.policy":
        return _LIST
    if name in _CHOICES:
        return _STRING
    if name == "min.cleanable.dirty.ratio":
        return _DOUBLE
    return _INT if name in _INT_SETTINGS else _LONG


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise what Kafka would answer to settings that cannot be."""
    for name, value in configs.items():
        if name not in TOPIC_DEFAULTS:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
        _check_value(name, value)


def _check_value(name: str, value: str) -> None:
    if name in _CHOICES:
        words = [word.strip() for word in value.split(",") if word] if name == "cleanup.policy" else [value]
        wrong = next((word for word in words if word not in _CHOICES[name]), None)
        if wrong is not None:
            allowed = ", ".join(_CHOICES[name])
            raise InvalidConfigError(
                f"Invalid value {wrong} for configuration {name}: String must be one of: {allowed}"
            )
        return
    number: Callable[[str], float] = float if config_type(name) == _DOUBLE else int
    try:
        found = number(value)
    except ValueError:
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Not a number of type "
            f"{'DOUBLE' if number is float else 'INT' if name in _INT_SETTINGS else 'LONG'}"
        ) from None
    if found < _LEAST.get(name, 0):
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Value must be at least {_LEAST.get(name, 0)}"
        )
    if config_type(name) == _DOUBLE and found > 1:
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Value must be no more than 1"
        )
