"""Slow members that come and leave in order, over many seeds: see `shifts`."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.unit.consumer.shifts import in_shifts

EAGER: dict[str, Any] = {"partition_assignment_strategy": "range"}
KINDS: list[dict[str, Any]] = [
    EAGER,
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"group_protocol": "consumer"},
]
MIXES = [kind | {"enable_auto_commit": auto} for kind, auto in product(KINDS, (True, False))]
SEEDS = 500
AT_ONCE = 25


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_record_is_in_two_hands_or_done_twice(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        in_shifts(MIXES[seed % len(MIXES)], seed)


def test_a_group_that_gives_up_partitions_at_once_is_found_out() -> None:
    """The control: this is what the check is for."""
    found = 0
    for seed in range(6):
        try:
            in_shifts(EAGER | {"enable_auto_commit": True, "revoke_at_once": True}, seed)
        except AssertionError:
            found += 1
    assert found
