"""A driver that a test kills: one topic to another and to Parquet, by queries with checkpoints.

Run as a program with a `Job` as JSON. The sink by batch is what Spark's documentation calls idempotent: each
micro-batch overwrites a directory of its own. The query that forgets is what must not be: it has a new
checkpoint in each run, so whatever was not read when it was killed is lost to it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from examples.spark.support import SETTINGS

SOURCE, TARGET, FORGETFUL = "source", "target", "forgetful"
PARQUET = "parquet"


@dataclass(frozen=True)
class Job:
    """What one run does. `rows` limits a micro-batch; without it, the run ends when all is read."""

    master: str
    servers: str
    directory: str
    run: int
    rows: int | None
    forgetful: bool

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(job: Job) -> None:
    spark = _session(job)
    queries = [_to_topic(spark, job, TARGET, "earliest", "to-topic"), _to_parquet(spark, job)]
    if job.forgetful:
        starting = "latest" if job.run else "earliest"
        queries.append(_to_topic(spark, job, FORGETFUL, starting, f"forgetful-{job.run}"))
    if job.rows is None:
        for query in queries:
            query.awaitTermination()
        spark.stop()
    else:
        spark.streams.awaitAnyTermination()


def _session(job: Job) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the test that starts this needs none

    builder: Any = SparkSession.builder.master(job.master).appName(f"run {job.run}")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", f"{job.directory}/warehouse")
    return builder.config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"]).getOrCreate()


def _records(spark: Any, job: Job, starting: str) -> Any:
    options = {
        "kafka.bootstrap.servers": job.servers,
        "subscribe": SOURCE,
        "startingOffsets": starting,
        "kclient.recordsPerTask": "0",  # a task per partition: every executor has some
    }
    if job.rows is not None:
        options["maxOffsetsPerTrigger"] = str(job.rows)
    return spark.readStream.format("kclient").options(**options).load()


def _started(writer: Any, job: Job, checkpoint: str) -> Any:
    writer = writer.option("checkpointLocation", f"{job.directory}/checkpoints/{checkpoint}")
    return (writer if job.rows is not None else writer.trigger(availableNow=True)).start()


def _to_topic(spark: Any, job: Job, topic: str, starting: str, checkpoint: str) -> Any:
    writer = _records(spark, job, starting).select("key", "value").writeStream.format("kclient")
    writer = writer.options(**{"kafka.bootstrap.servers": job.servers, "topic": topic})
    return _started(writer, job, checkpoint)


def _to_parquet(spark: Any, job: Job) -> Any:
    rows = _records(spark, job, "earliest").selectExpr(
        "cast(cast(key as string) as int) as key", "cast(cast(value as string) as int) as number"
    )
    overwrite = partial(_overwrite, Path(job.directory, PARQUET))
    return _started(rows.writeStream.foreachBatch(overwrite), job, "to-parquet")


def _overwrite(directory: Path, rows: Any, batch_id: int) -> None:
    rows.write.mode("overwrite").parquet(str(directory / f"batch={batch_id}"))


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
