"""Random groups: members that differ in topics, racks and memories, some of them wrong."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from kclient.consumer.group.assignors.base import Layout, Member
from kclient.consumer.group.assignors.cooperative import CooperativeStickyAssignor
from kclient.consumer.group.assignors.sticky import StickyAssignor
from kclient.types import TopicPartition

RACKS = ("rack-a", "rack-b", "rack-c")


class Case(NamedTuple):
    """A group that wants to know who gets what."""

    layout: Layout
    members: dict[str, Member]

    def line(self, assignor: str) -> str:
        """In the words of Assignors.java."""
        topics = (
            f"{topic}={'/'.join(','.join(sorted(racks)) for racks in partitions)}"
            for topic, partitions in self.layout.items()
        )
        return f"{assignor}\t{';'.join(topics)}\t{';'.join(_words(*pair) for pair in self.members.items())}"


def _words(name: str, member: Member) -> str:
    fields = (
        name,
        member.group_instance_id or "",
        member.rack or "",
        str(-1 if member.generation is None else member.generation),
        ",".join(member.topics),
        ",".join(f"{topic}:{number}" for topic, number in member.owned),
        (member.user_data or b"").hex(),
    )
    return "|".join(fields)


def random_case(assignor: str, random: Random) -> Case:
    layout = _layout(random)
    names = [
        f"{random.choice(('app', 'kclient', 'x'))}-{random.randbytes(8).hex()}"
        for _ in range(_few(random, 20))
    ]
    wanted = sorted({*layout, "unknown"})
    alike = random.random() < 0.5
    common = tuple(random.sample(wanted, random.randint(1, len(wanted))))
    with_racks, static = random.random() < 0.4, random.random() < 0.3
    memories = _memories(layout, len(names), random)
    members = {}
    for number, name in enumerate(names):
        topics = common if alike else tuple(random.sample(wanted, random.randint(0, len(wanted))))
        generation, owned = memories[number]
        members[name] = Member(
            topics=topics,
            user_data=_user_data(assignor, owned, generation, random),
            owned=tuple(owned),
            generation=generation if random.random() < 0.9 else None,
            rack=random.choice((*RACKS, None, "elsewhere")) if with_racks else None,
            group_instance_id=f"i{random.randint(0, 9)}-{number}"
            if static and random.random() < 0.7
            else None,
        )
    return Case(layout, members)


def _few(random: Random, most: int) -> int:
    return 1 + int(most * random.random() ** 2)


def _layout(random: Random) -> Layout:
    sizes = [random.choice((1, 2, 3, 4, 6, 6, 12)) for _ in range(_few(random, 7))]
    everywhere = random.random() < 0.2

    def racks() -> set[str]:
        return set(RACKS) if everywhere else set(random.sample(RACKS, random.randint(0, len(RACKS))))

    names = random.sample(
        [f"{word}{number}" for word in ("orders", "t", "Events-") for number in range(9)], len(sizes)
    )
    return {name: [racks() for _ in range(size)] for name, size in zip(names, sizes, strict=True)}


def _memories(layout: Layout, members: int, random: Random) -> list[tuple[int | None, list[TopicPartition]]]:
    """What each member had and when: all of one generation, or of several, or in contradiction."""
    everything = [TopicPartition(topic, n) for topic, racks in layout.items() for n in range(len(racks))]
    everything += [TopicPartition("deleted", n) for n in range(2)]
    owned: list[list[TopicPartition]] = [[] for _ in range(members)]
    favourites = random.choices(range(members), k=1 + members // 2)
    for partition in everything:
        if random.random() < 0.8:
            owned[random.choice(favourites if random.random() < 0.5 else range(members))].append(partition)
        if random.random() < 0.1:
            owned[random.randrange(members)].append(partition)
    newest = random.randint(1, 50)
    kind = random.random()
    if kind < 0.15:
        return [(None, []) for _ in owned]
    if kind < 0.6:
        return [(newest, each) for each in map(_distinct, owned)]
    return [(random.choice((newest, newest, newest - 1, None)), each) for each in map(_distinct, owned)]


def _distinct(partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    return list(dict.fromkeys(partitions))


def _user_data(
    assignor: str, owned: list[TopicPartition], generation: int | None, random: Random
) -> bytes | None:
    if random.random() < 0.1:
        return None if random.random() < 0.5 else random.randbytes(random.randint(1, 8))
    memory = {"sticky": StickyAssignor, "cooperative-sticky": CooperativeStickyAssignor}.get(assignor)
    if memory is None or generation is None:
        return None
    remembers = memory()
    remembers.assigned(owned, generation)
    return remembers.user_data()
