"""A batch backfill: the orders of a range of time, again, from what Kafka still has.

    python -m examples.spark.backfill [--cluster | --connect] [--output DIRECTORY]

`startingTimestamp` and `endingTimestamp` are turned into offsets by the brokers, so nothing else is read. The
result replaces the files of those hours and of no others, and running it twice changes nothing.
"""

from __future__ import annotations

from typing import Any

from examples.spark.orders import HOUR_MS, NEW_YEAR_MS, ORDER, ORDERS, expected, make_orders, send_orders
from examples.spark.support import Stage, arguments, create_topic, stage

FROM, TO = 2, 4


def orders_between(at: Stage, start_ms: int, end_ms: int) -> Any:
    """The orders whose records have a time in the range; the end is not part of it."""
    return (
        at.spark.read.format("kclient")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", ORDERS)
        .option("startingTimestamp", str(start_ms))
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("endingTimestamp", str(end_ms))
        .option("valueFormat", "json")
        .option("formatMode", "permissive")
        .schema(f"value struct<{ORDER}>")
        .load()
        .select("value.*")
        .where("order is not null and quantity > 0")
    )


def backfill(at: Stage) -> None:
    start, end = NEW_YEAR_MS + FROM * HOUR_MS, NEW_YEAR_MS + TO * HOUR_MS
    # Records are not quite in the order of their times: a minute more on both sides, then by the time itself.
    found = orders_between(at, start - 60_000, end + 60_000).selectExpr("*", "hour(at) as hour")
    wanted = found.where(f"at >= timestamp_millis({start}) and at < timestamp_millis({end})")
    by_hour = wanted.write.mode("overwrite").partitionBy("hour").option("partitionOverwriteMode", "dynamic")
    by_hour.parquet(str(at.directory / "orders"))


def main(at: Stage, count: int = 2_000) -> None:
    create_topic(at.servers, ORDERS, 3)
    orders = make_orders(count)
    send_orders(at.servers, orders)
    wanted = sum(number for (hour, _), (number, _) in expected(orders).items() if FROM <= hour < TO)
    for time in ("first", "second"):
        backfill(at)
        rows = at.spark.read.parquet(str(at.directory / "orders")).count()
        print(f"{time} time: hours {FROM} to {TO}, all of their orders and no others: {rows == wanted}")


if __name__ == "__main__":
    with stage(arguments(__doc__ or "").parse_args()) as where:
        main(where)
