"""What callers pass to a consumer: partitions, offsets and times, checked and made complete.

Called by the consumers and their engine, before anything is done with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, SupportsIndex

from kclient.errors import ConfigurationError
from kclient.topics import check_topic
from kclient.types import OffsetAndMetadata, TopicPartition

_LAST_OFFSET = 2**63 - 1
_LAST_EPOCH = 2**31 - 1


def place(offset: OffsetAndMetadata | tuple[int, str] | int) -> OffsetAndMetadata:
    """An offset as callers may write it, also with its text in a tuple; complains about what is none.

    It is complete: commits share a request, and what the encoder refused would take those of others with it.
    """
    chosen: object = OffsetAndMetadata(index(offset)) if isinstance(offset, SupportsIndex) else offset
    if type(chosen) is tuple and list(map(type, chosen)) == [int, str]:
        chosen = OffsetAndMetadata(*chosen)
    if not isinstance(chosen, OffsetAndMetadata):
        raise ConfigurationError(f"offset {offset!r} must be a number or an OffsetAndMetadata")
    fields: tuple[Any, Any, Any] = (chosen.offset, chosen.metadata, chosen.leader_epoch)
    given, metadata, epoch = fields  # callers do not always run a type checker
    if not isinstance(given, SupportsIndex):
        raise ConfigurationError(f"offset {given!r} must be a number")
    number = index(given)
    if number < 0:
        raise ConfigurationError(f"offset {number} must not be negative")
    if number > _LAST_OFFSET:
        raise ConfigurationError(f"offset {number} must not be above {_LAST_OFFSET}")
    if not isinstance(metadata, str) or not _encodable(metadata):
        raise ConfigurationError(f"metadata {metadata!r} of an offset must be text that UTF-8 can hold")
    if epoch is not None and not (isinstance(epoch, int) and -1 <= epoch <= _LAST_EPOCH):
        raise ConfigurationError(
            f"leader_epoch {epoch!r} of an offset must be None, or at most {_LAST_EPOCH}"
        )
    return OffsetAndMetadata(number, metadata, epoch)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def places(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | tuple[int, str] | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The same by partition."""
    return {topic_partition(partition): place(offset) for partition, offset in offsets.items()}


def topic_partition(given: object) -> TopicPartition:
    """A partition as callers may write it; complains about what is none."""
    match given:
        case (str(topic), SupportsIndex() as number) if index(number) >= 0:
            check_topic(topic)
            return TopicPartition(topic, index(number))
    raise ConfigurationError(f'{given!r} is no partition: give TopicPartition("orders", 0)')


def time_of(timestamp: object) -> int:
    """A point in time; brokers take negative numbers for something else."""
    if not isinstance(timestamp, SupportsIndex) or index(timestamp) < 0:
        raise ConfigurationError(f"timestamp {timestamp!r} must be a whole number of milliseconds since 1970")
    return index(timestamp)
