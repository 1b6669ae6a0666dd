"""Values that cross layers: plain, immutable, without behaviour."""

from __future__ import annotations

from enum import IntEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Header: TypeAlias = tuple[str, bytes | None]


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class TimestampType(IntEnum):
    """Who stamped a record: the producer, or the broker when it appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple, Generic[K, V]):
    """One record as read from a partition.

    A tuple, because making a tuple is the cheapest way to make an object in Python and a consumer makes
    millions of them. Sizes are those of the serialized bytes, -1 where key or value is null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K
    value: V
    headers: tuple[Header, ...]
    leader_epoch: int
    serialized_key_size: int
    serialized_value_size: int
