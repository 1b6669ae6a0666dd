"""The order in which Java's hash maps and sets are walked.

Java's sticky assignors walk hash maps of members, and who comes first may keep one partition more. A group in
which the leader is sometimes Java's client and sometimes kclient must not move partitions for that reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from kclient.types import TopicPartition

_SMALLEST_TABLE = 16


def text_hash(text: str) -> int:
    """Java's hash of a string, as an unsigned number: over its UTF-16 units."""
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value


def partition_hash(partition: TopicPartition) -> int:
    """Java's hash of a TopicPartition, as an unsigned number."""
    return (31 * (31 + partition.partition) + text_hash(partition.topic)) & 0xFFFFFFFF


def table_size(entries: int, table: int = _SMALLEST_TABLE) -> int:
    """Buckets of a hash table that has grown to hold so many entries: three quarters may be used."""
    while entries * 4 > table * 3:
        table *= 2
    return table


def bucket(hashed: int, table: int) -> int:
    return (hashed ^ hashed >> 16) & (table - 1)


def hash_order(texts: Iterable[str]) -> list[str]:
    """Keys of a hash map in the order it is walked, given in the order in which they were put in."""
    keys = list(dict.fromkeys(texts))
    table = table_size(len(keys))
    return sorted(keys, key=lambda key: bucket(text_hash(key), table))


class PartitionHashSet:
    """A set that knows which element Java's would show first; like Java's, its table never shrinks."""

    __slots__ = ("_items", "_table")

    def __init__(self) -> None:
        self._items: dict[TopicPartition, None] = {}
        self._table = _SMALLEST_TABLE

    def __len__(self) -> int:
        return len(self._items)

    def add(self, partition: TopicPartition) -> None:
        self._items[partition] = None
        self._table = table_size(len(self._items), self._table)

    def remove(self, partition: TopicPartition) -> None:
        del self._items[partition]

    def first(self) -> TopicPartition:
        return min(self._items, key=lambda partition: bucket(partition_hash(partition), self._table))
