"""Sticky: as balanced as round robin, and everyone keeps as much as possible of what it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from kclient.consumer.group.assignors.base import Assignment, Assignor, Layout, Member
from kclient.consumer.group.assignors.sticky_equal import EqualAssignment
from kclient.consumer.group.assignors.sticky_general import GeneralAssignment
from kclient.consumer.group.assignors.sticky_input import NO_GENERATION, Claim, Racks, settle_claims
from kclient.consumer.group.protocol import grouped
from kclient.errors import ProtocolError
from kclient.types import TopicPartition
from kclient.wire.message import Data
from kclient.wire.schema import Array, Int32, String, Struct, V


class StickyUserData(Data, versions="0-1", flexible="none"):
    """What a member of a sticky group tells the leader: what it had, and since when."""

    class TopicAssignment(Struct):
        topic: String
        partitions: Array[Int32]

    previous_assignment: Array[TopicAssignment]
    generation: Annotated[Int32, V("1+")] = NO_GENERATION


class StickyAssignor(Assignor):
    """Eager: members give everything up before they join, so what they had travels as user data."""

    name = "sticky"

    def __init__(self) -> None:
        self._had: Claim | None = None

    def assign(self, layout: Layout, members: Mapping[str, Member]) -> Assignment:
        return assign_sticky(layout, members, {name: _claim(said) for name, said in members.items()})[0]

    def user_data(self) -> bytes | None:
        if self._had is None:
            return None
        topics = [
            StickyUserData.TopicAssignment(topic=topic, partitions=numbers)
            for topic, numbers in grouped(self._had.partitions).items()
        ]
        generation = NO_GENERATION if self._had.generation is None else self._had.generation
        return StickyUserData(previous_assignment=topics, generation=generation).encode(1)

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._had = Claim(partitions, generation)


def assign_sticky(
    layout: Layout, members: Mapping[str, Member], claims: Mapping[str, Claim]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and which partitions change hands to whom, where the way of assigning tells."""
    wanted = {topic for member in members.values() for topic in member.topics}
    layout = {topic: partitions for topic, partitions in layout.items() if topic in wanted}
    ownership = settle_claims(layout, members, claims)
    racks = Racks(layout, members)
    if _all_alike(members):
        equal = EqualAssignment(layout, racks, ownership)
        return equal.build(), equal.changing_hands
    return GeneralAssignment(layout, racks, ownership, members, claims).build(), None


def _all_alike(members: Mapping[str, Member]) -> bool:
    return len({frozenset(member.topics) for member in members.values()}) == 1


def _claim(member: Member) -> Claim:
    if not member.user_data:
        return Claim(())
    for version in (1, 0):
        try:
            said, _ = StickyUserData.decode_from(member.user_data, 0, version)
        except ProtocolError:
            continue
        partitions = [
            TopicPartition(topic.topic, number)
            for topic in said.previous_assignment
            for number in topic.partitions
        ]
        return Claim(partitions, said.generation if version else None)
    return Claim((), NO_GENERATION)
