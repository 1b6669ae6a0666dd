"""Streaming reads, on every PySpark from 4.0 on: what all of them call. `admitted` has what 4.2 added.

On the driver one object lives as long as the query, in a process of its own; `initialOffset`, `latestOffset`,
`partitions` and `commit` come one after the other. Another one is made only to be pickled for the tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kclient.errors import ConfigurationError, KafkaError
from kclient.spark import options as options_
from kclient.spark.changes import begins, report_losses
from kclient.spark.loss import Policy
from kclient.spark.offsets import Mark, Offsets, from_json, starting
from kclient.spark.planning import plan, ranges_between, share_of
from kclient.spark.reading import plainly, read_task
from kclient.spark.schema import wanted
from kclient.spark.subscription import subscription
from kclient.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kclient.spark.directory import Directory

log: logging.Logger = logging.getLogger(__name__)

Json = dict[str, Any]

_INITIAL = "initial offsets of a Spark query"
_NEEDS_GROUP = ("kclient.commitOffsets", "kclient.durableInitialOffsets")


class StreamReader(DataSourceStreamReader):
    """Offsets for micro-batches, and their records."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options_.parse(options, options_.Use.STREAM_READ)
        self._columns = wanted(schema, self._options)
        self._starting = starting(self._options, streaming=True)
        self._initial: Json | None = None
        self._committed: Json | None = None
        subscription(self._options)
        for name in _NEEDS_GROUP:
            if self._options[name] and not self._options.kafka.get("group.id"):
                raise ConfigurationError(f"{name} needs kafka.group.id: the group whose offsets it commits")

    @cached_property
    def _directory(self) -> Directory:
        from kclient.spark.directory import Directory  # noqa: PLC0415 - the client, for the first question

        return Directory(self._options)

    def __getstate__(self) -> dict[str, Any]:
        """For the tasks, which need nothing of what was learnt on the driver."""
        return {name: value for name, value in self.__dict__.items() if name != "_directory"}

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. Spark asks twice, and must get the same twice."""
        if self._initial is None:
            try:
                self._initial = self._find_initial()
            except KafkaError as error:
                raise plainly(error) from None
        return self._initial

    def _find_initial(self) -> Json:
        directory, options = self._directory, self._options
        ids = directory.partitions()
        offsets = self._begin(ids)
        if options["kclient.durableInitialOffsets"]:
            group = options.kafka["group.id"]
            # A query that died before its first checkpoint begins where it would have.
            before = directory.committed(group, offsets)
            directory.commit(group, {key: at for key, at in offsets.items() if key not in before}, _INITIAL)
            offsets |= before
        return self._mark(offsets, ids).to_json()

    def _mark(self, offsets: Offsets, ids: Mapping[TopicPartition, str]) -> Mark:
        """Offsets with the ids of their topics, unless Spark's own source is to read the checkpoint."""
        known = (
            {key.topic: topic_id for key, topic_id in ids.items()}
            if self._options["kclient.topicIds"]
            else {}
        )
        return Mark(offsets, known)

    def _begin(self, ids: Mapping[TopicPartition, str]) -> Offsets:
        """Where the user wants to begin."""
        return self._directory.resolve(self._starting, ids)

    def latestOffset(self) -> Json:  # type: ignore[override] # noqa: N802 - Spark's name, and 4.0's signature
        """Everything there is: before 4.2 Spark cannot be told of limits."""
        try:
            ids = self._directory.partitions()
            return self._mark(self._directory.latest(ids), ids).to_json()
        except KafkaError as error:
            raise plainly(error) from None

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        options = self._options
        before, after = from_json(start), from_json(end)
        try:
            first = begins(before, after, self._directory.earliest)
            report_losses(before, after, first, Policy(options["failOnDataLoss"]))
        except KafkaError as error:
            raise plainly(error) from None
        tasks = plan(
            ranges_between(first, after.offsets, after.ids),
            min_partitions=options["minPartitions"],
            max_records=options["maxRecordsPerPartition"],
            share=share_of(options),
            sizes=self._directory.record_sizes,
        )
        return [*tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._columns, self._options)

    def commit(self, end: Json) -> None:
        """Spark has what lies before `end`: tell the group, for those who look at its lag."""
        if not self._options["kclient.commitOffsets"] or end == self._committed:
            return
        group = self._options.kafka["group.id"]
        try:
            self._directory.commit(group, from_json(end).offsets, "")
            self._committed = end
        except KafkaError as error:  # the checkpoint is what counts: a query must not end for this
            log.warning("offsets were not committed for group %s: %s", group, error)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """A reader with what this PySpark can use."""
    if hasattr(datasource, "ReadLimit"):
        from kclient.spark.admitted import AdmittedStreamReader  # noqa: PLC0415 - imports what 4.2 added

        return AdmittedStreamReader(options, schema)
    limits = [name for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger") if name.lower() in options]
    if limits:
        raise ConfigurationError(f"{limits[0]} needs PySpark 4.2: before, Spark asks for everything there is")
    return StreamReader(options, schema)
