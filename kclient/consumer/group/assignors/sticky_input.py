"""What both sticky ways of assigning begin with: who owned what, and who sits in which rack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kclient.consumer.group.assignors.base import Assignment, Layout, Member, racks_matter
from kclient.consumer.group.assignors.java_order import hash_order
from kclient.types import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says it had, and since which generation, where it says so."""

    partitions: Sequence[TopicPartition]
    generation: int | None = None


@dataclass(slots=True)
class Ownership:
    """What each member had, in the order of Java's hash map; `contested` was claimed by two as equals."""

    by_member: Assignment = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)


def settle_claims(layout: Layout, members: Mapping[str, Member], claims: Mapping[str, Claim]) -> Ownership:
    """Who owned what. Of two who claim the same, the one with the newer generation is believed."""
    found = Ownership()
    owners: dict[TopicPartition, str] = {}
    for member in hash_order(members):
        claim = claims[member]
        generation = NO_GENERATION if claim.generation is None else claim.generation
        mine = found.by_member[member] = []
        for partition in claim.partitions:
            if partition.partition >= len(layout.get(partition.topic, ())):
                continue
            rival = owners.get(partition)
            if rival is not None:
                said = members[rival].generation
                rivals = NO_GENERATION if said is None else said
                if generation < rivals:
                    continue
                if partition in found.by_member[rival]:
                    found.by_member[rival].remove(partition)
                if generation == rivals:
                    found.contested.add(partition)
                    owners[partition] = member
                    continue
            mine.append(partition)
            owners[partition] = member
    return found


class Racks:
    """Who is near which partition. Knows nothing, and so says nothing, where racks do not matter."""

    def __init__(self, layout: Layout, members: Mapping[str, Member]) -> None:
        homes = {member: said.rack for member, said in members.items() if said.rack}
        self._partitions: dict[TopicPartition, frozenset[str]] = {}
        if homes:
            self._partitions = {
                TopicPartition(topic, number): frozenset(racks)
                for topic, partitions in layout.items()
                for number, racks in enumerate(partitions)
            }
        crowd = Counter(homes.values())
        self._readers = {
            partition: sum(crowd[rack] for rack in racks) for partition, racks in self._partitions.items()
        }
        matter = racks_matter(set(homes.values()), list(self._partitions.values()))
        self.homes: dict[str, str] = homes if matter else {}

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member sits in a rack where the partition has no replica."""
        home = self.homes.get(member)
        return home is not None and home not in self._partitions.get(partition, ())

    def near(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member sits in a rack where the partition has a replica."""
        return self.homes.get(member) in self._partitions.get(partition, ())

    def fewest_readers_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """In the order in which they should find a reader; the order stays where racks are not known."""
        return sorted(partitions, key=lambda partition: self._readers.get(partition, 0))
