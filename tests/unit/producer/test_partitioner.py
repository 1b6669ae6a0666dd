"""Partitioners: by key, in turn, sticky, the user's own, and those for hot keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from aiokafka.partitioner import DefaultPartitioner

from kclient.errors import ConfigurationError
from kclient.producer.hashing.murmur2 import murmur2
from kclient.producer.hashing.others import fnv1a, murmur3
from kclient.producer.hot_keys import KeyPart, OwnPartition, Salted
from kclient.producer.partitioner import (
    KeyedPartitioner,
    KeyHash,
    Partitioner,
    PartitionView,
    RoundRobin,
    StickyChoice,
    make_partitioner,
)

BATCH = 1000
KEYS = [b"customer-%d" % number for number in range(300)]


def view_of(
    count: int,
    available: Sequence[int] | None = None,
    queued: Mapping[int, int] | None = None,
    stalled: Collection[int] = (),
) -> PartitionView:
    waiting = queued or {}
    leaders = tuple(range(count) if available is None else available)
    return PartitionView(count, leaders, lambda partition: waiting.get(partition, 0), stalled)


def ask(
    partitioner: Partitioner, key: bytes | None, view: PartitionView, topic: str = "orders"
) -> int | None:
    return partitioner.partition(topic, key, b"value", view)


def drawn(view: PartitionView, *, adaptive: bool = True, draws: int = 4000) -> Counter[int]:
    """How often a sticky choice drew each partition, when every record fills a batch."""
    choice = StickyChoice(BATCH, Random(7), adaptive=adaptive)
    return Counter(choice.partition(BATCH, view) for _ in range(draws))


@pytest.mark.parametrize(
    ("spec", "hash_of"),
    [
        *(
            (spec, lambda key: murmur2(key) & 0x7FFFFFFF)
            for spec in (None, "default", "murmur2", "murmur2_random")
        ),
        *((spec, crc32) for spec in ("crc32", "consistent", "consistent_random")),
        *((spec, fnv1a) for spec in ("fnv1a", "fnv1a_random")),
        ("murmur3", murmur3().one),
    ],
)
def test_a_name_stands_for_a_hash_over_all_partitions(
    spec: str | None, hash_of: Callable[[bytes], int]
) -> None:
    partitioner = make_partitioner(spec)
    expected = [hash_of(key) % 7 for key in KEYS]
    assert [ask(partitioner, key, view_of(7, available=[2])) for key in KEYS] == expected
    if isinstance(partitioner, KeyedPartitioner):
        assert partitioner.partition_many(KEYS, 7) == expected


@pytest.mark.parametrize(
    ("spec", "no_key", "empty_key"),
    [
        ("murmur2", None, murmur2(b"") % 2**31 % 7),
        ("murmur2_random", None, murmur2(b"") % 2**31 % 7),
        ("consistent", 0, 0),
        ("consistent_random", None, None),
        ("fnv1a", None, fnv1a(b"") % 7),
        ("sticky", None, None),
    ],
)
def test_what_no_key_and_an_empty_key_mean(spec: str, no_key: int | None, empty_key: int | None) -> None:
    partitioner = make_partitioner(spec)
    assert ask(partitioner, None, view_of(7)) == no_key
    assert ask(partitioner, b"", view_of(7)) == empty_key


def test_sticky_has_no_opinion_on_keys() -> None:
    partitioner = make_partitioner("sticky")
    assert {ask(partitioner, key, view_of(7)) for key in KEYS} == {None}
    assert not isinstance(partitioner, KeyedPartitioner)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ConfigurationError, match="no partitioner 'roundrobin': did you mean 'round_robin'"):
        make_partitioner("roundrobin")
    with pytest.raises(ConfigurationError, match="no partitioner 'xyz': use one of default, murmur2"):
        make_partitioner("xyz")


def test_round_robin_deals_each_topic_out_over_partitions_with_a_leader() -> None:
    partitioner = make_partitioner("round_robin")
    view = view_of(4, available=[0, 1, 3])
    assert [ask(partitioner, b"same", view) for _ in range(5)] == [0, 1, 3, 0, 1]
    assert [ask(partitioner, None, view, "payments") for _ in range(4)] == [0, 1, 3, 0]


def test_round_robin_without_any_leader_uses_all_partitions() -> None:
    partitioner = RoundRobin()
    assert [ask(partitioner, None, view_of(3, available=[])) for _ in range(4)] == [0, 1, 2, 0]


def test_sticky_stays_until_the_partition_has_taken_a_batch() -> None:
    choice, view = StickyChoice(BATCH, Random(1)), view_of(100)
    first = [choice.partition(300, view) for _ in range(4)]
    assert len(set(first)) == 1, "1,200 bytes are the first 1,000 and what crosses them"
    second = [choice.partition(300, view) for _ in range(4)]
    assert len(set(second)) == 1
    assert first[0] != second[0]


@pytest.mark.parametrize("seed", range(20))
def test_many_records_are_spread_as_one_after_the_other(seed: int) -> None:
    rng, view = Random(seed), view_of(50, queued={3: 9000})
    together, single = (StickyChoice(BATCH, Random(seed)) for _ in range(2))
    for _ in range(5):
        sizes = [rng.choice([0, 1, 90, 400, 999, 1000, 5000]) for _ in range(rng.randrange(30))]
        assert together.partition_many(sizes, view) == [single.partition(size, view) for size in sizes]


def test_sticky_draws_uniformly_when_not_adaptive() -> None:
    found = drawn(view_of(4, queued={0: 50 * BATCH}), adaptive=False)
    assert all(900 < found[partition] < 1100 for partition in range(4))


def test_sticky_draws_uniformly_when_queues_are_equal() -> None:
    found = drawn(view_of(4, queued=dict.fromkeys(range(4), 3 * BATCH)))
    assert all(900 < found[partition] < 1100 for partition in range(4))


def test_sticky_draws_partitions_by_the_inverse_of_their_queues() -> None:
    # In batches 0, 3 and 1, a begun one being one: weights of 4, 1 and 3 out of 8.
    found = drawn(view_of(3, queued={1: 2 * BATCH + 1, 2: 10}), draws=8000)
    assert 3800 < found[0] < 4200
    assert 850 < found[1] < 1150
    assert 2800 < found[2] < 3200


def test_sticky_draws_only_partitions_with_a_leader_that_have_not_stalled() -> None:
    assert set(drawn(view_of(5, available=[1, 2, 4], stalled=[2]))) == {1, 4}
    assert set(drawn(view_of(5, available=[1, 2, 4], stalled=[2]), adaptive=False)) == {1, 4}


def test_sticky_prefers_a_stalled_leader_to_none_and_any_partition_to_nothing() -> None:
    assert set(drawn(view_of(5, available=[1, 2], stalled=[1, 2]))) == {1, 2}
    assert set(drawn(view_of(3, available=[]))) == {0, 1, 2}


@pytest.mark.parametrize("lost", ["leader", "pace", "existence"])
def test_sticky_leaves_a_partition_that_became_worse_than_others(lost: str) -> None:
    choice = StickyChoice(BATCH, Random(4))
    current = choice.partition(1, view_of(6))
    others = [partition for partition in range(6) if partition != current]
    worse = {
        "leader": view_of(6, available=others),
        "pace": view_of(6, stalled={current}),
        "existence": view_of(current),
    }[lost]
    assert current > 0
    assert choice.partition(1, worse) != current


def test_sticky_stays_through_a_change_that_does_not_concern_it() -> None:
    choice = StickyChoice(BATCH, Random(4))
    current = choice.partition(1, view_of(50))
    assert {choice.partition(1, view_of(count, queued={current: 10**6})) for count in range(51, 80)} == {
        current
    }


def test_a_function_gets_what_aiokafka_gives_it() -> None:
    seen: list[tuple[Any, ...]] = []

    def choose(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        seen.append((key, partitions, available))
        return partitions.pop()

    partitioner = make_partitioner(choose)
    assert [ask(partitioner, key, view_of(3, available=[0, 2])) for key in (b"k", None)] == [2, 2]
    assert seen == [(b"k", [0, 1], [0, 2]), (None, [0, 1], [0, 2])]


def test_aiokafkas_own_partitioner_can_be_handed_in() -> None:
    theirs, ours = make_partitioner(DefaultPartitioner()), make_partitioner(None)
    view = view_of(9, available=[3])
    assert [ask(theirs, key, view) for key in KEYS] == [ask(ours, key, view) for key in KEYS]
    assert ask(theirs, None, view) == 3


class Answers:
    """A partitioner that always says the same."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __repr__(self) -> str:
        return "Answers"

    def partition(self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView) -> Any:
        assert (topic, key, value, view.count) == ("orders", b"key", b"value", 3)
        return self.answer


