"""The committed offsets of all groups, as `__consumer_offsets` keeps them.

A table in memory and its records; who may commit, fetch or delete is decided in `offset_requests`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from kclient.broker.groups.base import GroupRecord
from kclient.broker.groups.records import OffsetCommitKey, OffsetCommitValue, read, write
from kclient.wire.schema import NO_UUID

_KEY_VERSION = 1
_VALUE_VERSION = 4
# The only version that says when an offset expires, for commits of old clients that ask for it.
_VALUE_VERSION_WITH_EXPIRY = 1
NO_EXPIRY = -1


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed offset. Times are in milliseconds since the epoch."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int = NO_EXPIRY
    topic_id: UUID = NO_UUID

    def is_expired(self, now_ms: int, ages_from_ms: int, retention_ms: int) -> bool:
        if self.expires_at_ms != NO_EXPIRY:
            return now_ms >= self.expires_at_ms
        return now_ms - ages_from_ms >= retention_ms

    def is_of(self, topic_id: UUID) -> bool:
        """Was it committed for the topic with this id, as far as both are known? A topic may be made anew."""
        return NO_UUID in (self.topic_id, topic_id) or self.topic_id == topic_id


class OffsetTable:
    """Committed offsets by group, topic and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, Committed]]] = {}

    def groups(self) -> list[str]:
        return list(self._by_group)

    def topics(self, group_id: str) -> dict[str, dict[int, Committed]]:
        """All offsets of a group, by topic and partition; not to be changed."""
        return self._by_group.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self.topics(group_id).get(topic, {}).get(partition)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        for group_id, topics in self._by_group.items():
            for topic, partitions in topics.items():
                for partition in partitions:
                    yield group_id, topic, partition

    def put(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        self._by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._by_group.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._by_group.pop(group_id, None)

    def remove_group(self, group_id: str) -> None:
        self._by_group.pop(group_id, None)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record."""
        of = read(OffsetCommitKey, key)
        if value is None:
            self.remove(of.group, of.topic, of.partition)
            return
        said = read(OffsetCommitValue, value)
        committed = Committed(
            said.offset,
            said.leader_epoch,
            said.metadata,
            said.commit_timestamp,
            said.expire_timestamp,
            said.topic_id,
        )
        self.put(of.group, of.topic, of.partition, committed)


def record(group_id: str, topic: str, partition: int, committed: Committed) -> GroupRecord:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_at_ms,
        expire_timestamp=committed.expires_at_ms,
        topic_id=committed.topic_id,
    )
    expires = committed.expires_at_ms != NO_EXPIRY
    version = _VALUE_VERSION_WITH_EXPIRY if expires else _VALUE_VERSION
    return _key(group_id, topic, partition), write(value, version)


def tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return _key(group_id, topic, partition), None


def _key(group_id: str, topic: str, partition: int) -> bytes:
    return write(OffsetCommitKey(group=group_id, topic=topic, partition=partition), _KEY_VERSION)
