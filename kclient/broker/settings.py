"""Broker settings under Kafka's names, with Kafka's defaults, for what the embedded broker honours.

Topic settings are here too, because a broker setting is the default of a topic's: `log.retention.ms` of
`retention.ms`. What is not in these tables is not honoured, and asking for it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from kclient.errors import ConfigurationError

# Kafka's defaults, except where a broker for development is better off: no delay before the first rebalance
# and one replica of internal topics, as in Kafka's own quick-start configuration.
BROKER_DEFAULTS: dict[str, str] = {
    "auto.create.topics.enable": "true",
    "connections.max.idle.ms": "600000",
    "default.replication.factor": "1",
    "fetch.max.bytes": "57671680",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.max.size": "2147483647",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.session.timeout.ms": "45000",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.retention.check.interval.ms": "300000",
    "num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.topic.num.partitions": "50",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "replica.selector.class": "",
    "sasl.server.max.receive.size": "524288",
    "socket.request.max.bytes": "104857600",
}

_CHOICES = {
    "auto.create.topics.enable": ("true", "false"),
    "replica.selector.class": (
        "",
        "org.apache.kafka.common.replica.LeaderSelector",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    ),
}

# Topic setting: (default, the broker setting that changes the default).
TOPIC_DEFAULTS: dict[str, tuple[str, str]] = {
    "cleanup.policy": ("delete", "log.cleanup.policy"),
    "compression.type": ("producer", "compression.type"),
    "delete.retention.ms": ("86400000", "log.cleaner.delete.retention.ms"),
    "flush.messages": ("9223372036854775807", "log.flush.interval.messages"),
    "flush.ms": ("9223372036854775807", "log.flush.interval.ms"),
    "index.interval.bytes": ("4096", "log.index.interval.bytes"),
    "max.compaction.lag.ms": ("9223372036854775807", "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": ("1048588", "message.max.bytes"),
    "message.timestamp.after.max.ms": ("3600000", "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": ("9223372036854775807", "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": ("CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("1", "min.insync.replicas"),
    "retention.bytes": ("-1", "log.retention.bytes"),
    "retention.ms": ("604800000", "log.retention.ms"),
    "segment.bytes": ("1073741824", "log.segment.bytes"),
    "segment.index.bytes": ("10485760", "log.index.size.max.bytes"),
    "segment.ms": ("604800000", "log.roll.ms"),
}


class BrokerSettings:
    """The settings of a cluster: what was given, over the defaults."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.given = dict(given or {})
        known = BROKER_DEFAULTS | {name: default for default, name in TOPIC_DEFAULTS.values()}
        unknown = sorted(set(self.given) - set(known))
        if unknown:
            raise ConfigurationError(
                f"the embedded broker has no setting {', '.join(unknown)}; "
                f"it honours {', '.join(sorted(known))}"
            )
        for name, value in self.given.items():
            if _is_number(known[name]) and not _is_number(value, like=known[name]):
                raise ConfigurationError(f"{name}={value!r} must be a number such as {known[name]}")
            choices = _CHOICES.get(name)
            if choices and value not in choices and value.lower() not in choices:
                raise ConfigurationError(f"{name}={value!r} must be {' or '.join(filter(None, choices))}")

    def __getitem__(self, name: str) -> str:
        return self.given.get(name, BROKER_DEFAULTS[name])

    def number(self, name: str) -> int:
        return int(self[name])

    def flag(self, name: str) -> bool:
        return self[name].lower() == "true"

    def topic_defaults(self) -> dict[str, str]:
        """What a topic has that sets nothing itself."""
        return {name: self.given.get(broker, default) for name, (default, broker) in TOPIC_DEFAULTS.items()}


def _is_number(text: str, like: str = "0.5") -> bool:
    """Whether it is one: a whole one, where `like` is."""
    try:
        float(text) if "." in like else int(text)
    except ValueError:
        return False
    return True
