"""What classic and consumer (KIP-848) groups have in common, and what the coordinator gives to both.

Both kinds live in one dict by group id, because an id belongs to one kind at a time and listing, deleting
and committed offsets do not care which. Committed offsets are not part of a group: they outlive its members
and are kept next to it by the coordinator. `classic` and `modern` implement `Group`; `coordinator` and
`offsets` call it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, fields
from random import Random
from typing import Any, ClassVar, Literal, Protocol, TypeAlias
from uuid import UUID

from kclient.clock import Clock
from kclient.errors import ConfigurationError
from kclient.wire.messages.group_admin import DescribeGroupsResponse

# A record of __consumer_offsets: its key starts with an int16 that says what it is; a value of None deletes.
GroupRecord: TypeAlias = tuple[bytes, bytes | None]
GroupType: TypeAlias = Literal["classic", "consumer"]

# By group.consumer.migration.policy: may classic groups become consumer groups, and these classic ones?
MIGRATION_POLICIES = {
    "disabled": (False, False),
    "upgrade": (True, False),
    "downgrade": (False, True),
    "bidirectional": (True, True),
}


class Group(Protocol):
    """One group as the coordinator sees it. Each `check_…` raises the `BrokerError` to answer with."""

    group_id: str
    type_name: ClassVar[GroupType]

    @property
    def state_name(self) -> str:
        """The state as ListGroups shows it: "Empty", "Stable", "PreparingRebalance", "Assigning", …"""
        ...

    @property
    def protocol_type(self) -> str:
        """What members call themselves: "consumer", "connect", …; "" where nobody joined yet."""
        ...

    @property
    def is_empty(self) -> bool:
        """Nobody is in it: it may be deleted, replaced by the other kind, and its offsets grow old."""
        ...

    def check_commit(self, member_id: str, epoch: int, instance_id: str | None, version: int) -> None:
        """May this member, at this generation or member epoch, commit with this version of OffsetCommit?

        An epoch below 0 is an admin client or a consumer that manages its partitions alone.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May this member, at this member epoch, read committed offsets?"""
        ...

    def check_delete(self) -> None:
        """May the group be deleted? `NonEmptyGroupError` where somebody is in it."""
        ...

    def check_offset_delete(self) -> None:
        """May offsets be deleted at all in the state the group is in?"""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Does a member consume the topic? Its offsets are then neither deleted nor expired."""
        ...

    def offsets_expire_from(self, committed_at_ms: int) -> int | None:
        """From when on (epoch ms) an offset committed then grows old; None for never, as things are."""
        ...

    def describe(self) -> DescribeGroupsResponse.DescribedGroup | None:
        """The answer to DescribeGroups; None where the group is not of the kind that it describes."""
        ...

    def tombstones(self) -> list[GroupRecord]:
        """The records that delete the group itself; the coordinator adds those of its offsets."""
        ...

    def loaded(self) -> None:
        """All records have been replayed: start the timers that members of before the restart need."""
        ...

    def close(self) -> None:
        """Cancel every timer and fail every request that waits. The group is deleted or the broker stops."""
        ...


class GroupStore(Protocol):
    """Where groups are kept: the topic __consumer_offsets, or memory. What `append` took, `load` gives."""

    def append(self, group_id: str, records: list[GroupRecord]) -> None:
        """Add records to the group's partition; an error here fails the request."""
        ...

    def load(self) -> Iterator[GroupRecord]:
        """Every record there is, those of one group in the order of their appends."""
        ...


class RecordReader(Protocol):
    """Replays the kinds of records that it names; give it to `GroupCoordinator.add_reader` before `load`."""

    key_versions: frozenset[int]

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record. The key still has its leading int16."""
        ...


class Topic(Protocol):
    """What groups need to know of a topic. The server's own topics have it."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> Sized: ...


class Topics(Protocol):
    """The topics there are at the moment, by name and by id."""

    @property
    def by_name(self) -> Mapping[str, Topic]: ...

    @property
    def by_id(self) -> Mapping[UUID, Topic]: ...


class GroupHost(Protocol):
    """What a group may use of its coordinator."""

    config: GroupConfig
    clock: Clock
    random: Random

    def append(self, group_id: str, records: list[GroupRecord]) -> None:
        """Store records that change a group. Call it before the change is shown to anybody."""
        ...


class GroupHouse(GroupHost, Protocol):
    """The coordinator as the place of all groups, for who puts one kind in the place of the other."""

    groups: dict[str, Group]


class MemoryStore:
    """Keeps the newest record per key in memory, in the order of their last change."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes | None] = {}

    def append(self, group_id: str, records: list[GroupRecord]) -> None:  # noqa: ARG002 - one partition
        for key, value in records:
            self.records.pop(key, None)
            if value is not None:
                self.records[key] = value

    def load(self) -> Iterator[GroupRecord]:
        yield from list(self.records.items())


class GroupSettings(Protocol):
    """The part of the broker's settings that groups read."""

    def __getitem__(self, name: str) -> str: ...

    def number(self, name: str) -> int: ...


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Broker options about groups, under Kafka's names with underscores for dots, with Kafka's defaults."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"

    def __post_init__(self) -> None:
        if self.group_consumer_migration_policy.lower() not in MIGRATION_POLICIES:
            raise ConfigurationError(
                f"group.consumer.migration.policy={self.group_consumer_migration_policy}: "
                f"it is one of {', '.join(MIGRATION_POLICIES)}"
            )

    @classmethod
    def from_settings(cls, settings: GroupSettings) -> GroupConfig:
        """As the broker's settings say."""
        given: dict[str, Any] = {}
        for field in fields(cls):
            name = field.name.replace("_", ".")
            given[field.name] = settings[name] if isinstance(field.default, str) else settings.number(name)
        return cls(**given)

    @property
    def upgrades(self) -> bool:
        """May a classic group with members become a consumer group?"""
        return MIGRATION_POLICIES[self.group_consumer_migration_policy.lower()][0]

    @property
    def downgrades(self) -> bool:
        """May a consumer group with members become a classic group?"""
        return MIGRATION_POLICIES[self.group_consumer_migration_policy.lower()][1]
