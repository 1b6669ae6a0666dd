"""Spark in a process of its own, with its own Kafka connector: one small session goes through everything.

Run as a program it reads where the broker, the connector's jars and a scratch directory are from stdin, and
prints what it found, both as JSON. Spark's JVM ends with the process: it listens to the pipe between them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_LONGEST = 200.0
_HEADERS = "array(struct('from' as key, cast('spark' as binary) as value)) as headers"
_TEXT = "partition, offset, cast(key as string) key, cast(value as string) value, headers"


def run_job(servers: str, jars: Path, scratch: Path) -> dict[str, Any]:
    """Have Spark read "in", copy it to "out" and write to "made"; what it saw."""
    given = {"servers": servers, "jars": [str(path) for path in jars.glob("*.jar")], "scratch": str(scratch)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Job:
    """The session, and the options that every use of the connector has."""

    def __init__(self, servers: str, jars: list[str], scratch: str) -> None:
        self._scratch = scratch
        self._servers = {"kafka.bootstrap.servers": servers}
        builder = import_module("pyspark.sql").SparkSession.builder.master("local[1]")
        settings = {
            "spark.jars": ",".join(jars),
            "spark.driver.memory": "640m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark: Any = builder.getOrCreate()

    def read(self, topic: str, **options: str) -> list[dict[str, Any]]:
        reader = self._spark.read.format("kafka").options(**self._servers, includeHeaders="true", **options)
        rows = reader.option("subscribe", topic).load().selectExpr(*_TEXT.split(", ")).collect()
        return [self._plain(row.asDict(recursive=True)) for row in rows]

    def write(self, topic: str, count: int) -> None:
        rows = self._spark.range(count).selectExpr(
            "cast(id % 7 as string) as key", "cast(id as string) as value", _HEADERS
        )
        rows.write.format("kafka").options(**self._servers, topic=topic, includeHeaders="true").save()

    def copy(self, topic: str, to: str) -> list[int]:
        """Stream what is there and was not copied yet, 40 records at a time; how many each batch had."""
        stream = self._spark.readStream.format("kafka").options(
            **self._servers,
            subscribe=topic,
            startingOffsets="earliest",
            includeHeaders="true",
            maxOffsetsPerTrigger="40",
        )
        sink = stream.load().selectExpr("key", "value", "headers").writeStream.format("kafka")
        sink = sink.options(**self._servers, topic=to, checkpointLocation=f"{self._scratch}/checkpoint")
        query = sink.option("includeHeaders", "true").trigger(availableNow=True).start()
        assert query.awaitTermination(60), "the stream did not end"
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    @staticmethod
    def _plain(row: dict[str, Any]) -> dict[str, Any]:
        headers = [[header["key"], header["value"].decode()] for header in row["headers"] or ()]
        return {**row, "headers": headers}


def _main(given: dict[str, Any]) -> dict[str, Any]:
    job = _Job(**given)
    found: dict[str, Any] = {"all": job.read("in")}
    offsets = {"startingOffsets": '{"in":{"0":3,"1":7}}', "endingOffsets": '{"in":{"0":5,"1":8}}'}
    found["by offset"] = job.read("in", **offsets)
    found["by time"] = job.read("in", startingTimestamp="1700000000090")
    job.write("made", 100)
    found["copied"] = job.copy("in", "out")
    job.write("in", 10)
    found["copied again"] = job.copy("in", "out")
    return found


if __name__ == "__main__":
    print(json.dumps(_main(json.load(sys.stdin))))