@pytest.mark.parametrize("answer", [0, 2, np.int64(1), None])
def test_an_object_decides_or_has_no_opinion(answer: Any) -> None:
    assert ask(make_partitioner(Answers(answer)), b"key", view_of(3)) == answer


@pytest.mark.parametrize("answer", [3, -1, "1", 1.0, True, b"\0", 10**30])
def test_an_answer_that_is_no_partition_is_an_error_with_topic_and_value(answer: Any) -> None:
    custom: list[Any] = [Answers(answer), lambda *_: answer]
    for spec in custom:
        with pytest.raises(
            ConfigurationError, match="of topic 'orders', which has the partitions 0 to 2"
        ) as caught:
            ask(make_partitioner(spec), b"key", view_of(3))
        assert f"answered {answer!r} for" in str(caught.value)


def test_a_function_that_returns_nothing_is_an_error() -> None:
    forgetful: Any = lambda *_: None  # noqa: E731
    with pytest.raises(ConfigurationError, match="answered None for a record of topic 'orders'"):
        ask(make_partitioner(forgetful), b"key", view_of(3))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Answers, "Answers is a class: make an object"),
        (7, "7 is neither a name nor a function nor an object"),
    ],
)
def test_what_cannot_partition_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_partitioner(spec)


class Many(KeyHash):
    """Says for many keys what the test wants."""

    def __init__(self, answers: Any) -> None:
        super().__init__()
        self.answers = answers

    def partition_many(self, keys: Sequence[bytes], count: int) -> Sequence[int]:
        assert (keys, count) == ([b"a", b"b"], 3)
        answers: Sequence[int] = self.answers
        return answers


