"""Settings of a topic: what it set itself over the broker's over Kafka's, and what may be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kclient.broker.settings import FROM_TOPIC, TOPIC_DEFAULTS, BrokerSettings, Effective, Setting
from kclient.errors import InvalidConfigError

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7  # config types
_TYPES = {
    "cleanup.policy": _LIST,
    "compression.gzip.level": _INT,
    "compression.lz4.level": _INT,
    "compression.type": _STRING,
    "compression.zstd.level": _INT,
    "follower.replication.throttled.replicas": _LIST,
    "index.interval.bytes": _INT,
    "leader.replication.throttled.replicas": _LIST,
    "max.message.bytes": _INT,
    "message.timestamp.type": _STRING,
    "min.cleanable.dirty.ratio": _DOUBLE,
    "min.insync.replicas": _INT,
    "preallocate": _BOOLEAN,
    "remote.log.copy.disable": _BOOLEAN,
    "remote.log.delete.on.disable": _BOOLEAN,
    "remote.storage.enable": _BOOLEAN,
    "segment.bytes": _INT,
    "segment.index.bytes": _INT,
    "unclean.leader.election.enable": _BOOLEAN,
}
_CHOICES = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
# The least value that Kafka allows; what is not here may be 0.
_LEAST = {
    "compression.gzip.level": -1,
    "compression.lz4.level": 1,
    "compression.zstd.level": -131072,
    "flush.messages": 1,
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 1,
    "retention.bytes": -1,
    "retention.ms": -1,
    "min.insync.replicas": 1,
    "segment.ms": 1,
    "segment.bytes": 1048576,
    "segment.index.bytes": 4,
}
# What may be set to this alone, and why.
_ONLY = {
    "remote.log.copy.disable": ("false", "the embedded broker has no tiered storage"),
    "remote.storage.enable": ("false", "the embedded broker has no tiered storage"),
}
_GONE = {
    "message.downconversion.enable": "",
    "message.format.version": "",
    "message.timestamp.difference.max.ms": (
        "; message.timestamp.before.max.ms and message.timestamp.after.max.ms are in its place"
    ),
}


def effective_configs(own: Mapping[str, str], settings: BrokerSettings, node: int = 1) -> list[Effective]:
    """Every setting that a topic has, as a node sees it."""
    found = []
    for name in sorted(TOPIC_DEFAULTS):
        one = settings.topic_value(name, node)
        if name in own:
            one = Effective.of(name, [Setting(name, own[name], FROM_TOPIC), *one.behind])
        found.append(one)
    return found


def config_type(name: str) -> int:
    return _TYPES.get(name, _LONG)


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise what Kafka would answer to settings that cannot be."""
    for name, value in configs.items():
        if name in _GONE:
            raise InvalidConfigError(f"Unknown topic config name: {name}. It is gone in Kafka 4{_GONE[name]}")
        if name not in TOPIC_DEFAULTS:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
        if name in _ONLY and value.lower() != _ONLY[name][0]:
            raise InvalidConfigError(f"Invalid value {value} for configuration {name}: {_ONLY[name][1]}")
        _check_value(name, value)


def _check_value(name: str, value: str) -> None:
    kind = config_type(name)
    if name in _CHOICES:
        _check_choice(name, value)
    elif kind == _BOOLEAN and value.lower() not in ("true", "false"):
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Expected value to be either true or false"
        )
    elif kind in (_INT, _LONG, _DOUBLE):
        _check_number(name, value)


def _check_choice(name: str, value: str) -> None:
    words = [word.strip() for word in value.split(",") if word] if name == "cleanup.policy" else [value]
    wrong = next((word for word in words if word not in _CHOICES[name]), None)
    if wrong is not None:
        allowed = ", ".join(_CHOICES[name])
        raise InvalidConfigError(
            f"Invalid value {wrong} for configuration {name}: String must be one of: {allowed}"
        )


def _check_number(name: str, value: str) -> None:
    kind = config_type(name)
    number: Callable[[str], float] = float if kind == _DOUBLE else int
    try:
        found = number(value)
    except ValueError:
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Not a number of type "
            f"{'DOUBLE' if number is float else 'INT' if kind == _INT else 'LONG'}"
        ) from None
    if found < _LEAST.get(name, 0):
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Value must be at least {_LEAST.get(name, 0)}"
        )
    if kind == _DOUBLE and found > 1:
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Value must be no more than 1"
        )
