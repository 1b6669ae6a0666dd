"""What an assignor is. Write your own by subclassing `Assignor`; the leader of a group calls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from kclient.types import TopicPartition

# Of each topic, for each of its partitions from 0 on, the racks in which it has replicas.
Layout: TypeAlias = Mapping[str, Sequence[Set[str]]]
Assignment: TypeAlias = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Member:
    """What a member says of itself when it joins.

    `owned` is what it keeps while the group rebalances and `generation` when it got that; both are missing
    where an old client speaks. `user_data` is whatever its assignor wrote there.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    rack: str | None = None
    group_instance_id: str | None = None


class Assignor(ABC):
    """Decides who reads what.

    One object serves one consumer. All members of a group must offer an assignor of the same `name`.
    `cooperative` says that its assignments may be adopted without giving up everything first: then it must
    never give a partition to one member while another owns it.

    >>> class First(Assignor):
    ...     "Gives everything to the member that comes first."
    ...
    ...     name = "first"
    ...
    ...     def assign(self, layout, members):
    ...         first, *others = sorted(members)
    ...         everything = [
    ...             TopicPartition(topic, n) for topic, racks in layout.items() for n in range(len(racks))
    ...         ]
    ...         return {first: everything} | {member: [] for member in others}
    >>> First().assign({"orders": [set(), set()]}, {"b": Member(("orders",)), "a": Member(("orders",))})["a"]
    [TopicPartition(topic='orders', partition=0), TopicPartition(topic='orders', partition=1)]
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, layout: Layout, members: Mapping[str, Member]) -> Assignment:
        """The partitions of each member, by its id. Topics that nobody knows are not in `layout`."""

    def user_data(self) -> bytes | None:
        """What to tell the leader's assignor when this member joins."""
        return None

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027 - optional
        """This member got these partitions, all of them; for assignors with a memory."""


def in_order(members: Mapping[str, Member]) -> list[str]:
    """Member ids: static ones first, by their instance id, as it stays when they come back."""

    def key(member_id: str) -> tuple[bool, str]:
        instance = members[member_id].group_instance_id
        return (instance is None, member_id if instance is None else instance)

    return sorted(members, key=key)


def racks_matter(consumers: Set[str], layout: Sequence[Set[str]]) -> bool:
    """Whether it makes a difference who reads what: some partitions are in fewer racks than others."""
    every = set().union(*layout)
    return not consumers.isdisjoint(every) and any(racks != every for racks in layout)
