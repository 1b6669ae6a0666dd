"""From what a caller passes to what a batch can carry: hooks, serializers, types, limits.

Bad input is refused here, at the call that brought it, because in a batch it would take others with it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kclient.errors import InvalidTopicError, KafkaError
from kclient.types import Header, RecordMetadata

if TYPE_CHECKING:
    from kclient.producer.config import ProducerConfig
    from kclient.producer.delivery import Delivery

log = logging.getLogger(__name__)

_LATEST = (1 << 63) - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ProducerRecord(NamedTuple):
    """A record before it is sent, as hooks see it and may change it (`record._replace(value=…)`)."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Any = ()


class ProducerHook(Protocol):
    """Sees every record on its way, before it is serialized and partitioned, and its fate.

    Both run where the caller is (`on_delivery` on the event loop) and must not block. What they raise is
    logged and changes nothing.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """The record to send instead; None for this one."""

    def on_delivery(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        """Where the record was written, or why it was not."""


class Fields(NamedTuple):
    """A record as the accumulator takes it, in the order of its parameters."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: tuple[Header, ...]


def prepare(
    config: ProducerConfig, record: ProducerRecord
) -> tuple[Fields, Callable[[Delivery], None] | None]:
    """A caller's record as bytes, and who wants to know what becomes of it."""
    told = None
    if config.hooks:
        record = _through_hooks(config, record)
        told = _tell_hooks(config, record)
    topic, value, key, partition, timestamp_ms, headers = record
    if topic.__class__ is not str:
        check_topic(topic)
    check_partition(partition)
    check_timestamp(timestamp_ms)
    fields = Fields(
        topic,
        as_bytes(value, "value", config.value_serializer),
        as_bytes(key, "key", config.key_serializer),
        partition,
        timestamp_ms,
        as_headers(headers),
    )
    return fields, told


def as_bytes(value: Any, what: str, serializer: Callable[[Any], bytes | None] | None) -> bytes | None:
    """A key or value as bytes of its own. A serializer is asked for everything, None included."""
    if serializer is not None:
        value = serializer(value)
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)  # the caller may go on writing into it
    if serializer is not None:
        raise TypeError(f"{what}_serializer returned {type(value).__name__}, not bytes or None")
    raise TypeError(
        f"{what} is {type(value).__name__}, not bytes: encode it, or give the producer a {what}_serializer"
    )


def as_headers(headers: Any) -> tuple[Header, ...]:
    """Headers as a batch carries them: from a mapping, or from pairs of text and bytes or None."""
    if not headers:
        return ()
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(_header(pair) for pair in pairs)


def _header(pair: Any) -> Header:
    try:
        name, value = pair
    except (TypeError, ValueError) as error:
        raise TypeError(f"header {pair!r} is no pair of a name and bytes") from error
    if not isinstance(name, str):
        raise TypeError(f"header name {name!r} is {type(name).__name__}, not text")
    if value is not None and not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"header {name!r} is {type(value).__name__}, not bytes or None")
    name.encode()  # a lone surrogate has no bytes, and raises here
    return name, None if value is None else bytes(value)


def check_topic(topic: Any) -> None:
    """Refuse what can be no topic's name: asked for, it would spoil every question about topics."""
    if not isinstance(topic, str):
        raise TypeError(f"topic {topic!r} is {type(topic).__name__}, not text")
    if not _TOPIC.fullmatch(topic):
        raise InvalidTopicError(about=f"topic {topic!r}")


def check_partition(partition: Any) -> None:
    """Refuse what is no partition; whether the topic has it is seen when the record is sent."""
    if partition is not None and not (_is_whole(partition) and partition >= 0):
        raise ValueError(f"partition={partition!r} must be a number from 0 on")


def check_timestamp(timestamp_ms: Any) -> None:
    """Refuse what no record can have."""
    if timestamp_ms is not None and not (_is_whole(timestamp_ms) and 0 <= timestamp_ms <= _LATEST):
        raise ValueError(f"timestamp_ms={timestamp_ms!r} must be whole milliseconds since 1970, not negative")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _through_hooks(config: ProducerConfig, record: ProducerRecord) -> ProducerRecord:
    for hook in config.hooks:
        try:
            record = hook.on_send(record) or record
        except Exception:
            log.exception("the hook %r failed for a record of topic %s", hook, record.topic)
    return record


def _tell_hooks(config: ProducerConfig, record: ProducerRecord) -> Callable[[Delivery], None]:
    def tell(delivery: Delivery) -> None:
        error = delivery.exception()
        metadata = None if error else delivery.result()
        for hook in config.hooks:
            try:
                hook.on_delivery(record, metadata, error)
            except Exception:
                log.exception("the hook %r failed for a delivery to topic %s", hook, record.topic)

    return tell
