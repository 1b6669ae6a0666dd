"""Assignors: what they promise. That they agree with Java's is shown in tests/parity."""

from __future__ import annotations

from random import Random

import pytest

from kclient.consumer.group.assignors.base import Assignor, Member
from kclient.consumer.group.assignors.cooperative import CooperativeStickyAssignor
from kclient.consumer.group.assignors.java_order import (
    PartitionHashSet,
    hash_order,
    partition_hash,
    text_hash,
)
from kclient.consumer.group.assignors.range import RangeAssignor
from kclient.consumer.group.assignors.roundrobin import RoundRobinAssignor
from kclient.consumer.group.assignors.sticky import StickyAssignor
from kclient.types import TopicPartition
from tests.parity.assignor_cases import Case, random_case

EVERY = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)


def cases(kind: type[Assignor]) -> list[Case]:
    return [random_case(kind.name, Random(f"unit {kind.name} {number}")) for number in range(200)]


def everything(case: Case) -> set[TopicPartition]:
    wanted = {topic for member in case.members.values() for topic in member.topics}
    return {
        TopicPartition(topic, number)
        for topic, racks in case.layout.items()
        if topic in wanted
        for number in range(len(racks))
    }


@pytest.mark.parametrize("kind", EVERY)
def test_a_partition_goes_to_one_member_that_wants_it(kind: type[Assignor]) -> None:
    for case in cases(kind):
        assignment = kind().assign(case.layout, case.members)
        given = [partition for partitions in assignment.values() for partition in partitions]
        assert len(given) == len(set(given))
        assert assignment.keys() == case.members.keys()
        for member, partitions in assignment.items():
            assert {partition.topic for partition in partitions} <= set(case.members[member].topics)
        if not kind.cooperative:
            assert set(given) == everything(case)


def test_cooperative_gives_nobody_what_another_one_owns() -> None:
    for case in cases(CooperativeStickyAssignor):
        assignment = CooperativeStickyAssignor().assign(case.layout, case.members)
        owned = {p: name for name, said in case.members.items() for p in said.owned}
        claims = [p for said in case.members.values() for p in said.owned]
        for member, partitions in assignment.items():
            for partition in partitions:
                if claims.count(partition) == 1:
                    assert owned[partition] == member


def test_cooperative_leaves_nothing_unassigned_once_members_have_given_up_what_they_should() -> None:
    for case in cases(CooperativeStickyAssignor):
        members = dict(case.members)
        for round_ in range(4):
            assignment = CooperativeStickyAssignor().assign(case.layout, members)
            members = {
                name: Member(
                    said.topics, owned=tuple(assignment[name]), generation=100 + round_, rack=said.rack
                )
                for name, said in members.items()
            }
        assert {p for partitions in assignment.values() for p in partitions} == everything(case)


def test_range_keeps_partitions_of_one_number_together() -> None:
    members = {name: Member(("a", "b")) for name in ("x", "y", "z")}
    assignment = RangeAssignor().assign({"a": [set()] * 7, "b": [set()] * 7}, members)
    for partitions in assignment.values():
        numbers = {topic: {p.partition for p in partitions if p.topic == topic} for topic in ("a", "b")}
        assert numbers["a"] == numbers["b"]


def test_range_matches_racks() -> None:
    members = {"x": Member(("t",), rack="a"), "y": Member(("t",), rack="b")}
    assignment = RangeAssignor().assign({"t": [{"b"}, {"a"}]}, members)
    assert assignment == {"x": [TopicPartition("t", 1)], "y": [TopicPartition("t", 0)]}


def test_static_members_come_first_by_their_instance() -> None:
    members = {
        "z": Member(("t",), group_instance_id="1"),
        "a": Member(("t",)),
        "b": Member(("t",), group_instance_id="0"),
    }
    assignment = RoundRobinAssignor().assign({"t": [set()] * 3}, members)
    assert [assignment[name][0].partition for name in ("b", "z", "a")] == [0, 1, 2]


def test_sticky_moves_no_more_than_it_must_when_a_member_comes() -> None:
    topic = {"t": [set[str]()] * 9}
    before = {"a": Member(("t",)), "b": Member(("t",))}
    given = StickyAssignor().assign(topic, before)
    after = {"c": Member(("t",))}
    for name in before:
        memory = StickyAssignor()
        memory.assigned(given[name], 1)
        after[name] = Member(("t",), user_data=memory.user_data())
    again = StickyAssignor().assign(topic, after)
    assert sorted(map(len, again.values())) == [3, 3, 3]
    assert all(set(again[name]) <= set(given[name]) for name in before)


def test_java_hashes() -> None:
    # Facts of Java: "hello".hashCode(), and a string beyond the basic plane.
    assert text_hash("hello") == 99162322
    assert text_hash("😀") == 0xD83D * 31 + 0xDE00
    assert partition_hash(TopicPartition("hello", 2)) == 99162322 + 31 * 33
    assert hash_order(["b", "a", "q"]) == ["a", "q", "b"]  # a and q share a bucket of sixteen


def test_a_hash_set_shows_its_elements_in_javas_order_and_never_shrinks() -> None:
    seen = PartitionHashSet()
    many = [TopicPartition("t", number) for number in range(13)]
    for partition in many:
        seen.add(partition)
    for partition in many[1:12]:
        seen.remove(partition)
    # Thirteen do not fit into sixteen buckets: t-0 is in bucket 21 of 32 and t-12 in 9; of 16, t-0 is in 5.
    assert len(seen) == 2
    assert seen.first() == TopicPartition("t", 12)
