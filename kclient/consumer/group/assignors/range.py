"""Range: each topic is cut into as many runs of partitions as it has subscribers.

Partitions of equal number go to the same member for all topics with the same subscribers and as many
partitions, so records with equal keys meet. Racks are matched as far as that allows (KIP-881).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from kclient.consumer.group.assignors.base import (
    Assignment,
    Assignor,
    Layout,
    Member,
    in_order,
    racks_matter,
)
from kclient.types import TopicPartition


class RangeAssignor(Assignor):
    """Runs of neighbouring partitions, topic by topic."""

    name = "range"

    def assign(self, layout: Layout, members: Mapping[str, Member]) -> Assignment:
        subscribers: dict[str, list[str]] = defaultdict(list)
        for member in in_order(members):
            for topic in dict.fromkeys(members[member].topics):
                subscribers[topic].append(member)
        racks = {member: said.rack for member, said in members.items() if said.rack}
        shares = [
            _Share(topic, layout[topic], subscribers[topic], racks)
            for topic in sorted(layout)
            if layout[topic] and subscribers[topic]
        ]
        if any(share.racks_matter for share in shares):
            _match_racks(shares)
        for share in shares:
            share.cut(lambda _member, _number: True)
        assignment: Assignment = {member: [] for member in members}
        for share in shares:
            for member, numbers in share.taken.items():
                assignment[member] += [TopicPartition(share.topic, number) for number in sorted(numbers)]
        return assignment


class _Kind(NamedTuple):
    """Topics of the same kind are given out together: the same subscribers, as many partitions."""

    subscribers: frozenset[tuple[str, str | None]]
    partitions: int


class _Share:
    """How far the partitions of one topic have been given to its subscribers."""

    def __init__(
        self, topic: str, partitions: Sequence[Set[str]], subscribers: list[str], racks: Mapping[str, str]
    ) -> None:
        self.topic = topic
        self.subscribers = subscribers
        self.taken: dict[str, list[int]] = {member: [] for member in subscribers}
        self._partitions = partitions
        self._racks = {member: racks.get(member) for member in subscribers}
        self._free = list(range(len(partitions)))
        self._each, self._larger_shares = divmod(len(partitions), len(subscribers))
        self.racks_matter = racks_matter({rack for rack in self._racks.values() if rack}, partitions)

    @property
    def kind(self) -> _Kind:
        """Without racks there is nothing to match: then the partitions do not count."""
        known = any(self._racks.values())
        return _Kind(frozenset(self._racks.items()), len(self._partitions) if known else 0)

    def room(self, member: str) -> int:
        """How many more a member may take."""
        return max(0, self._each + (self._larger_shares > 0) - len(self.taken[member]))

    def racks_match(self, member: str, number: int) -> bool:
        rack = self._racks[member]
        return rack is None or rack in self._partitions[number]

    def give(self, member: str, numbers: list[int]) -> None:
        self.taken[member] += numbers
        if len(self.taken[member]) > self._each:
            self._larger_shares -= 1
        self._free = [number for number in self._free if number not in numbers]

    def cut(self, may_take: Callable[[str, int], bool]) -> None:
        """Give each subscriber in turn the first partitions that it may take."""
        for member in self.subscribers:
            fitting = [number for number in self._free if may_take(member, number)][: self.room(member)]
            if fitting:
                self.give(member, fitting)


def _match_racks(shares: list[_Share]) -> None:
    """Give out what can stay in its rack; topics that belong together only together."""
    alike: dict[_Kind, list[_Share]] = defaultdict(list)
    for share in shares:
        alike[share.kind].append(share)
    for kind, group in alike.items():
        if len(group) > 1:
            _match_together(group, kind.partitions)
        elif group[0].racks_matter:
            group[0].cut(group[0].racks_match)


def _match_together(shares: list[_Share], partitions: int) -> None:
    for number in range(partitions):
        for member in shares[0].subscribers:
            if all(share.room(member) and share.racks_match(member, number) for share in shares):
                for share in shares:
                    share.give(member, [number])
                break
