"""What a topic's configuration says about its logs, with Kafka's defaults.

Only what a log acts on. The server keeps the configuration as text, answers DescribeConfigs from that, and
makes one of these whenever it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kclient.errors import InvalidConfigError
from kclient.records import Codec

DAY_MS = 86_400_000
FOREVER = (1 << 63) - 1
_POLICIES = frozenset({"delete", "compact"})
_CODECS = {"uncompressed": Codec.NONE} | {codec.name.lower(): codec for codec in Codec if codec}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one log. Times are milliseconds; -1 switches a retention off.

    `flush_messages` 1 syncs every append to the disk before it is acknowledged, a larger number every so many
    records, and `flush_ms` says how long records may wait for it. Without either it is left to the operating
    system, so that a killed process loses nothing but a power cut may.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    max_message_bytes: int = (1 << 20) + 12
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 3_600_000
    index_interval_bytes: int = 4096
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    compression_type: str = "producer"
    producer_expiration_ms: int = DAY_MS
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER

    @classmethod
    def from_topic_config(cls, config: Mapping[str, str]) -> LogConfig:
        """From Kafka's names and texts; names that are not about logs are left to others.

        >>> LogConfig.from_topic_config({"retention.ms": "60000"}).retention_ms
        60000
        """
        found: dict[str, Any] = {}
        for name, (field, parse) in _TOPIC_CONFIGS.items():
            text = config.get(name)
            if text is None:
                continue
            try:
                found[field] = parse(text)
            except ValueError as error:
                raise InvalidConfigError(f"Invalid value {text} for configuration {name}: {error}") from error
        return cls(**found)

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def syncs(self) -> bool:
        """Whether records are to survive a power cut, now or soon after they are acknowledged."""
        return self.flush_messages < FOREVER or self.flush_ms < FOREVER

    @property
    def stamps(self) -> bool:
        """Whether the broker stamps the records, not the producer."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def codec(self) -> Codec | None:
        """What batches are compressed with in the log; None leaves it to their producers."""
        return None if self.compression_type == "producer" else _CODECS[self.compression_type]


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError(f"Value must be at least {least}")
        return number

    return parse


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"String must be one of: {', '.join(allowed)}")
        return text

    return parse


def _policies(text: str) -> frozenset[str]:
    found = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not found <= _POLICIES:
        raise ValueError("String must be one of: compact, delete")
    return found


def _ratio(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("Value must be between 0 and 1")
    return number


_TOPIC_CONFIGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "segment.bytes": ("segment_bytes", _at_least(14)),
    "segment.ms": ("segment_ms", _at_least(1)),
    "segment.jitter.ms": ("segment_jitter_ms", _at_least(0)),
    "producer.id.expiration.ms": ("producer_expiration_ms", _at_least(1)),
    "segment.index.bytes": ("segment_index_bytes", _at_least(4)),
    "retention.ms": ("retention_ms", _at_least(-1)),
    "retention.bytes": ("retention_bytes", int),
    "cleanup.policy": ("cleanup_policy", _policies),
    "max.message.bytes": ("max_message_bytes", _at_least(0)),
    "message.timestamp.type": ("message_timestamp_type", _one_of("CreateTime", "LogAppendTime")),
    "message.timestamp.before.max.ms": ("message_timestamp_before_max_ms", _at_least(0)),
    "message.timestamp.after.max.ms": ("message_timestamp_after_max_ms", _at_least(0)),
    "index.interval.bytes": ("index_interval_bytes", _at_least(0)),
    "delete.retention.ms": ("delete_retention_ms", _at_least(0)),
    "min.compaction.lag.ms": ("min_compaction_lag_ms", _at_least(0)),
    "max.compaction.lag.ms": ("max_compaction_lag_ms", _at_least(1)),
    "min.cleanable.dirty.ratio": ("min_cleanable_dirty_ratio", _ratio),
    "compression.type": ("compression_type", _one_of("producer", *_CODECS)),
    "flush.messages": ("flush_messages", _at_least(1)),
    "flush.ms": ("flush_ms", _at_least(0)),
}
