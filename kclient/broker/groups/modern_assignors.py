"""Server-side assignors of consumer groups (KIP-848): who should have which partitions. Pure functions.

`uniform` gives everybody the same number of partitions and moves as few as it can; `range` gives each topic's
partitions out in runs, in the order of members. Java takes members and topics in the order of its hash maps,
which decides who gets the odd partition; `hash_order` reproduces it, so that the same members get the same.
`modern` calls `ASSIGNORS[name]` once per group epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from uuid import UUID

TopicPartition: TypeAlias = tuple[UUID, int]
Partitions: TypeAlias = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()

# Java gives up balancing overlapping subscriptions after as many rounds; each about halves what is uneven.
_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it. `topics` exist; `target` is what it was to have until now."""

    topics: frozenset[UUID]
    target: Partitions = NOTHING
    instance_id: str | None = None


Members: TypeAlias = Mapping[str, Subscriber]
Counts: TypeAlias = Mapping[UUID, int]
Assignor: TypeAlias = Callable[[Members, Counts], dict[str, Partitions]]
K = TypeVar("K", str, UUID)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[UUID, list[int]]:
    """Partition numbers in order, by topic."""
    found: dict[UUID, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        found[topic_id].append(partition)
    return found


def java_hash(key: str | UUID) -> int:
    """`hashCode()` of Java's String or of Kafka's Uuid, as 32 bits without sign."""
    if isinstance(key, UUID):
        bits = (key.int >> 64) ^ (key.int & 0xFFFF_FFFF_FFFF_FFFF)
        return (bits >> 32) ^ (bits & 0xFFFF_FFFF)
    code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return code


def hash_order(keys: Iterable[K]) -> list[K]:
    """Keys in the order in which Java's HashMap, grown from its default size, would list them."""
    ordered = sorted(keys)
    size = 16
    while len(ordered) > size * 3 // 4:
        size *= 2

    def bucket(key: K) -> int:
        code = java_hash(key)
        return (code ^ (code >> 16)) & (size - 1)

    return sorted(ordered, key=bucket)


def assign_range(members: Members, counts: Counts) -> dict[str, Partitions]:
    """Each topic's partitions in runs over its subscribers: static members by instance id, then others."""
    order = sorted(members, key=lambda member: _static_first(member, members[member]))
    assigned: dict[str, set[TopicPartition]] = {member: set() for member in members}
    for topic in {topic for member in members.values() for topic in member.topics}:
        subscribers = [member for member in order if topic in members[member].topics]
        share, odd = divmod(counts[topic], len(subscribers))
        start = 0
        for position, member in enumerate(subscribers):
            end = start + share + (position < odd)
            assigned[member].update((topic, partition) for partition in range(start, end))
            start = end
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def _static_first(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return member.instance_id is None, member_id if member.instance_id is None else member.instance_id


def assign_uniform(members: Members, counts: Counts) -> dict[str, Partitions]:
    """Numbers of partitions that differ by one at most, where subscriptions allow it, with few moves."""
    if len({member.topics for member in members.values()}) <= 1:
        return _even(members, counts)
    return _Balance(members, counts).assign()


def _even(members: Members, counts: Counts) -> dict[str, Partitions]:
    """Everybody has the same topics: a quota per member, what exceeds it is handed on."""
    order = hash_order(members)
    topics = hash_order(next(iter(members.values())).topics) if members else []
    taken = {partition for member in members.values() for partition in member.target}
    free = [(topic, n) for topic in topics for n in range(counts[topic]) if (topic, n) not in taken]
    share, odd = divmod(sum(counts[topic] for topic in topics), max(1, len(order)))
    assigned: dict[str, set[TopicPartition]] = {}
    missing: dict[str, int] = {}
    for position, member in enumerate(order):
        quota = share + (odd > 0)
        kept: set[TopicPartition] = set()
        for topic in hash_order({topic for topic, _ in members[member].target}):
            if topic not in topics:
                continue
            own = sorted(n for other, n in members[member].target if other == topic and n < counts[topic])
            room = max(0, quota - len(kept))
            kept.update((topic, n) for n in own[:room])
            free.extend((topic, n) for n in own[room:])
        # One more than others is for those who have it already, as long as later members can still take it.
        if odd > 0 and (len(kept) == quota or len(order) - position <= odd):
            odd -= 1
        elif odd > 0:
            quota -= 1
        assigned[member] = kept
        missing[member] = quota - len(kept)
    queue = iter(free)
    for member in order:
        for _ in range(missing[member]):
            assigned[member].add(next(queue))
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


class _Balance:
    """Members with different topics: what is free goes to whoever has least, then topics are evened out."""

    def __init__(self, members: Members, counts: Counts) -> None:
        self._members = members
        self._counts = counts
        self._rank = {member: rank for rank, member in enumerate(hash_order(members))}
        self._load = dict.fromkeys(self._rank, 0)
        self._owner: dict[TopicPartition, str] = {}
        subscribers: dict[UUID, list[str]] = defaultdict(list)
        for member in self._rank:
            for topic in members[member].topics:
                subscribers[topic].append(member)
        self._subscribers = subscribers

    def assign(self) -> dict[str, Partitions]:
        self._keep()
        topics = sorted(self._subscribers, key=self._urgency)
        for topic in topics:
            for partition in range(self._counts[topic]):
                if (topic, partition) not in self._owner:
                    self._give((topic, partition), self._least(topic))
        for _ in range(_ROUNDS):
            if sum(self._even_out(topic) for topic in topics) == 0:
                break
        assigned: dict[str, set[TopicPartition]] = {member: set() for member in self._rank}
        for partition_, member in self._owner.items():
            assigned[member].add(partition_)
        return {member: frozenset(partitions) for member, partitions in assigned.items()}

    def _keep(self) -> None:
        for member in self._rank:
            wanted = self._members[member].topics
            for topic, partition in self._members[member].target:
                if topic in wanted and partition < self._counts[topic]:
                    self._give((topic, partition), member)

    def _urgency(self, topic: UUID) -> tuple[float, int, UUID]:
        """Topics with most partitions per subscriber first: there is least choice for them."""
        subscribers = len(self._subscribers[topic])
        return -self._counts[topic] / subscribers, subscribers, topic

    def _give(self, partition: TopicPartition, member: str) -> None:
        previous = self._owner.get(partition)
        if previous is not None:
            self._load[previous] -= 1
        self._owner[partition] = member
        self._load[member] += 1

    def _least(self, topic: UUID) -> str:
        return min(self._subscribers[topic], key=lambda member: (self._load[member], self._rank[member]))

    def _even_out(self, topic: UUID) -> bool:
        """Move partitions of one topic from who has most to who has least, until they differ by one."""
        moved = False
        while True:
            owned: dict[str, int] = {}
            for partition in range(self._counts[topic]):
                owned[self._owner[topic, partition]] = partition
            if not owned:
                return moved
            most = max(owned, key=lambda member: (self._load[member], self._rank[member]))
            least = self._least(topic)
            if self._load[most] - self._load[least] <= 1:
                return moved
            self._give((topic, owned[most]), least)
            moved = True


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
DEFAULT_ASSIGNOR = "uniform"
