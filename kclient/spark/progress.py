"""How far a streaming query is behind, from its progress: what Spark's own source shows as metrics.

Spark's Python API has no place for such metrics, but both offsets are in every progress.
"""

from __future__ import annotations

import json
from typing import Any

from kclient.spark.offsets import from_json


def offsets_behind_latest(progress: Any) -> list[dict[str, float]]:
    """For every kclient source of a query: min, max and avg of how many offsets its partitions are behind.

    Takes what `query.lastProgress` or a listener's `event.progress` gives. Other sources are left out.

    >>> source = {"endOffset": {"orders": {"0": 5}}, "latestOffset": {"orders": {"0": 9}}}
    >>> offsets_behind_latest({"sources": [source]})
    [{'minOffsetsBehindLatest': 4, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 4.0}]
    """
    if progress is None:  # nothing has run yet
        return []
    read = progress if isinstance(progress, dict) else json.loads(progress.json)
    found: list[dict[str, float]] = []
    for source in read["sources"]:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if not end or not latest:
            continue
        behind = [max(0, offset - end.get(key, 0)) for key, offset in latest.items()]
        found.append(
            {
                "minOffsetsBehindLatest": min(behind),
                "maxOffsetsBehindLatest": max(behind),
                "avgOffsetsBehindLatest": sum(behind) / len(behind),
            }
        )
    return found


def _offsets(given: Any) -> dict[Any, int]:
    read = json.loads(given) if isinstance(given, str) else given
    if not isinstance(read, dict) or not all(isinstance(each, dict) for each in read.values()):
        return {}  # files, tables and rates count otherwise
    return from_json(read).offsets