@pytest.mark.parametrize("answers", [[0, 2], (0, 2), np.array([0, 2], np.uint8)])
def test_an_object_may_decide_for_many_keys_at_once(answers: Any) -> None:
    partitioner = make_partitioner(Many(answers))
    assert isinstance(partitioner, KeyedPartitioner)
    assert partitioner.partition_many([b"a", b"b"], 3) == [0, 2]
    assert partitioner.partition_many([], 3) == []


@pytest.mark.parametrize(
    "answers", [[0, 3], [-1, 0], [0], [0, 1, 2], [0, None], [0.0, 1.0], [True, False], None]
)
def test_answers_for_many_keys_that_are_no_partitions_are_an_error(answers: Any) -> None:
    partitioner = make_partitioner(Many(answers))
    assert isinstance(partitioner, KeyedPartitioner)
    with pytest.raises(ConfigurationError, match="for 2 records of a topic which has the partitions 0 to 2"):
        partitioner.partition_many([b"a", b"b"], 3)


def test_a_subclass_that_redefines_only_partition_is_asked_one_by_one() -> None:
    class Mine(KeyHash):
        def partition(
            self, topic: str, key: bytes | None, value: bytes | None, view: PartitionView
        ) -> int | None:
            return 0 if key == b"mine" else super().partition(topic, key, value, view)

    partitioner = make_partitioner(Mine())
    assert not isinstance(partitioner, KeyedPartitioner)
    assert ask(partitioner, b"mine", view_of(3)) == 0


def both_ways(make: Callable[[], KeyedPartitioner], keys: Sequence[bytes], count: int) -> Sequence[int]:
    """The partitions of keys, asked for at once; one by one and through the option they are the same."""
    together = make().partition_many(keys, count)
    single, view = make(), view_of(count)
    assert together == [ask(single, key, view) for key in keys]
    option = make_partitioner(make())
    assert isinstance(option, KeyedPartitioner)
    assert option.partition_many(keys, count) == together
    return together


