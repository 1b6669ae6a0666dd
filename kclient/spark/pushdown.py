"""Batch reads to which Spark hands filters, as it can since 4.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kclient.spark.batch import BatchReader
from kclient.spark.directory import Directory
from kclient.spark.filters import Bounds
from kclient.spark.planning import Range

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


class FilteringReader(BatchReader):
    """Reads only what filters on topic, partition, offset and timestamp leave over."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return self._bounds.take(filters)

    def _ranges(self, directory: Directory) -> list[Range]:
        bounds = self._bounds
        ranges = [
            bounds.within(each)
            for each in super()._ranges(directory)
            if bounds.covers(each.topic, each.partition)
        ]
        if bounds.since is not None:
            found = directory.offsets({each.topic_partition: bounds.since for each in ranges if each.size})
            ranges = [_from(each, found.get(each.topic_partition, each.start)) for each in ranges]
        return [each for each in ranges if each.size]


def _from(whole: Range, first: int) -> Range:
    """The range from an offset on; nothing of it where no record is late enough (-1)."""
    return whole._replace(start=whole.end if first < 0 else max(whole.start, first))
