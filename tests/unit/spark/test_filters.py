"""Filters that Spark hands down bound what is read, and are given back where they are not exact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kclient.spark.filters import Bounds
from kclient.spark.planning import Range

WHOLE = Range("orders", 1, 10, 20)


def after(*filters: Any) -> tuple[Bounds, list[Any]]:
    bounds = Bounds()
    return bounds, bounds.take(filters)


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        (EqualTo(("offset",), 15), 15, 16),
        (GreaterThan(("offset",), 15), 16, 20),
        (GreaterThanOrEqual(("offset",), 15), 15, 20),
        (LessThan(("offset",), 15), 10, 15),
        (LessThanOrEqual(("offset",), 15), 10, 16),
    ],
)
def test_filters_on_offsets_are_exact(given: Any, start: int, end: int) -> None:
    bounds, rest = after(given)

    assert not rest
    assert bounds.within(WHOLE)[2:4] == (start, end)


def test_partitions_and_topics_are_left_out() -> None:
    bounds, rest = after(
        In(("partition",), (1, 2)), EqualTo(("topic",), "orders"), EqualTo(("partition",), 2)
    )

    assert not rest
    assert [bounds.covers("orders", number) for number in range(4)] == [False, False, True, False]
    assert not bounds.covers("users", 2)


def test_filters_on_times_move_the_start_and_are_given_back() -> None:
    noon = datetime(2026, 1, 1, 12, 0, 0, 1500, tzinfo=UTC)
    given = [GreaterThanOrEqual(("timestamp",), noon), LessThan(("timestamp",), noon)]

    bounds, rest = after(*given)

    assert rest == given
    assert bounds.since == 1_767_268_800_002


@pytest.mark.parametrize("year", [1960, 1970])
def test_times_that_brokers_take_for_other_questions_are_left_to_spark(year: int) -> None:
    """-1 is the end of a log to a broker, and would leave out all of it."""
    given = [GreaterThan(("timestamp",), datetime(year, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1))]
    bounds, rest = after(*given)
    assert bounds.since is None
    assert rest == given


def test_what_is_not_understood_is_given_back() -> None:
    given = [Not(EqualTo(("offset",), 3)), IsNotNull(("key",)), EqualTo(("value",), b"x")]

    bounds, rest = after(*given)

    assert rest == given
    assert bounds == Bounds()
