"""The same query through `format("kafka")` and `format("kclient")`: what both find, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.spark.parity.topics import Topics

THEIRS = "kafka"
OURS = "kclient"
BOTH = (THEIRS, OURS)
# Spark's own source waits half a second for records behind the last one; the answer is the same.
_QUICK = {"kafka.fetch.max.wait.ms": "20"}
_SECONDS = 120

Row = tuple[Any, ...]


class Streamed(NamedTuple):
    """The rows of a stream, and how many of them each micro-batch had."""

    rows: list[Row]
    batches: list[int]


class Sides:
    """Runs queries on either side."""

    def __init__(self, spark: Any, topics: Topics) -> None:
        self.spark = spark
        self.topics = topics
        self._found: dict[str, list[Any]] = {}

    def load(self, side: str, options: Mapping[str, str], *, streaming: bool = False) -> Any:
        reader = self.spark.readStream if streaming else self.spark.read
        return reader.format(side).options(**_QUICK, **self.topics.options(options)).load()

    def rows(self, side: str, options: Mapping[str, str]) -> list[Row]:
        return plain(self.load(side, options).collect())

    def tasks(self, side: str, options: Mapping[str, str]) -> int:
        found: int = self.load(side, options).rdd.getNumPartitions()
        return found

    def start(self, side: str, options: Mapping[str, str], checkpoint: Path, **trigger: Any) -> Any:
        """A query, whose rows `seen` gives."""
        found: list[Any] = []
        stream = self.load(side, options, streaming=True)
        writer = stream.writeStream.foreachBatch(lambda rows, _: found.extend(rows.collect()))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()
        self._found[query.runId] = found
        return query

    def streamed(self, side: str, options: Mapping[str, str], checkpoint: Path) -> Streamed:
        """Everything that is there now."""
        query = self.start(side, options, checkpoint, availableNow=True)
        assert query.awaitTermination(_SECONDS), "the query did not end"
        sizes = [progress["numInputRows"] for progress in query.recentProgress]
        return Streamed(self.seen(query), [size for size in sizes if size])

    def seen(self, query: Any) -> list[Row]:
        return plain(self._found[query.runId])


def plain(rows: list[Any]) -> list[Row]:
    """Rows as tuples that can be compared, in the order of topics, partitions and offsets."""
    ordered = sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return [tuple(_value(field) for field in row) for row in ordered]


def _value(field: Any) -> Any:
    if isinstance(field, bytearray):
        return bytes(field)
    return [tuple(map(_value, each)) for each in field] if isinstance(field, list) else field
