"""Cooperative sticky: like sticky, but members keep reading while the group rebalances (KIP-429).

A partition that changes hands is given to nobody at first. Its owner gives it up and joins again, and the
second assignment finds it free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as struct_error

from kclient.consumer.group.assignors.base import Assignment, Assignor, Layout, Member
from kclient.consumer.group.assignors.sticky import assign_sticky
from kclient.consumer.group.assignors.sticky_input import NO_GENERATION, Claim
from kclient.types import TopicPartition

_GENERATION = Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """Sticky, without stopping the group for it."""

    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assign(self, layout: Layout, members: Mapping[str, Member]) -> Assignment:
        claims = {name: Claim(said.owned, _generation(said)) for name, said in members.items()}
        assignment, changing_hands = assign_sticky(layout, members, claims)
        if changing_hands is None:
            changing_hands = _changing_hands(members, assignment)
        for partition, member in changing_hands.items():
            assignment[member].remove(partition)
        return assignment

    def user_data(self) -> bytes:
        return _GENERATION.pack(self._generation)

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:  # noqa: ARG002
        self._generation = generation


def _generation(member: Member) -> int | None:
    """Since when a member has what it owns; members before Kafka 3.0 say it in their user data."""
    if member.generation is not None or member.user_data is None:
        return member.generation
    try:
        return int(_GENERATION.unpack_from(member.user_data)[0])
    except struct_error:
        return NO_GENERATION


def _changing_hands(members: Mapping[str, Member], assignment: Assignment) -> dict[TopicPartition, str]:
    """What somebody owns and somebody else shall have, with the latter."""
    added = {
        partition: member
        for member, partitions in assignment.items()
        for partition in partitions
        if partition not in members[member].owned
    }
    revoked = {
        partition
        for member, partitions in assignment.items()
        for partition in set(members[member].owned) - set(partitions)
    }
    return {partition: member for partition, member in added.items() if partition in revoked}