def test_a_key_with_a_partition_of_its_own_is_alone_there() -> None:
    partitions = both_ways(lambda: OwnPartition({b"big": 0, b"huge": 3}), [b"big", *KEYS, b"huge"], 6)
    assert (partitions[0], partitions[-1]) == (0, 3)
    assert set(partitions[1:-1]) == {1, 2, 4, 5}
    assert partitions[1:-1] == [[1, 2, 4, 5][place] for place in KeyHash().partition_many(KEYS, 4)]


def test_records_without_a_key_stay_out_of_a_keys_own_partition() -> None:
    partitioner = OwnPartition({b"big": 1}, batch_size=10, random=Random(2))
    view = view_of(5, available=[0, 1, 2, 3], stalled=[2])
    assert {ask(partitioner, None, view) for _ in range(200)} == {0, 3}
    assert {ask(partitioner, None, view_of(5)) for _ in range(200)} == {0, 2, 3, 4}


def test_records_without_a_key_beside_an_own_partition_fill_batches() -> None:
    partitioner = OwnPartition({b"big": 0}, batch_size=50, random=Random(2))
    runs = [[ask(partitioner, None, view_of(100)) for _ in range(10)] for _ in range(20)]
    assert all(len(set(run)) == 1 for run in runs), "ten values of five bytes are a batch"
    assert len({run[0] for run in runs}) > 10


def test_records_without_a_key_beside_an_own_partition_heed_queues() -> None:
    partitioner = OwnPartition({b"big": 0}, batch_size=5, random=Random(2))
    view = view_of(3, queued={2: 5 * 99})
    found = Counter(ask(partitioner, None, view) for _ in range(1000))
    assert found[1] > 950


def test_an_own_partition_that_leaves_none_to_others_or_is_missing_is_an_error() -> None:
    partitioner = make_partitioner(OwnPartition({b"big": 0}))
    with pytest.raises(ConfigurationError, match="leaves no partition to other records in a topic of 1"):
        ask(partitioner, b"small", view_of(1))
    missing = make_partitioner(OwnPartition({b"big": 5}))
    with pytest.raises(ConfigurationError, match="answered 5 for a record of topic 'orders'"):
        ask(missing, b"big", view_of(3))


@pytest.mark.parametrize(("count", "ways"), [(6, 4), (4, 4), (3, 4), (10, 2)])
def test_a_salted_key_is_dealt_out_over_that_many_partitions(count: int, ways: int) -> None:
    keys = [b"hot", b"cold"] * 24
    partitions = both_ways(lambda: Salted([b"hot"], ways=ways), keys, count)
    hot, cold = Counter(partitions[::2]), Counter(partitions[1::2])
    assert len(hot) == min(ways, count)
    assert set(hot.values()) == {24 // min(ways, count)}
    assert cold == {KeyHash().partition_many([b"cold"], count)[0]: 24}
    assert ask(Salted([b"hot"]), None, view_of(3)) is None


def test_salt_that_spreads_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Salted\(ways=1\)"):
        Salted([b"hot"], ways=1)


def test_a_part_of_a_key_decides() -> None:
    keys = [b"tenant-%d/order-%d" % (number % 5, number) for number in range(100)]
    partitions = both_ways(lambda: KeyPart(lambda key: key.partition(b"/")[0]), keys, 8)
    assert partitions == KeyHash().partition_many([b"tenant-%d" % (number % 5) for number in range(100)], 8)
    assert ask(KeyPart(lambda key: key[:1]), None, view_of(3)) is None


def test_partitioners_for_hot_keys_can_be_nested() -> None:
    partitions = both_ways(
        lambda: OwnPartition({b"big": 0}, rest=Salted([b"hot"], ways=3)), [b"big", b"hot"] * 30 + KEYS, 4
    )
    assert set(partitions[:60:2]) == {0}
    assert set(partitions[1:60:2]) == {1, 2, 3}
    assert 0 not in partitions[60:]
