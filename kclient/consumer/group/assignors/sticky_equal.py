"""Sticky assignment where all members have the same topics: everyone keeps what the quota allows.

Of p partitions and m members, p % m members get one partition more than the others. What members owned they
keep up to that; the rest is dealt out, first to those in the partition's rack, to the emptiest first.
"""

from __future__ import annotations

from kclient.consumer.group.assignors.base import Assignment, Layout
from kclient.consumer.group.assignors.sticky_input import Ownership, Racks
from kclient.types import TopicPartition


class EqualAssignment:
    """One assignment in the making. `changing_hands` tells what moves from one member to another."""

    def __init__(self, layout: Layout, racks: Racks, ownership: Ownership) -> None:
        self._everything = [
            TopicPartition(topic, number) for topic in sorted(layout) for number in range(len(layout[topic]))
        ]
        self._racks = racks
        self._ownership = ownership
        self.result: Assignment = {member: [] for member in ownership.by_member}
        self.changing_hands: dict[TopicPartition, str] = {}
        self._given_up: dict[TopicPartition, str] = {}
        self._kept: set[TopicPartition] = set()
        # The least that a member gets, how many get one more, and how many of those have it already.
        self._quota, self._larger = divmod(len(self._everything), len(self.result))
        self._filled = 0
        # Members that need more, and members that have their quota and may get the one more.
        self._needy: list[str] = []
        self._open: list[str] = []

    def build(self) -> Assignment:
        for member, owned in self._ownership.by_member.items():
            self._keep(member, owned)
        self._needy.sort()
        self._open.sort()
        free = self._racks.fewest_readers_first([p for p in self._everything if p not in self._kept])
        if self._racks.homes:
            free = self._deal_within_racks(free)
        self._deal(free)
        return self.result

    @property
    def _most(self) -> int:
        return self._quota + (self._larger > 0)

    def _keep(self, member: str, owned: list[TopicPartition]) -> None:
        """Leave a member what it owned, up to what it may have."""
        away = [partition for partition in owned if self._racks.mismatch(member, partition)]
        stays = sorted(
            set(owned) - set(away) - self._ownership.contested, key=lambda p: (p.partition, p.topic)
        )
        if len(stays) < self._quota:
            limit = len(stays)
            self._needy.append(member)
        elif len(stays) >= self._most and self._filled < self._larger:
            limit = self._most
            self._one_more_filled()
        else:
            limit = self._quota
            if self._filled < self._larger:
                self._open.append(member)
        self.result[member] += stays[:limit]
        self._kept.update(stays[:limit])
        self._given_up.update(dict.fromkeys(away + stays[limit:], member))

    def _one_more_filled(self) -> None:
        self._filled += 1
        if self._filled == self._larger:
            self._open.clear()

    def _deal_within_racks(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Deal out what somebody in the right rack may take; returns the rest."""
        turn = 0
        rest = []
        for partition in free:
            at = self._next_near(partition, self._needy, turn)
            if at is not None:
                member = self._needy[at]
                if len(self.result[member]) + 1 >= self._quota:
                    del self._needy[at]
                    if len(self.result[member]) + 1 < self._most and self._filled < self._larger:
                        self._open.append(member)
                else:
                    at += 1
                turn = at % len(self._needy) if self._needy else 0
            else:
                at = self._next_near(partition, self._open, 0)
                if at is None:
                    rest.append(partition)
                    continue
                member = self._open[at]
                if len(self.result[member]) + 1 == self._most:
                    del self._open[at]
                    self._one_more_filled()
            self._give(partition, member)
        return rest

    def _next_near(self, partition: TopicPartition, members: list[str], turn: int) -> int | None:
        """The place of the first member, from `turn` on and around, in a rack of the partition."""
        places = (*range(turn, len(members)), *range(turn))
        return next((at for at in places if self._racks.near(members[at], partition)), None)

    def _deal(self, free: list[TopicPartition]) -> None:
        """Deal out in turn: round after round to those that need more, then one more each."""
        turn = 0
        for partition in free:
            if not self._needy:
                self._give(partition, self._open.pop(0))
                continue
            if turn >= len(self._needy):
                turn = 0
            member = self._needy[turn]
            self._give(partition, member)
            if len(self.result[member]) == self._quota:
                del self._needy[turn]
                self._open.append(member)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.result[member].append(partition)
        before = self._given_up.get(partition)
        if (before is not None and before != member) or partition in self._ownership.contested:
            self.changing_hands[partition] = member
