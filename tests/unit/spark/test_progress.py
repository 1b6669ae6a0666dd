"""How far behind a query is, from progress as Spark writes it."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.spark.progress import offsets_behind_latest

OURS = {"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}, "@ids": {"t": "x"}}}


@pytest.mark.parametrize(
    "other",
    [
        {"endOffset": {"logOffset": 3}, "latestOffset": None},
        {"endOffset": 5, "latestOffset": 9},
        {"endOffset": {"sourceVersion": 1, "reservoirId": "r", "isStartingVersion": True}, "latestOffset": 1},
    ],
    ids=["files", "rate", "delta"],
)
def test_sources_that_are_not_kafka_are_left_out(other: dict[str, Any]) -> None:
    assert offsets_behind_latest({"sources": [other, OURS]}) == [
        {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 4, "avgOffsetsBehindLatest": 2.0}
    ]


def test_a_query_that_has_not_run_yet_has_nothing_to_tell() -> None:
    assert offsets_behind_latest(None) == []
