"""Ranges to tasks, limits per trigger, and what a stream notices of a changed topic."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise

import pytest

from kclient.spark.admission import Admission, proportional
from kclient.spark.changes import begins, report_losses
from kclient.spark.loss import DataLossError, Facts, Policy, explain
from kclient.spark.offsets import Mark, Offsets
from kclient.spark.planning import Range, Share, Task, pack, plan, ranges_between, split
from kclient.types import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


def of(*sizes: int) -> list[Range]:
    return [Range("orders", number, 100, 100 + size) for number, size in enumerate(sizes)]


def sizes(ranges: list[Range]) -> list[tuple[int, int]]:
    return [(each.partition, each.size) for each in ranges]


def test_only_what_is_not_empty_is_read() -> None:
    found = ranges_between({A: 1, B: 5, C: 9}, {A: 4, B: 5, C: 7}, {"orders": "id"})

    assert found == [Range("orders", 0, 1, 4, "id")]


def test_ranges_are_split_by_size_and_large_ones_for_more_tasks() -> None:
    assert sizes(split(of(10, 3), None, 4)) == [(0, 3), (0, 3), (0, 4), (1, 3)]
    assert sizes(split(of(100, 100), 4, None)) == [(0, 50), (0, 50), (1, 50), (1, 50)]
    # What is small stays whole, and the rest of the tasks goes to the skewed partition.
    assert sizes(split(of(1000, 10, 10), 6, None)) == [*[(0, 250)] * 4, (1, 10), (2, 10)]
    assert sizes(split(of(5, 5, 5), 2, None)) == [(0, 5), (1, 5), (2, 5)]


def test_pieces_of_a_split_range_meet() -> None:
    pieces = split([Range("orders", 0, 7, 7 + 1001)], 7, None)

    assert pieces[0].start == 7
    assert pieces[-1].end == 1008
    assert all(one.end == other.start for one, other in pairwise(pieces))


def test_small_ranges_share_a_task_and_large_ones_do_not() -> None:
    assert [sizes(group) for group in pack(of(10, 20, 30), Share(65_536, 0), {})] == [
        [(0, 10), (1, 20), (2, 30)]
    ]
    assert [sizes(group) for group in pack(of(60, 20, 30), Share(55, 0), {})] == [
        [(0, 60)],
        [(1, 20), (2, 30)],
    ]
    assert len(pack(of(10, 20, 30), Share(0, 0), {})) == 3
    assert len(pack(of(*[1000] * 9), Share(1, 0, 4), {})) == 4


def test_large_records_share_no_task_and_small_ones_do_as_by_number() -> None:
    share = Share(65_536, 32 << 20)
    large, huge, small = ({"orders": size} for size in (500_000.0, 1_000_000.0, 500.0))

    assert len(pack(of(*[40] * 6), share, large)) == 4  # 120 MB
    assert len(pack(of(*[5_000] * 12), share, huge)) == 12  # 60 GB
    assert pack(of(*[40] * 6), share, small) == pack(of(*[40] * 6), share, {})
    assert len(pack(of(*[5_000] * 12), share, {"others": 1e6})) == 1
    mixed = [Range("orders", 0, 0, 10), Range("others", 0, 0, 60), Range("others", 1, 0, 60)]
    assert pack(mixed, share, {"orders": 2.0, "others": 500_000.0}) == [mixed[:2], mixed[2:]]


def test_sizes_are_asked_for_only_where_they_decide_something() -> None:
    asked: list[int] = []

    def ask(ranges: Sequence[Range]) -> dict[str, float]:
        asked.append(len(ranges))
        return {}

    def tasks(*counts: int, share: Share, least: int | None = None) -> int:
        return len(plan(of(*counts), min_partitions=least, max_records=None, share=share, sizes=ask))

    share = Share(1000, 32 << 20)
    assert tasks(5000, share=share) == 1  # alone
    assert tasks(5000, 3000, share=share) == 2  # by their number already
    assert tasks(10, 20, share=share) == 1  # too few to be much, however large
    assert tasks(400, 300, share=Share(1000, 0)) == 1  # not wanted
    assert tasks(400, 300, share=share, least=2) == 2  # said otherwise
    assert asked == []
    assert tasks(400, 300, 200, share=share) == 1
    assert asked == [3]


def test_who_says_how_many_tasks_there_should_be_gets_them() -> None:
    def tasks(least: int | None, most: int | None) -> list[Task]:
        share = Share(1000, 0)
        return plan(of(10, 10, 10), min_partitions=least, max_records=most, share=share, sizes=lambda _: {})

    assert [len(tasks(None, None)), len(tasks(2, None)), len(tasks(None, 5))] == [1, 3, 6]


def test_limits_are_shared_in_proportion_and_nobody_is_starved() -> None:
    assert proportional({A: 0, B: 0, C: 5}, {A: 1000, B: 1, C: 5}, 100) == {A: 99, B: 1, C: 5}
    assert proportional({A: 0}, {A: 10}, 100) == {A: 10}


def test_too_few_records_wait_but_not_for_ever() -> None:
    admission = Admission(10, None, 1000)

    def ends(latest: int, now: float) -> int:
        return admission.next_end({A: 0}, {A: latest}, now)[A]

    assert ends(1, 0) == 1  # the first is let through, as in Spark's own source
    assert ends(9, 500) == 0
    assert ends(10, 600) == 10
    assert ends(3, 1500) == 0
    assert ends(3, 1600) == 3


def test_enough_records_are_limited_too() -> None:
    admission = Admission(10, 4, 1000)

    assert admission.next_end({A: 0}, {A: 50}, 0) == {A: 4}


@pytest.mark.parametrize(
    ("facts", "cause", "goes_on_at"),
    [
        (Facts(False), "deleted", None),
        (Facts(True, "other", 0, 100), "made again", None),
        (Facts(True, "id", 15, 100), "records before offset 15 were deleted", 15),
        (Facts(True, "id", 50, 100), "records before offset 50 were deleted", None),
        (Facts(True, "id", 0, 17), "the log ends at offset 17, where it had reached 20", 10),
        (Facts(True, "id", 0, 5), "the log ends at offset 5", None),
    ],
)
def test_the_cause_of_a_loss_is_found(facts: Facts, cause: str, goes_on_at: int | None) -> None:
    loss = explain("id", 10, 20, facts)

    assert loss is not None
    assert cause in loss.cause
    assert loss.goes_on_at == goes_on_at


def test_nothing_is_lost_where_all_is_there() -> None:
    assert explain("id", 10, 20, Facts(True, "id", 0, 20)) is None
    assert explain("", 10, 20, Facts(True, "id", 0, 20)) is None


def losses(before: Mark, after: Mark, earliest: Offsets, caplog: pytest.LogCaptureFixture) -> list[str]:
    first = begins(before, after, lambda keys: {key: earliest[key] for key in keys})
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        report_losses(before, after, first, Policy(fail=False))
    found = [record.getMessage() for record in caplog.records]
    if found:
        with pytest.raises(DataLossError, match="failOnDataLoss=false"):
            report_losses(before, after, first, Policy(fail=True))
    return found


def test_a_stream_notices_what_became_of_its_topic(caplog: pytest.LogCaptureFixture) -> None:
    before = Mark({A: 5}, {"orders": "one"})

    assert losses(before, Mark({A: 9}, {"orders": "one"}), {}, caplog) == []
    assert losses(before, Mark({A: 9, B: 3}, {"orders": "one"}), {B: 0}, caplog) == []
    (late,) = losses(before, Mark({A: 9, B: 3}, {"orders": "one"}), {B: 2}, caplog)
    (gone,) = losses(before, Mark({}, {}), {}, caplog)
    (cut,) = losses(before, Mark({A: 2}, {"orders": "one"}), {}, caplog)
    (again,) = losses(before, Mark({A: 2}, {"orders": "two"}), {A: 0}, caplog)

    assert "partition 1, offset 0" in late
    assert "deleted (topic orders, partition 0, offset 5)" in gone
    assert "the log ends at offset 2 now" in cut
    assert "made again" in again


def test_a_topic_that_was_made_again_is_read_from_its_start() -> None:
    before, after = Mark({A: 5}, {"orders": "one"}), Mark({A: 2}, {"orders": "two"})

    assert begins(before, after, lambda keys: dict.fromkeys(keys, 0)) == {A: 0}
    assert begins(before, Mark({A: 7, B: 4}, {}), lambda keys: dict.fromkeys(keys, 1)) == {A: 5, B: 1}
