"""Where the two halves of a consumer meet: reading partitions, and belonging to a group.

Neither half imports the other; both import this. The reading half implements `Positions`, the group's half
implements `Group` and `OffsetStore`. Everything runs on the client's event loop, so a call without `await`
sees and leaves a consistent state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kclient.clock import Deadline
from kclient.consumer.hooks import ConsumerHook
from kclient.errors import KafkaError
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, KafkaError | None], None]


class Subscribed(NamedTuple):
    """What a group is asked for: topics by name, or a pattern (RE2) that the broker resolves (KIP-848).

    A pattern that the client resolves is its topics: those that the newest metadata shows, perhaps none.
    """

    topics: frozenset[str]
    server_pattern: str | None = None


class Positions(Protocol):
    """What the group's half may ask and tell of the partitions that this consumer reads."""

    # The group waits until nothing is `in_hand`: while this is set it is told at once, by `Group.came_back`.
    awaited: bool

    def subscribed(self) -> Subscribed | None:
        """The subscription, resolved with the metadata of now; None without one: nothing, or `assign`."""

    def assigned(self) -> frozenset[TopicPartition]:
        """Every partition that is read now, fenced ones included."""

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit()` commits: the next offset to hand out of each assigned partition that has one.

        And what was handed out of partitions that went before it was committed, until the application asks
        for records again: see `forfeited`.
        """

    def forfeited(self, offsets: Offsets) -> frozenset[TopicPartition]:
        """Of which partitions the offsets cannot be committed any more, because the partitions went since."""

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What auto commit commits: all but what the application got last and may still be working on.

        Records count as processed once the application asks for more. Partitions that it has dropped itself
        are in it until they were committed.
        """

    def committed(self, offsets: Offsets) -> None:
        """These were committed."""

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with these, their positions still to be found: committed, or else by the reset policy."""

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """Drop these at once: no record of them is handed out or fetched any more.

        `lost`: they went without a chance to commit.
        """

    def fence(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these for now; their positions stay, and can be committed or moved."""

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """End `fence`, for those that are still assigned."""

    def in_hand(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether the application may still be working on records of these: it has not asked for more."""

    def waiting(self) -> bool:
        """Whether the application waits in a call for records: then it is alive, however long that takes."""

    def wake(self) -> None:
        """Have the application's waiting call look at `Group.take_error`."""


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """The options that concern the group, with the names and defaults of the consumer's configuration.

    `rebalance_timeout_ms` is how long the others wait for this member; None takes `max_poll_interval_ms`.
    """

    group_id: str
    group_protocol: str = "classic"
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    client_rack: str | None = None
    partition_assignment_strategy: Sequence[object] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    revoke_at_once: bool = False
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    hooks: Sequence[ConsumerHook] = ()

    @property
    def rebalance_timeout(self) -> int:
        """In milliseconds, whichever option it comes from."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """The membership as `health()` shows it. Ages are in seconds, None where it never happened.

    `refused` says why the group does not take this member now, None if it does, or was not asked.
    """

    state: str
    member_id: str
    generation: int
    coordinator: int | None
    last_heartbeat_age: float | None
    last_poll_age: float | None
    last_error: str | None
    refused: str | None = None


class OffsetStore(Protocol):
    """Committed offsets of the group, for a consumer that uses `assign` too. Implemented by `Commits`."""

    async def commit(self, deadline: Deadline, offsets: Offsets | None = None) -> None:
        """Commit these, or what was consumed; retried until the deadline."""

    def commit_nowait(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """The same in the background; an older commit never overtakes a newer one."""

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed, None where it has not."""

    async def under_way(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Wait until nothing of these partitions waits to be committed, at most until the deadline."""


class Group(Protocol):
    """The membership of one consumer, idle without a subscription. Implemented by `Membership`."""

    def subscription_changed(self) -> None:
        """`Positions.subscribed` answers differently now: join, rejoin or leave."""

    def unsubscribed(self) -> None:
        """Give everything up and leave, whatever may have been subscribed to again by now."""

    def assigned_by_hand(self) -> None:
        """The application itself has chosen partitions: of those that it dropped, commits may be owed."""

    def listen(self, listener: object | None) -> None:
        """Whom to tell of rebalances from now on (`RebalanceListener`); the group's own task awaits it."""

    def polled(self) -> None:
        """The application asks for records: it is alive for another `max_poll_interval_ms`."""

    def came_back(self) -> None:
        """Of what was `in_hand`, something may be done."""

    def metadata(self) -> GroupMetadata:
        """Who this member is now, for transactions."""

    def take_error(self) -> KafkaError | None:
        """What the application's call shall raise: a final error each time, any other once.

        One that lasts comes again with growing pauses.
        """

    def health(self) -> GroupHealth: ...

    def start(self) -> None:
        """Begin to work; joining happens in the background."""

    async def close(self, deadline: Deadline) -> None:
        """Commit if that is automatic, give up all partitions, leave; by the deadline, without raising."""

    def retire(self) -> object:
        """End all tasks without leaving the group, and without waiting: for a close that was cut short."""
