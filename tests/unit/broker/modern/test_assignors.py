"""Server-side assignors: who gets what, and how little moves."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from kclient.broker.groups.modern_assignors import (
    ASSIGNORS,
    Partitions,
    Subscriber,
    assign_range,
    assign_uniform,
    hash_order,
    java_hash,
)

A, B = UUID(int=1), UUID(int=2)


def _spread(topic: UUID, *numbers: int) -> Partitions:
    return frozenset((topic, number) for number in numbers)


def test_hashes_and_orders_are_javas() -> None:
    assert java_hash("m1") == 3428
    assert java_hash("kafka") == 101807910
    assert java_hash("hello world, this overflows") < 1 << 32
    assert hash_order(["b", "a", "q"]) == ["a", "q", "b"]  # 97 and 113 share a bucket of 16
    assert java_hash(UUID("00000000-0000-0001-0000-000200000003")) == 1 ^ 2 ^ 3


def test_uniform_keeps_what_fits_the_quota_and_hands_on_the_rest() -> None:
    members = {"m1": Subscriber(frozenset({A}), _spread(A, 0, 1, 2, 3)), "m2": Subscriber(frozenset({A}))}
    assert assign_uniform(members, {A: 4}) == {"m1": _spread(A, 0, 1), "m2": _spread(A, 2, 3)}


def test_uniform_leaves_the_odd_partition_with_who_has_it() -> None:
    """Seen on Kafka 4.3.1, which takes m1 first and would have to move one more for it."""
    members = {"m1": Subscriber(frozenset({A})), "m2": Subscriber(frozenset({A}), _spread(A, 0, 1, 2, 3, 4))}
    assert assign_uniform(members, {A: 5}) == {"m1": _spread(A, 3, 4), "m2": _spread(A, 0, 1, 2)}


def test_uniform_fills_up_members_that_have_few_topics() -> None:
    """Seen on Kafka 4.3.1."""
    members = {
        "m1": Subscriber(frozenset({A, B}), _spread(A, 0, 1)),
        "m2": Subscriber(frozenset({A}), _spread(A, 2, 3)),
    }
    assert assign_uniform(members, {A: 4, B: 2}) == {
        "m1": _spread(A, 0) | _spread(B, 0, 1),
        "m2": _spread(A, 1, 2, 3),
    }


def test_uniform_drops_topics_that_are_gone_or_unsubscribed() -> None:
    members = {
        "m1": Subscriber(frozenset({B}), _spread(A, 0) | _spread(B, 0)),
        "m2": Subscriber(frozenset({B})),
    }
    assert assign_uniform(members, {A: 1, B: 2}) == {"m1": _spread(B, 0), "m2": _spread(B, 1)}


def test_range_gives_runs_and_puts_static_members_first() -> None:
    members = {
        "a": Subscriber(frozenset({A})),
        "b": Subscriber(frozenset({A}), instance_id="2"),
        "c": Subscriber(frozenset({A}), instance_id="1"),
    }
    assert assign_range(members, {A: 5}) == {"c": _spread(A, 0, 1), "b": _spread(A, 2, 3), "a": _spread(A, 4)}


def test_range_counts_only_who_subscribes() -> None:
    members = {"a": Subscriber(frozenset({A})), "b": Subscriber(frozenset({A, B}))}
    assert assign_range(members, {A: 3, B: 2}) == {
        "a": _spread(A, 0, 1),
        "b": _spread(A, 2) | _spread(B, 0, 1),
    }


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(50))
def test_every_partition_has_one_subscriber_whatever_was_before(name: str, seed: int) -> None:
    random = Random(seed)
    counts = {UUID(int=random.getrandbits(128)): random.randint(1, 9) for _ in range(4)}
    topics = list(counts)
    members: dict[str, Subscriber] = {}
    for _ in range(6):
        if members and random.random() < 0.4:
            del members[random.choice(list(members))]
        wanted = topics if seed % 2 else random.sample(topics, random.randint(1, 4))
        members[str(random.random())] = Subscriber(frozenset(wanted))
        assigned = ASSIGNORS[name](members, counts)
        _check_complete(members, counts, assigned)
        if name == "uniform" and seed % 2:
            sizes = {len(partitions) for partitions in assigned.values()}
            assert max(sizes) - min(sizes) <= 1
        members = {member: Subscriber(members[member].topics, assigned[member], None) for member in members}


def _check_complete(
    members: dict[str, Subscriber], counts: dict[UUID, int], assigned: dict[str, Partitions]
) -> None:
    assert assigned.keys() == members.keys()
    given = sorted(partition for partitions in assigned.values() for partition in partitions)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert given == sorted((topic, n) for topic in wanted for n in range(counts[topic]))
    for member, partitions in assigned.items():
        assert {topic for topic, _ in partitions} <= members[member].topics


def test_uniform_moves_nothing_where_nothing_changed() -> None:
    random = Random(7)
    counts = {UUID(int=random.getrandbits(128)): 5 for _ in range(3)}
    topics = list(counts)
    members = {f"m{n}": Subscriber(frozenset(topics[: 1 + n % 3])) for n in range(5)}
    first = assign_uniform(members, counts)
    again = {name: Subscriber(member.topics, first[name]) for name, member in members.items()}
    assert assign_uniform(again, counts) == first
