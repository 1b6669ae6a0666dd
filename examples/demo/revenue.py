"""The Spark side, in a process of its own: orders to Parquet files, and revenue per category to a topic.

Two streaming queries read the topic with `format("kclient")`: one stores every order once, one adds up
five-second windows and writes them with every change. A line of JSON says how far they are. When standard
input ends, what is left is worked off and both are stopped.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from examples.demo.orders import REVENUE_TOPIC, SCHEMA, TOPIC
from examples.spark.support import arguments, stage

WINDOW, LATENESS, TRIGGER = "5 seconds", "20 seconds", "1 second"


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def start_queries(spark: Any, bootstrap: str, directory: Path) -> list[Any]:
    from pyspark.sql import functions as f  # noqa: PLC0415 - only this process needs Spark

    orders = (
        spark.readStream.format("kclient")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("valueSchema", SCHEMA)
        .load()
        .select("value.*")
        .withColumn("time", f.timestamp_millis("time_ms"))
    )
    revenue = (
        orders.withWatermark("time", LATENESS)
        .groupBy(f.window("time", WINDOW), "category")
        .agg(f.sum("cents").alias("cents"), f.count("*").alias("orders"))
        .select(
            f.concat_ws("|", f.col("window.start").cast("string"), "category").alias("key"),
            f.to_json(
                f.struct(f.unix_millis("window.start").alias("from_ms"), "category", "cents", "orders")
            ).alias("value"),
        )
    )
    stored = orders.writeStream.format("parquet").option("path", str(directory / "orders"))

    def write(windows: Any, _: int) -> None:
        to = windows.write.format("kclient").option("kafka.bootstrap.servers", bootstrap)
        to.option("topic", REVENUE_TOPIC).mode("append").save()

    # Batch by batch, because Spark lets no Python data source write a stream in update mode.
    added = revenue.writeStream.outputMode("update").foreachBatch(write)
    queries = []
    for name, query in (("files", stored), ("revenue", added)):
        checkpoint = query.option("checkpointLocation", str(directory / f"checkpoint-{name}"))
        queries.append(checkpoint.trigger(processingTime=TRIGGER).queryName(name).start())
        queries[-1].processAllAvailable()  # of nothing yet: until its processes have started
    return queries


def rows_read(query: Any) -> int:
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def main(bootstrap: str, directory: str) -> None:
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with stage(arguments("").parse_args(["--bootstrap-servers", bootstrap, "--output", directory])) as at:
        queries = start_queries(at.spark, at.servers, at.directory)
        tell(started=True)
        while not ended.wait(0.5):
            tell(rows=min(map(rows_read, queries)))
        for query in queries:
            query.processAllAvailable()
            query.stop()
        tell(finished=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
