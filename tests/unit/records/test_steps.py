"""Columns of numbers that seldom change, against lists, and batches whose timestamps come as such."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.records import Fields, encode_fields
from kclient.records.pieces import by_columns, by_record, consecutive
from kclient.records.steps import Steps, joined_steps

NOW = 1_700_000_000_000
runs = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), min_size=1, max_size=12)


def column(given_runs: list[tuple[int, int]]) -> tuple[Steps, list[int]]:
    plain: list[int] = []
    starts, numbers = [], []
    for length, number in given_runs:
        starts.append(len(plain))
        numbers.append(number)
        plain += [number] * length
    return Steps(starts, numbers, len(plain)), plain


def as_list(steps: int | Steps, total: int) -> list[int]:
    return [steps] * total if isinstance(steps, int) else list(steps)


@given(runs, st.data())
def test_it_reads_as_the_list_it_stands_for(given_runs: list[tuple[int, int]], data: st.DataObject) -> None:
    steps, plain = column(given_runs)
    total = len(plain)
    assert list(steps) == plain
    assert (len(steps), steps[0], steps[-1]) == (total, plain[0], plain[-1])
    assert [steps[at] for at in range(total)] == plain
    assert steps.rising == (plain == sorted(plain))
    ends = st.none() | st.integers(-total - 1, total + 1)
    cut = slice(data.draw(ends), data.draw(ends), data.draw(st.sampled_from([None, 1, 3])))
    assert list(steps[cut]) == plain[cut]
    with pytest.raises(IndexError):
        steps[total]


@given(runs, st.data())
def test_the_numbers_at_some_places_are_found(given_runs: list[tuple[int, int]], data: st.DataObject) -> None:
    steps, plain = column(given_runs)
    places = sorted(data.draw(st.sets(st.integers(0, len(plain) - 1), min_size=1)))
    found = steps.at(np.array(places, np.intp))
    assert as_list(found, len(places)) == [plain[at] for at in places]
    assert isinstance(found, int) == (len({plain[at] for at in places}) == 1)


def test_of_equal_starts_the_last_one_counts() -> None:
    assert joined_steps([0, 0, 3, 5, 5], [1, 2, 2, 3, 2], 9) == 2
    assert as_list(joined_steps([0, 2, 2, 9], [1, 2, 3, 4], 4), 4) == [1, 1, 3, 3]


@pytest.mark.parametrize("elapsed", [0, 1, 63, 200, 20_000])
@pytest.mark.parametrize("each", [1, 3, 40, 500])
@pytest.mark.parametrize("keys", ["none", "alike", "different"])
@pytest.mark.parametrize("values", ["alike", "different"])
def test_a_batch_is_the_same_as_one_made_record_by_record(
    elapsed: int, each: int, keys: str, values: str
) -> None:
    total = 1_500
    steps, times = column([(each, NOW + number * elapsed) for number in range(total // each)])
    total = len(times)
    fields = Fields(
        [None if keys == "none" else b"k" * (1 + at % 70 * (keys == "different")) for at in range(total)],
        [b"v" * (1 + at % 300 * (values == "different")) for at in range(total)],
        steps,
    )
    rows = [
        (key, value, time, ()) for key, value, time in zip(fields.keys, fields.values, times, strict=True)
    ]
    pieces = by_columns(fields, NOW)
    assert pieces is not None
    assert b"".join(pieces) == b"".join(by_record(rows, NOW, consecutive(total)))
    assert encode_fields(fields) == encode_fields(fields._replace(timestamps=times))


def test_timestamps_that_fall_go_record_by_record() -> None:
    steps, times = column([(30, NOW), (30, NOW - 5)])
    fields = Fields([b"k"] * 60, [b"v"] * 60, steps)
    assert by_columns(fields, NOW) is None
    assert encode_fields(fields) == encode_fields(fields._replace(timestamps=times))
