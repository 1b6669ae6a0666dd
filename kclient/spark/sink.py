"""Writing: rows of a task to Kafka, each delivered before the task ends, or the task failed.

Spark makes a writer on the driver, pickles it into its tasks and calls `commit` on the driver with what the
tasks returned. That is at-least-once: a task that is repeated writes its rows again. `Written` says where the
rows of a task are, so that a sink which ends a transaction in `commit` (and undoes it in `abort`) has its
place in `_Sink`; this one has nothing left to do there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kclient.errors import ConfigurationError, KafkaError
from kclient.net.settings import dial_settings
from kclient.producer import Deliveries, Producer, ProducerConfig
from kclient.spark import producers
from kclient.spark.arrow_types import arrow_type
from kclient.spark.options import Options, Use, parse
from kclient.spark.outages import RowsWaiting
from kclient.spark.properties import as_given, in_given_names
from kclient.spark.rows import Plan

log: logging.Logger = logging.getLogger(__name__)

# Rows that are turned into a batch where Spark gives them one by one.
_ROWS = 10_000


@dataclass
class Written(WriterCommitMessage):
    """What one task has written: by topic and partition, how many rows and the highest offset."""

    rows: int = 0
    ends: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def add(self, deliveries: Deliveries) -> None:
        for (topic, partition), first, count in deliveries.ranges():
            before, highest = self.ends.get((topic, partition), (0, -1))
            last = first + count - 1 if first >= 0 else -1
            self.ends[topic, partition] = before + count, max(highest, last)
            self.rows += count


class _Sink:
    """What writers of all kinds share."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._kafka = dict(options.kafka)
        _check(self._kafka)
        self._plan = Plan(schema, options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._kafka['bootstrap.servers']}>"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a worker: the rows of one task."""
        try:
            return self._write(iterator)
        except KafkaError as error:
            # Spark prints whatever is raised with all its causes: one sentence is what a reader needs.
            raise _in_words(error, self._kafka) from None

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = Written()
        servers = self._kafka["bootstrap.servers"]
        with producers.borrowed(self._kafka) as producer, RowsWaiting(producer, servers) as waiting:
            for sent in self._sent(producer, iterator, waiting):
                written.add(sent)
        return written

    def _sent(
        self, producer: Producer, iterator: Iterator[pa.RecordBatch], waiting: RowsWaiting
    ) -> Iterator[Deliveries]:
        """Deliveries that have succeeded, in order; a failed one raises, and later rows are not sent."""
        unsettled: deque[Deliveries] = deque()
        for batch in iterator:
            for topic, table in self._plan.tables(batch):
                with waiting.blocked():
                    unsettled.append(producer.send_arrow(topic, table))
            # Only what is in flight is kept: a task may have more rows than memory.
            while unsettled and unsettled[0].done():
                yield unsettled.popleft().result()
        with waiting.blocked():
            producer.flush()
        for deliveries in unsettled:
            yield deliveries.result(0)

    def commit(self, messages: Sequence[Any], batch_id: int | None = None) -> None:
        """On the driver: all tasks have succeeded, and with them every row is written."""
        told = [message for message in messages if isinstance(message, Written)]
        rows = sum(message.rows for message in told)
        log.debug("%d tasks have written %d rows of batch %s", len(told), rows, batch_id)

    def abort(self, messages: Sequence[Any], batch_id: int | None = None) -> None:
        """On the driver: the job failed. What was written stays; repeating the job writes it again."""
        told = [message for message in messages if isinstance(message, Written)]
        rows = sum(message.rows for message in told)
        if rows:
            log.warning(
                "a write%s failed after %d rows were written: they stay, and a retry writes them again",
                "" if batch_id is None else f" of batch {batch_id}",
                rows,
            )


def _check(kafka: Mapping[str, str]) -> None:
    """Say on the driver what is wrong with properties; what files they name may be on the workers only."""
    config = producers.config(kafka)
    if config.security_protocol == "PLAINTEXT":
        try:
            dial_settings(config, Random())  # noqa: S311 - for back-off
        except ConfigurationError as error:
            raise as_given(error, ProducerConfig, kafka) from None


def _in_words(error: KafkaError, kafka: Mapping[str, str]) -> KafkaError:
    """The same in a sentence that stands by itself, without the way it has come."""
    text = in_given_names(str(error), ProducerConfig, kafka)
    if isinstance(error, ConfigurationError):
        return ConfigurationError(text)
    notes = "; ".join(getattr(error, "__notes__", ()))
    return KafkaError(
        f"rows could not be written to Kafka, so the task fails and none is lost: {text}"
        + (f" ({notes})" if notes else "")
    )


class BatchWriter(_Sink, DataSourceArrowWriter):  # type: ignore[misc]  # Spark's own classes disagree
    """`df.write.format("kclient")`."""


# From 4.1 on; before, streams come row by row.
_STREAM_ARROW: Any = getattr(datasource, "DataSourceStreamArrowWriter", None)


class RowStreamWriter(_Sink, DataSourceStreamWriter):
    """`df.writeStream.format("kclient")` where Spark has no Arrow for it: rows are gathered to batches."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a worker: the rows of one task."""
        return super().write(self._batches(iterator))

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        kinds = [arrow_type(each.dataType) for each in self._schema.fields]
        names = self._schema.fieldNames()
        while some := list(islice(rows, _ROWS)):
            columns = zip(*some, strict=True)
            arrays = [
                pa.array([_plain(value) for value in column], kind)
                for column, kind in zip(columns, kinds, strict=True)
            ]
            # What passes the 32-bit offsets of a column is made in several chunks.
            yield from pa.Table.from_arrays(arrays, names=names).to_batches()


def _plain(value: Any) -> Any:
    """Rows within rows as Arrow takes them."""
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return [(_plain(key), _plain(each)) for key, each in value.items()]
    return bytes(value) if isinstance(value, bytearray) else value


def _stream_class() -> type[Any]:
    if _STREAM_ARROW is None:
        return RowStreamWriter
    return type("StreamWriter", (_Sink, _STREAM_ARROW), {"__module__": __name__})


StreamWriter: type[Any] = _stream_class()


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of a batch; modes are those of Spark's own sink."""
    if overwrite:
        raise ConfigurationError(
            "Save mode Overwrite not allowed for Kafka, which keeps what was written: use mode('append')"
        )
    return BatchWriter(parse(options, Use.BATCH_WRITE), schema)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> Any:
    """The writer of a stream. `overwrite` is the output mode complete: each result is appended whole."""
    del overwrite
    return StreamWriter(parse(options, Use.STREAM_WRITE), schema)
