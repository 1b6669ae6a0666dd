"""Rebalance storms over many seeds: see `storm`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.consumer.storm import in_a_storm

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"]},
    "sticky": {"partition_assignment_strategy": ["sticky"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "modern": {"group_protocol": "consumer"},
}


SEEDS = 500
AT_ONCE = 25


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_a_group_survives_storms(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        kind = list(KINDS.values())[seed % len(KINDS)]
        in_a_storm(kind, seed)
