"""Values that cross layers: plain, immutable, without behaviour."""

from __future__ import annotations

import hmac
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

# The types of keys and values: of a consumer's records, with None for null, and of what a producer is given,
# where one that takes more serves as well. A class named without them has any. The last two are what
# (de)serializers give and take.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    K_contra = TypeVar("K_contra", default=Any, contravariant=True)
    V_contra = TypeVar("V_contra", default=Any, contravariant=True)
    AnyK = TypeVar("AnyK", default=Any)
    AnyV = TypeVar("AnyV", default=Any)
else:
    from typing import TypeVar

    K, V, AnyK, AnyV = TypeVar("K"), TypeVar("V"), TypeVar("AnyK"), TypeVar("AnyV")
    K_contra, V_contra = TypeVar("K_contra", contravariant=True), TypeVar("V_contra", contravariant=True)

Header: TypeAlias = tuple[str, bytes | None]
BytesLike: TypeAlias = bytes | bytearray | memoryview


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """What a group has committed for a partition: the offset to read next, with a text of its own."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group: a transaction that commits its offsets is fenced by this (KIP-447).

    `generation_id` is the member's epoch where the broker assigns (KIP-848), and -1 outside the group.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TimestampType(IntEnum):
    """Who stamped a record: the producer, or the broker when it appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 where nobody knows it: with acks=0, or after a retry so late
    that the broker remembered only that it has the record.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    log_start_offset: int = -1


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


class Secret:
    """A password, token or key that must not be shown: `repr`, `str` and f-strings hide it.

    >>> print(Secret("hunter2"), Secret("hunter2").reveal())
    <hidden> hunter2
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself: only where it goes onto the wire or into a key derivation."""
        return self._value

    def __repr__(self) -> str:
        return "<hidden>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))


class Url(str):
    """An address whose `repr` hides what may be secret: user, password and query.

    >>> Url("https://me:hunter2@login.example.com/token?key=hunter2")
    'https://<hidden>@login.example.com/token?<hidden>'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        scheme, separator, rest = self.partition("://")
        if not separator:
            scheme, rest = rest, scheme
        path = rest.partition("?")[0].partition("#")[0]
        authority, slash, more = path.partition("/")
        user, at, host = authority.rpartition("@")
        if "@" in more or "@" in rest[len(path) :]:  # of a user or password with a character that ends them
            return f"'{scheme}{separator}<hidden>'"
        hidden_user = f"<hidden>{at}" if user else at
        hidden_query = f"{rest[len(path)]}<hidden>" if len(path) < len(rest) else ""
        return f"'{scheme}{separator}{hidden_user}{host}{slash}{more}{hidden_query}'"
