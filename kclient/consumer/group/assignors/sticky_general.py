"""Sticky assignment where members differ in their topics: keep, fill up, then move one by one to balance.

An assignment is balanced when nobody could take a partition from a member that has at least two more. There
may be several; the moves are those of Java's assignor, in the same order, so that they end in the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kclient.consumer.group.assignors.base import Assignment, Layout, Member
from kclient.consumer.group.assignors.java_order import PartitionHashSet, hash_order
from kclient.consumer.group.assignors.sticky_input import NO_GENERATION, Claim, Ownership, Racks
from kclient.types import TopicPartition


class _Former(NamedTuple):
    member: str
    generation: int


class GeneralAssignment:
    """One assignment in the making."""

    def __init__(
        self,
        layout: Layout,
        racks: Racks,
        ownership: Ownership,
        members: Mapping[str, Member],
        claims: Mapping[str, Claim],
    ) -> None:
        self._layout = layout
        self._racks = racks
        self._current = ownership.by_member
        self._topics = {
            member: frozenset(topic for topic in said.topics if topic in layout)
            for member, said in members.items()
        }
        self._subscribers = {
            topic: [member for member in members if topic in self._topics[member]] for topic in layout
        }
        self._owners = {partition: member for member, owned in self._current.items() for partition in owned}
        rarest_first = sorted(layout, key=lambda topic: (len(self._subscribers[topic]), topic))
        self._everything = [
            TopicPartition(topic, number) for topic in rarest_first for number in range(len(layout[topic]))
        ]
        self._former = _former_owners(members, claims)
        self._moves = _Moves()

    def build(self) -> Assignment:
        kept, revoked = self._keep()
        free = [partition for partition in self._everything if partition not in kept]
        fresh = not any(self._current.values())
        self._fill(free)
        settled = self._set_aside_the_settled()
        shared = {topic for topic, takers in self._subscribers.items() if len(takers) >= 2}
        before = {member: list(owned) for member, owned in self._current.items()}
        if not revoked:  # perhaps it is enough to move what is being given out anyway
            self._balance([partition for partition in free if partition.topic in shared])
        moved = self._balance([partition for partition in self._everything if partition.topic in shared])
        if not fresh and moved and _imbalance(self._current) >= _imbalance(before):
            self._current = before
        return self._current | settled

    def _keep(self) -> tuple[set[TopicPartition], bool]:
        """Leave members what they may still have; whether anyone must give something up for it."""
        kept: set[TopicPartition] = set()
        revoked = False
        for member, owned in self._current.items():
            stays = [
                partition
                for partition in owned
                if partition.topic in self._topics[member] and not self._racks.mismatch(member, partition)
            ]
            revoked = revoked or len(stays) < len(owned)
            kept.update(stays)
            self._current[member] = stays
        return kept, revoked

    def _fill(self, free: list[TopicPartition]) -> None:
        """Give every free partition to the emptiest of those that may have it, if possible in its rack."""
        rest = free
        if self._racks.homes:
            rest = []
            for partition in free:
                near = [
                    member
                    for member in self._subscribers[partition.topic]
                    if not self._racks.mismatch(member, partition)
                ]
                if near:
                    self._give(partition, self._emptiest(near))
                else:
                    rest.append(partition)
        for partition in rest:
            takers = self._subscribers[partition.topic]
            if takers:
                self._give(partition, self._emptiest(takers))

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._current[member].append(partition)
        self._owners[partition] = member

    def _emptiest(self, members: Iterable[str]) -> str:
        return min(members, key=lambda member: (len(self._current[member]), member))

    def _set_aside_the_settled(self) -> Assignment:
        """Take out members that have all they could get, and nothing that anyone else could."""
        settled = [
            member
            for member, owned in self._current.items()
            if len(owned) >= sum(len(self._layout[topic]) for topic in self._topics[member])
            and all(len(self._subscribers[partition.topic]) < 2 for partition in owned)
        ]
        return {member: self._current.pop(member) for member in settled}

    def _balance(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions for as long as that helps; whether any was moved."""
        moved = False
        again = True
        while again:
            again = False
            for partition in partitions:
                if self._balanced():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = again = True
        return moved

    def _balanced(self) -> bool:
        sizes = {member: len(owned) for member, owned in self._current.items()}
        if max(sizes.values()) - min(sizes.values()) <= 1:
            return True
        fullest: dict[str, int] = {}
        for member, owned in self._current.items():
            for topic in {partition.topic for partition in owned}:
                fullest[topic] = max(fullest.get(topic, 0), sizes[member])
        return not any(
            fullest.get(topic, 0) > sizes[member] + 1
            for member in self._current
            for topic in self._topics[member]
        )

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Who should have a partition instead: its former owner, or else the emptiest."""
        size = len(self._current[self._owners[partition]])
        former = self._former.get(partition)
        takers = [member for member in self._subscribers[partition.topic] if member in self._current]
        if former is not None and former.member in takers and size > len(self._current[former.member]) + 1:
            return former.member
        emptiest = self._emptiest(takers)
        return emptiest if size > len(self._current[emptiest]) + 1 else None

    def _move(self, wished: TopicPartition, target: str) -> None:
        partition = self._moves.instead_of(wished, self._owners[wished], target)
        source = self._owners[partition]
        self._moves.note(partition, source, target)
        self._current[source].remove(partition)
        self._give(partition, target)


class _Moves:
    """Which partitions have moved from whom to whom, so that two of a topic are not simply exchanged."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, tuple[str, str]] = {}
        self._by_way: dict[tuple[str, str, str], PartitionHashSet] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """What to move in place of `partition`: one that came the opposite way goes back."""
        origin = self._ways[partition][0] if partition in self._ways else source
        opposite = self._by_way.get((partition.topic, target, origin))
        return partition if opposite is None else opposite.first()

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        way = self._ways.pop(partition, None)
        if way is not None:
            among = self._by_way[partition.topic, *way]
            among.remove(partition)
            if not among:
                del self._by_way[partition.topic, *way]
            source = way[0]
            if source == target:
                return
        self._ways[partition] = (source, target)
        self._by_way.setdefault((partition.topic, source, target), PartitionHashSet()).add(partition)


def _former_owners(
    members: Mapping[str, Member], claims: Mapping[str, Claim]
) -> dict[TopicPartition, _Former]:
    """Who had what before the newest generation."""
    newest = max(_generation(claim) for claim in claims.values())
    former: dict[TopicPartition, _Former] = {}
    for member in hash_order(members):
        generation = _generation(claims[member])
        if generation < newest:
            for partition in claims[member].partitions:
                if partition not in former or generation > former[partition].generation:
                    former[partition] = _Former(member, generation)
    return former


def _generation(claim: Claim) -> int:
    return NO_GENERATION if claim.generation is None else claim.generation


def _imbalance(assignment: Assignment) -> int:
    """The differences in size of all pairs of members, summed up."""
    sizes = sorted(map(len, assignment.values()))
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
