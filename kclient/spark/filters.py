"""Filters that Spark hands down, as bounds on what is read at all: topics, partitions, offsets, times.

Pure. A bound may let more through than its filter does, never less; whoever uses one gives it back to Spark
unless it is exact. Times are never exact: records may lie in any order, so only the start of a range moves,
to the first record that is late enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kclient.spark.planning import Range

_KNOWN = (EqualTo, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


@dataclass
class Bounds:
    """What is left to read after filters. `since` is in milliseconds."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int | None = None
    since: int | None = None

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Use what can be used; returns what Spark still has to look at."""
        return [each for each in filters if not self._take(each)]

    def _take(self, given: Any) -> bool:
        if not isinstance(given, _KNOWN) or len(given.attribute) != 1:
            return False
        (name,), value = given.attribute, given.value
        match given:
            case EqualTo():
                return self._equal(name, value)
            case In():
                return self._among(name, value)
            case GreaterThan() | GreaterThanOrEqual():
                return self._from(name, value, int(isinstance(given, GreaterThan)))
            case _:
                return self._before(name, value, int(isinstance(given, LessThanOrEqual)))

    def _equal(self, name: str, value: Any) -> bool:
        if name == "offset" and isinstance(value, int):
            return self._from(name, value, 0) and self._before(name, value, 1)
        if name == "timestamp":
            self._from(name, value, 0)
            return False
        return self._among(name, (value,))

    def _among(self, name: str, values: Iterable[Any]) -> bool:
        wanted = frozenset(value for value in values if value is not None)
        if name == "topic":
            self.topics = wanted if self.topics is None else self.topics & wanted
        elif name == "partition":
            self.partitions = wanted if self.partitions is None else self.partitions & wanted
        else:
            return False
        return True

    def _from(self, name: str, value: Any, step: int) -> bool:
        if name == "offset" and isinstance(value, int):
            self.first = max(self.first, value + step)
            return True
        if name == "timestamp" and isinstance(value, datetime):
            # Kafka counts in milliseconds: nothing between two of them is there to be found.
            since = ceil(_utc(value).timestamp() * 1000 - 0.001)
            # Brokers are asked for the first record of a time, and take times below zero for other questions.
            if since > 0:
                self.since = since if self.since is None else max(self.since, since)
        return False

    def _before(self, name: str, value: Any, step: int) -> bool:
        if name != "offset" or not isinstance(value, int):
            return False
        end = value + step
        self.end = end if self.end is None else min(self.end, end)
        return True

    def covers(self, topic: str, partition: int) -> bool:
        """Whether anything of a partition may be wanted."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def within(self, whole: Range) -> Range:
        """What is wanted of a range, by offset; it may be empty."""
        end = whole.end if self.end is None else min(whole.end, self.end)
        return whole._replace(start=max(whole.start, self.first), end=end)


def _utc(value: datetime) -> datetime:
    """A literal of a filter; without a zone it is UTC, as Spark sends it."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value
