"""Batch reads: `spark.read.format("kclient")`. Planned on the driver, read in tasks.

Takes no filters (`pushFilters`): Spark keeps one plan for each `load()` and reads every query by the one that
was made last, so what a filter of one query left out would be missing in the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kclient.errors import ConfigurationError, KafkaError
from kclient.spark import options as options_
from kclient.spark.loss import Policy
from kclient.spark.offsets import LATEST, Offsets, ending, starting
from kclient.spark.planning import Range, Task, plan, ranges_between, share_of
from kclient.spark.reading import plainly, read_task
from kclient.spark.schema import wanted
from kclient.spark.subscription import subscription

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kclient.spark.directory import Directory


class BatchReader(DataSourceReader):
    """One read of a range of every partition. `schema` may name only some of the columns."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options_.parse(options, options_.Use.BATCH_READ)
        self._columns = wanted(schema, self._options)
        self._starting = starting(self._options, streaming=False)
        self._ending = ending(self._options)
        subscription(self._options)

    def partitions(self) -> list[InputPartition]:
        from kclient.spark.directory import Directory  # noqa: PLC0415 - the client, for the first question

        options = self._options
        directory = Directory(options)
        try:
            ranges = self._ranges(directory)
        except KafkaError as error:
            raise plainly(error) from None
        tasks = plan(
            ranges,
            min_partitions=options["minPartitions"],
            max_records=options["maxRecordsPerPartition"],
            share=share_of(options),
            sizes=directory.record_sizes,
        )
        return [*tasks] or [Task([])]

    def _ranges(self, directory: Directory) -> list[Range]:
        """What there is to read."""
        ids = directory.partitions()
        start = directory.resolve(self._starting, ids)
        end = self._within(directory.resolve(self._ending, ids), directory)
        for key, first in start.items():
            if first > end[key]:
                raise ConfigurationError(
                    f"topic {key.topic}, partition {key.partition}: {self._starting.option} comes to offset "
                    f"{first}, which lies behind {end[key]}, to which {self._ending.option} comes"
                )
        return ranges_between(start, end, {key.topic: topic_id for key, topic_id in ids.items()})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._columns, self._options)

    def _within(self, end: Offsets, directory: Directory) -> Offsets:
        """Ends that a user named, which may lie behind the end of the log."""
        named = [key for key in end if self._ending.place(key) != (LATEST, False)]
        policy = Policy(self._options["failOnDataLoss"])
        for key, latest in directory.latest(named).items():
            if end[key] > latest:
                policy.meet(
                    key, latest, f"the log ends at offset {latest}, {self._ending.option} says {end[key]}"
                )
                end[key] = latest
        return end
