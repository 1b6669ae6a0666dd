"""A batch and a stream, read and written with kclient, in a process of its own that knows only PySpark.

For Spark Connect, which cannot be beside classic Spark, and for other versions of PySpark in environments of
their own. Nothing is registered: PySpark has to find kclient. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def main(kind: str, servers: str, directory: Path) -> dict[str, Any]:
    """`orders` has three partitions of a hundred records."""
    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    local = {"spark.local.dir": directory / "local", "spark.sql.warehouse.dir": directory / "warehouse"}
    for name, value in {**_SETTINGS, **local}.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    try:
        return {
            "session": type(spark).__module__,
            "pyspark": pyspark.__version__,
            **_batches(spark, servers),
            "filtered": _filtered(spark, servers),
            **_stream(spark, servers, directory),
        }
    finally:
        spark.stop()


def _read(builder: Any, servers: str, topic: str, **options: str) -> Any:
    return builder.format("kclient").options(
        **{"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    )


def _batches(spark: Any, servers: str) -> dict[str, Any]:
    some = _read(spark.read, servers, "orders", startingOffsets='{"orders":{"1":90}}').load()
    pruned = _read(spark.read, servers, "orders").schema("offset bigint").load()
    some.select("key", "value").write.format("kclient").options(
        **{"kafka.bootstrap.servers": servers, "topic": "copy"}
    ).mode("append").save()
    try:
        _read(spark.read, servers, "orders", startingOffset="earliest").load().count()
        refused = "nothing"
    except Exception as error:  # noqa: BLE001 - what it says is what is looked at
        refused = str(error)
    return {
        "read": {row["partition"]: row["count"] for row in some.groupBy("partition").count().collect()},
        "pruned": [pruned.columns, pruned.agg({"offset": "sum"}).first()[0]],
        "written": _read(spark.read, servers, "copy").load().count(),
        "refused": refused,
    }


def _filtered(spark: Any, servers: str) -> list[int]:
    """Of one `load()`, with a filter and without, in turn."""
    whole = _read(spark.read, servers, "orders").load()
    second = whole.where("partition = 1")
    whole.createOrReplaceTempView("orders_now")
    view = spark.table("orders_now")
    joined = second.join(whole, "offset")
    queries = (second, whole, joined, view.where("offset < 10"), view, second, whole)
    return [query.count() for query in queries]


def _stream(spark: Any, servers: str, directory: Path) -> dict[str, Any]:
    """From topic to topic, in micro-batches."""
    limits = {"maxOffsetsPerTrigger": "120"} if pyspark.__version__ >= "4.2" else {}
    stream = _read(spark.readStream, servers, "orders", startingOffsets="earliest", **limits)
    checkpoint = str(directory / "checkpoint")
    query = (
        stream.load()
        .select("key", "value")
        .writeStream.format("kclient")
        .options(**{"kafka.bootstrap.servers": servers, "topic": "streamed"})
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(100):
        raise TimeoutError("the stream did not end")
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    streamed = _read(spark.read, servers, "streamed").load()
    return {
        "batches": len(list(Path(checkpoint, "commits").glob("[0-9]*"))),
        "streamed": sorted(bytes(row["value"]).decode() for row in streamed.select("value").collect()),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
