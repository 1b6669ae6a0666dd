"""Orders from Kafka, cleaned and enriched, as revenue per hour and category to Kafka and to Parquet.

    python -m examples.spark.orders [--cluster | --connect] [--output DIRECTORY]

A stream is read as JSON with a schema; what is no order becomes null and is left out. Products come from a
static table. Windows are final when the watermark has passed them, so each is written once. The pipeline runs
twice: it stops after the first half of the orders and goes on from its checkpoints with the second. Then the
result is compared with what plain Python makes of the same orders, and drawn where matplotlib is installed.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from examples.spark.support import Stage, arguments, create_topic, stage
from kclient import Producer

ORDERS, REVENUE = "orders", "revenue"
ORDER = "order bigint, product string, quantity int, price double, at timestamp"
PRODUCTS = [
    ("apples", "fruit"),
    ("pears", "fruit"),
    ("teapot", "kitchen"),
    ("kettle", "kitchen"),
    ("novel", "books"),
]
NEW_YEAR_MS = 1_767_225_600_000
HOUR_MS = 3_600_000
HOURS = 6


def make_orders(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Orders over some hours, in about the order of their times. One in twenty has no sensible quantity."""
    random = Random(seed)
    orders = []
    for number in range(count):
        at = NEW_YEAR_MS + number * HOURS * HOUR_MS // count - random.randrange(60_000)
        orders.append(
            {
                "order": number,
                "product": random.choice(PRODUCTS)[0],
                "quantity": random.choice([-1, 0]) if number % 20 == 7 else random.randrange(1, 9),
                "price": random.randrange(100, 5_000) / 100,
                "at_ms": at,
            }
        )
    return orders


def send_orders(servers: str, orders: list[dict[str, Any]]) -> None:
    """As shops send them: JSON, keyed by product, and now and then something else."""
    with Producer(bootstrap_servers=servers) as producer:
        for order in orders:
            at = order["at_ms"]
            text = {name: order[name] for name in ("order", "product", "quantity", "price")}
            seconds, ms = divmod(at - NEW_YEAR_MS, 1000)
            text["at"] = f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}Z"
            if at < NEW_YEAR_MS:
                text["at"] = "2026-01-01T00:00:00Z"
            producer.send(ORDERS, json.dumps(text).encode(), order["product"].encode(), timestamp_ms=at)
            if order["order"] % 50 == 3:
                producer.send(ORDERS, b"this is no order", timestamp_ms=at)


def expected(orders: list[dict[str, Any]]) -> dict[tuple[int, str], tuple[int, float]]:
    """By hour and category: how many orders, and what they bring."""
    categories = dict(PRODUCTS)
    counts: Counter[tuple[int, str]] = Counter()
    sums: dict[tuple[int, str], float] = {}
    for order in orders:
        if order["quantity"] > 0:
            place = max(order["at_ms"] - NEW_YEAR_MS, 0) // HOUR_MS, categories[order["product"]]
            counts[place] += 1
            sums[place] = sums.get(place, 0.0) + order["quantity"] * order["price"]
    return {place: (counts[place], round(sums[place], 2)) for place in counts}


def revenue(at: Stage) -> Any:
    """The query: what is read, and what becomes of it."""
    orders = (
        at.spark.readStream.format("kclient")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", ORDERS)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("valueSchema", ORDER)
        .option("formatMode", "permissive")
        .load()
        .select("value.*")
    )
    cleaned = orders.where("order is not null and quantity > 0").withWatermark("at", "10 minutes")
    products = at.spark.createDataFrame(PRODUCTS, "product string, category string")
    return (
        cleaned.join(products, "product")
        .selectExpr("window(at, '1 hour') as window", "category", "quantity * price as amount")
        .groupBy("window", "category")
        .agg({"amount": "sum", "*": "count"})
        .selectExpr(
            "window.start as hour", "category", "`count(1)` as orders", "round(`sum(amount)`, 2) as revenue"
        )
    )


def run_once(at: Stage) -> None:
    """Everything that has come since the last run, to both sinks. Checkpoints say where that is."""
    result = revenue(at)
    kafka = (
        result.selectExpr("category as key", "struct(*) as value", "hour as timestamp")
        .writeStream.format("kclient")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", REVENUE)
        .option("valueFormat", "json")
    )
    parquet = result.writeStream.format("parquet").option("path", str(at.directory / "revenue"))
    queries = [
        sink.option("checkpointLocation", str(at.directory / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
        for name, sink in (("kafka", kafka), ("parquet", parquet))
    ]
    for query in queries:
        query.awaitTermination()


def main(at: Stage, count: int = 2_000) -> None:
    create_topic(at.servers, ORDERS, 3)
    create_topic(at.servers, REVENUE, 1)
    orders = make_orders(count)
    # The last one is of the next day: it moves the watermark past all others, so that their hours are final.
    last = {
        "order": count,
        "product": "novel",
        "quantity": 1,
        "price": 1.0,
        "at_ms": NEW_YEAR_MS + 23 * HOUR_MS,
    }
    for half in (orders[: count // 2], [*orders[count // 2 :], last]):
        send_orders(at.servers, half)
        run_once(at)
        rows = at.spark.read.parquet(str(at.directory / "revenue")).count()
        print(f"{len(half)} orders more: {rows} results")
    rows = at.spark.read.parquet(str(at.directory / "revenue")).orderBy("hour", "category").collect()
    found = {(row["hour"].hour, row["category"]): (row["orders"], row["revenue"]) for row in rows}
    written = at.spark.read.format("kclient").option("kafka.bootstrap.servers", at.servers)
    in_kafka = written.option("subscribe", REVENUE).load().count()
    print(f"Parquet has each hour once: {len(rows) == len(found)}")
    print(f"it is what Python finds: {found == expected(orders)}")
    print(f"Kafka has as many: {in_kafka == len(rows)}")
    print(f"plot: {draw(rows, at.directory / 'revenue.png')}")


def draw(rows: list[Any], path: Path) -> str:
    """Revenue per hour, a line for each category."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - not needed to run the pipeline
    except ImportError:
        return "not drawn, as matplotlib is not installed"
    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for category in sorted({row["category"] for row in rows}):
        points = [(row["hour"], row["revenue"]) for row in rows if row["category"] == category]
        axes.plot(*zip(*points, strict=True), marker="o", label=category)
    axes.set(title="Revenue per hour", xlabel="hour (UTC)", ylabel="EUR")
    axes.legend()
    figure.autofmt_xdate()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path.name


if __name__ == "__main__":
    with stage(arguments(__doc__ or "").parse_args()) as where:
        main(where)
