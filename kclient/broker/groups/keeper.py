"""All groups of a cluster and their committed offsets: how they are kept, taken up again, and forgotten.

Requests come in through `coordinator`, which is one of these.
"""

from __future__ import annotations

from random import Random

from kclient.broker.groups import rebalance
from kclient.broker.groups.base import Group, GroupConfig, GroupRecord, GroupStore, RecordReader, Topics
from kclient.broker.groups.classic import ClassicGroup
from kclient.broker.groups.offsets import OffsetTable, tombstone
from kclient.broker.groups.records import (
    GROUP_KEY,
    OFFSET_KEYS,
    GroupMetadataKey,
    GroupMetadataValue,
    read,
    version_of,
)
from kclient.clock import Clock
from kclient.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

# What a client is told when its group could not be stored: the offsets topic is not the client's business.
_STORE_ERRORS: dict[type[BrokerError], type[BrokerError]] = {
    UnknownTopicOrPartitionError: CoordinatorNotAvailableError,
    NotEnoughReplicasError: CoordinatorNotAvailableError,
    NotEnoughReplicasAfterAppendError: CoordinatorNotAvailableError,
    RequestTimedOutError: CoordinatorNotAvailableError,
    NotLeaderOrFollowerError: NotCoordinatorError,
    KafkaStorageError: NotCoordinatorError,
    MessageTooLargeError: UnknownServerError,
    RecordListTooLargeError: UnknownServerError,
}
_MS_PER_MINUTE = 60_000


class GroupKeeper:
    """The groups, the offsets, and the store that outlives them."""

    def __init__(
        self, store: GroupStore, clock: Clock, config: GroupConfig, topics: Topics, random: Random
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets: OffsetTable = OffsetTable()
        self.config = config
        self.clock = clock
        self.random = random
        self._store = store
        self.topics = topics
        self._readers: dict[int, RecordReader] = {}
        self.closed: bool = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.groups)} groups{', closed' if self.closed else ''}>"

    def append(self, group_id: str, records: list[GroupRecord]) -> None:
        """Store records of a group; what is wrong with the store becomes the coordinator's fault."""
        if not records:
            return
        try:
            self._store.append(group_id, records)
        except BrokerError as error:
            raise _STORE_ERRORS.get(type(error), type(error))(about=f"group {group_id}") from error

    def add_reader(self, reader: RecordReader) -> None:
        """Have kinds of records replayed that are not about classic groups or offsets."""
        self._readers.update(dict.fromkeys(reader.key_versions, reader))

    def load(self) -> None:
        """Take up what an earlier run stored. Members of before have their session timeout to come back."""
        for key, value in self._store.load():
            kind = version_of(key)
            if kind in OFFSET_KEYS:
                self.offsets.replay(key, value)
            elif kind == GROUP_KEY:
                self._replay_group(read(GroupMetadataKey, key).group, value)
            elif kind in self._readers:
                self._readers[kind].replay(key, value)
        for group_id in self.offsets.groups():
            self.own_offsets(group_id)
        for group in self.groups.values():
            group.loaded()

    def close(self) -> None:
        """Cancel all timers and tell everybody who waits to look for another coordinator."""
        self.closed = True
        for group in self.groups.values():
            group.close()
        self.groups.clear()

    def moved(self, group_id: str) -> None:
        """Another node answers for a group from now on: nobody must wait for an answer of the old one."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            rebalance.coordinator_moved(group)

    def topics_changed(self) -> None:
        """Forget the offsets of topics that are gone: one of the same name is another one."""
        gone: dict[str, list[tuple[str, int]]] = {}
        for group_id, topic, partition in self.offsets:
            if topic not in self.topics.by_name:
                gone.setdefault(group_id, []).append((topic, partition))
        for group_id, partitions in gone.items():
            self.remove_offsets(group_id, partitions)

    def expire_offsets(self) -> None:
        """Forget offsets past their retention, and empty groups that have none left. Call it now and then."""
        retention = self.config.offsets_retention_minutes * _MS_PER_MINUTE
        now = self.now_ms()
        for group in list(self.groups.values()):
            expired = []
            for topic, partitions in self.offsets.topics(group.group_id).items():
                if group.is_subscribed_to(topic):
                    continue
                for partition, one in partitions.items():
                    since = group.offsets_expire_from(one.committed_at_ms)
                    if since is not None and one.is_expired(now, since, retention):
                        expired.append((topic, partition))
            self.remove_offsets(group.group_id, expired)
            if group.is_empty and not self.offsets.topics(group.group_id):
                self.delete(group)

    def now_ms(self) -> int:
        return int(self.clock.wall() * 1000)

    def own_offsets(self, group_id: str) -> None:
        """Offsets belong to a group: one without members, for who only commits."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, self)

    def delete(self, group: Group) -> None:
        """Forget a group and its offsets."""
        offsets = [
            tombstone(group.group_id, topic, partition)
            for topic, partitions in self.offsets.topics(group.group_id).items()
            for partition in partitions
        ]
        self.append(group.group_id, offsets + group.tombstones())
        self.offsets.remove_group(group.group_id)
        del self.groups[group.group_id]
        group.close()

    def remove_offsets(self, group_id: str, partitions: list[tuple[str, int]]) -> None:
        """Forget the offsets of some partitions, where there are any."""
        there = [one for one in partitions if self.offsets.get(group_id, *one)]
        self.append(group_id, [tombstone(group_id, *one) for one in there])
        for one in there:
            self.offsets.remove(group_id, *one)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        found = self.groups.get(group_id)
        if value is not None:
            group = ClassicGroup(group_id, self)
            group.replay(read(GroupMetadataValue, value))
            self.groups[group_id] = group
        elif isinstance(found, ClassicGroup):
            del self.groups[group_id]
