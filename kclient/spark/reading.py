"""What both readers, of batches and of streams, do in a task: ranges to Arrow batches.

Pickled with Spark's read function into every task, so it holds nothing but options. Errors leave it as one
sentence: the frames of a client that retried for a while tell a user of Spark nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kclient.errors import KafkaError
from kclient.spark.loss import Policy
from kclient.spark.options import Options
from kclient.spark.planning import Task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructField


def read_task(
    task: InputPartition, columns: Mapping[str, StructField], options: Options
) -> Iterator[pa.RecordBatch]:
    """The records of a task."""
    if not isinstance(task, Task):
        raise TypeError(f"Spark asks for {task!r}, which is no partition that kclient planned")
    # Not before there is a task: a driver that only plans needs no Arrow, and no worker connects earlier.
    from kclient.spark.fetch import Reading  # noqa: PLC0415
    from kclient.spark.session import session_for  # noqa: PLC0415
    from kclient.spark.tables import Layout  # noqa: PLC0415

    layout = Layout(columns, options)
    policy = Policy(options["failOnDataLoss"])
    reading = Reading(session_for(options.kafka), task.ranges, policy, options["kafkaConsumer.pollTimeoutMs"])
    try:
        yield from layout.tables(reading.pieces())
    except KafkaError as error:
        raise plainly(error) from None


def plainly(error: KafkaError) -> KafkaError:
    """The same error without its history, which Spark would print in full."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
