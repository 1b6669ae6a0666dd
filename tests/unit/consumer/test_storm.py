"""Rebalance storms over many seeds: see `storm`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.consumer.members import in_a_crowd
from tests.unit.consumer.storm import PARTITIONS, storm

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"]},
    "sticky": {"partition_assignment_strategy": ["sticky"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "modern": {"group_protocol": "consumer"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", range(5))
def test_a_group_survives_a_storm(kind: str, seeds: int) -> None:
    for seed in range(seeds * 10, seeds * 10 + 10):
        in_a_crowd(lambda crowd: storm(crowd, KINDS[kind]), seed=seed, nodes=3, orders=PARTITIONS)
