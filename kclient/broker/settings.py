"""Broker settings under Kafka's names: what was given at the start, and what is altered while it runs.

Topic settings are here too, because a broker setting is the default of a topic's: `log.retention.ms` of
`retention.ms`. What Kafka knows is in `known_settings`; `refusals` says what is refused, and why. The rest is
taken, and described as Kafka would, also where there is nothing for it to do here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from kclient.broker.known_settings import KNOWN, TYPES
from kclient.broker.log.config import LogConfig
from kclient.broker.log.storage import storage_errors, write_file
from kclient.broker.refusals import reason_against
from kclient.errors import ConfigurationError, InvalidConfigError, InvalidRequestError, KafkaStorageError

FILE = "kclient-configs.json"
# Where a value comes from, as DescribeConfigs numbers it.
FROM_TOPIC, FROM_NODE, FROM_CLUSTER, FROM_BROKER, FROM_DEFAULT = 1, 2, 3, 4, 5
_NUMBERS = {TYPES["int"]: "INT", TYPES["short"]: "SHORT", TYPES["long"]: "LONG", TYPES["double"]: "DOUBLE"}
# The node whose own settings count for what all nodes share.
_FIRST = 1

# Not Kafka's defaults, because a broker for development is better off: no delay before the first rebalance,
# and one replica of internal topics, as in Kafka's own quick-start configuration. And members of consumer
# groups hear soon of each other, where Kafka spares brokers with thousands of them.
BROKER_DEFAULTS: dict[str, str] = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "sasl.server.max.receive.size": "524288",
}

_CHOICES = {
    "group.consumer.migration.policy": ("bidirectional", "upgrade", "downgrade", "disabled"),
    "log.message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "replica.selector.class": (
        "",
        "org.apache.kafka.common.replica.LeaderSelector",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    ),
}

# Below one of these no topic could be made.
_AT_LEAST_ONE = (
    "default.replication.factor",
    "num.partitions",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
)

# Topic setting: (default, the broker setting that changes the default).
TOPIC_DEFAULTS: dict[str, tuple[str, str]] = {
    "cleanup.policy": ("delete", "log.cleanup.policy"),
    "compression.gzip.level": ("-1", "compression.gzip.level"),
    "compression.lz4.level": ("9", "compression.lz4.level"),
    "compression.type": ("producer", "compression.type"),
    "compression.zstd.level": ("3", "compression.zstd.level"),
    "delete.retention.ms": ("86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": ("60000", "log.segment.delete.delay.ms"),
    "flush.messages": ("9223372036854775807", "log.flush.interval.messages"),
    "flush.ms": ("9223372036854775807", "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": ("", ""),
    "index.interval.bytes": ("4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": ("", ""),
    "local.retention.bytes": ("-2", "log.local.retention.bytes"),
    "local.retention.ms": ("-2", "log.local.retention.ms"),
    "max.compaction.lag.ms": ("9223372036854775807", "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": ("1048588", "message.max.bytes"),
    "message.timestamp.after.max.ms": ("3600000", "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": ("9223372036854775807", "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": ("CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("1", "min.insync.replicas"),
    "preallocate": ("false", "log.preallocate"),
    "remote.log.copy.disable": ("false", ""),
    "remote.log.delete.on.disable": ("false", ""),
    "remote.storage.enable": ("false", ""),
    "retention.bytes": ("-1", "log.retention.bytes"),
    "retention.ms": ("604800000", "log.retention.ms"),
    "segment.bytes": ("1073741824", "log.segment.bytes"),
    "segment.index.bytes": ("10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": ("0", "log.roll.jitter.ms"),
    "segment.ms": ("604800000", "log.roll.ms"),
    "unclean.leader.election.enable": ("false", "unclean.leader.election.enable"),
}
# What counts where a setting is not given: another one, in so many milliseconds.
_INSTEAD = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
# Settings of brokers alone that logs need.
_FOR_LOGS = ("producer.id.expiration.ms",)


class Setting(NamedTuple):
    """A value and where it comes from; `unit` are the milliseconds that one of it stands for."""

    name: str
    value: str | None
    source: int
    unit: int = 1

    @property
    def counts_as(self) -> str:
        """The value as the setting has it that it stands in for."""
        if self.unit == 1 or self.value is None or int(self.value) < 0:
            return self.value or ""
        return str(int(self.value) * self.unit)


class Effective(NamedTuple):
    """What a setting comes to; `behind` are the values that make it so, and that would count without them."""

    name: str
    value: str | None
    source: int
    behind: list[Setting]

    @classmethod
    def of(cls, name: str, behind: list[Setting], default: str | None = None) -> Self:
        if not behind:
            return cls(name, default, FROM_DEFAULT, [])
        return cls(name, behind[0].counts_as, behind[0].source, behind)


class BrokerSettings:
    """The settings of a cluster: altered for one node, altered for all, given at the start, default."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.given: dict[str, str] = dict(given or {})
        self.altered: dict[str, dict[str, str]] = {}  # by node, "" for all
        self.on_change: list[Callable[[], None]] = []
        self._directory: Path | None = None
        self._for_topics: dict[int, dict[str, str]] = {}
        for name, value in self.given.items():
            reason = reason_against(name, value) if name not in BROKER_DEFAULTS else None
            if reason is not None:
                raise ConfigurationError(f"{name}={value!r} is refused by the embedded broker: {reason}")
            problem = _problem(name, value)
            if problem is not None:
                raise ConfigurationError(f"{name}={value!r} must be {problem}")

    def __repr__(self) -> str:
        altered = sum(len(values) for values in self.altered.values())
        return f"<BrokerSettings {len(self.given)} given, {altered} altered>"

    def __getitem__(self, name: str) -> str:
        return self.values_of(name)[0].value or ""

    def number(self, name: str) -> int:
        return int(self[name])

    def flag(self, name: str) -> bool:
        return self[name].lower() == "true"

    def values_of(self, name: str, node: int = _FIRST) -> list[Setting]:
        """The value that a setting has on a node, and behind it those that would count without it."""
        layers = ((FROM_NODE, str(node)), (FROM_CLUSTER, ""))
        altered = ((self.altered.get(of, {}), source) for source, of in layers)
        found = [Setting(name, values[name], source) for values, source in altered if name in values]
        if name in self.given:
            found.append(Setting(name, self.given[name], FROM_BROKER))
        default = BROKER_DEFAULTS.get(name, KNOWN[name].default if name in KNOWN else None)
        if default is not None:
            found.append(Setting(name, default, FROM_DEFAULT))
        return found or [Setting(name, None, FROM_DEFAULT)]

    def with_instead(self, name: str, node: int = _FIRST) -> list[Setting]:
        """As `values_of`, with what counts instead of the setting; a default of that only behind a value."""
        found = [one for one in self.values_of(name, node) if one.value is not None]
        for other, milliseconds in _INSTEAD.get(name, ()):
            for one in self.values_of(other, node):
                if one.value is not None and (found or one.source != FROM_DEFAULT):
                    found.append(one._replace(unit=milliseconds))
        return found

    def topic_value(self, name: str, node: int = _FIRST) -> Effective:
        """What a topic has that does not set it itself."""
        default, broker_name = TOPIC_DEFAULTS[name]
        return Effective.of(name, self.with_instead(broker_name, node), default)

    def topic_defaults(self, node: int = _FIRST) -> dict[str, str]:
        """What a topic has that sets nothing itself, on the partitions that a node leads."""
        if node not in self._for_topics:
            values = {name: self.topic_value(name, node).value or "" for name in TOPIC_DEFAULTS}
            self._for_topics[node] = values | {name: self[name] for name in _FOR_LOGS}
        return self._for_topics[node]

    # Altering

    def check_altered(self, node: str, wanted: Mapping[str, str]) -> None:
        """Raise what is to be answered to settings that cannot be altered to this."""
        new = {name: value for name, value in wanted.items() if self.altered.get(node, {}).get(name) != value}
        fixed = [name for name in new if name in KNOWN and not KNOWN[name].dynamic]
        if fixed:
            raise InvalidRequestError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        for name, value in new.items():
            reason = reason_against(name, value)
            if reason is not None:
                raise InvalidConfigError(f"{name}={value} is refused by the embedded broker: {reason}")
            problem = _problem(name, value)
            if problem is not None:
                kind = config_type(name)
                said = (
                    f"Not a number of type {_NUMBERS[kind]}" if kind in _NUMBERS else f"It must be {problem}"
                )
                raise InvalidRequestError(f"Invalid value {value} for configuration {name}: {said}")
        # What logs cannot have is refused before it is kept: no topic could be changed, nor a broker started.
        for_logs = {name: new[own] for name, (_, own) in TOPIC_DEFAULTS.items() if own in new}
        LogConfig.from_topic_config(self.topic_defaults() | for_logs)

    def alter(self, node: str, wanted: Mapping[str, str]) -> None:
        """Replace what is altered for a node, or for all ("")."""
        altered = {**self.altered, node: dict(wanted)}
        self._save({of: values for of, values in altered.items() if values})
        self.altered = altered
        self._for_topics.clear()
        for callback in self.on_change:
            callback()

    def load(self, directory: Path, *, sync: bool) -> None:
        """Take up what was altered in an earlier run, and keep there what will be."""
        self._directory, self._sync = directory, sync
        path = directory / FILE
        if not path.exists():
            return
        with storage_errors("reading", path):
            data = path.read_bytes()
        try:
            altered = {str(node): {**values} for node, values in json.loads(data.decode()).items()}
            for node, values in altered.items():
                self.check_altered(node, values)
        except (ValueError, TypeError, AttributeError, InvalidConfigError, InvalidRequestError) as error:
            raise KafkaStorageError(
                f"{path} does not hold settings of brokers: restore it, or remove it"
            ) from error
        self.altered = altered
        self._for_topics.clear()

    def _save(self, altered: Mapping[str, Mapping[str, str]]) -> None:
        if self._directory is not None:
            write_file(self._directory / FILE, json.dumps(altered, indent=1).encode(), sync=self._sync)


def config_type(name: str) -> int:
    """The type of a broker setting, as DescribeConfigs numbers them."""
    return KNOWN[name].type if name in KNOWN else TYPES["int"]


def _problem(name: str, value: str) -> str | None:
    """What a value should be and is not."""
    kind = config_type(name)
    if kind == TYPES["bool"] and value.lower() not in ("true", "false"):
        return "true or false"
    try:
        if kind in (TYPES["int"], TYPES["long"], TYPES["short"]):
            int(value)
        elif kind == TYPES["double"]:
            float(value)
    except ValueError:
        return f"a number such as {KNOWN[name].default or '1000' if name in KNOWN else '1000'}"
    if name in _AT_LEAST_ONE and int(value) < 1:
        return "1 or more"
    if name == "log.cleanup.policy" and not {word.strip() for word in value.split(",")} <= {
        "compact",
        "delete",
        "",
    }:
        return "compact, delete or both with a comma"
    choices = _CHOICES.get(name, ())
    if choices and value not in choices and value.lower() not in choices:
        return " or ".join(filter(None, choices))
    return None
