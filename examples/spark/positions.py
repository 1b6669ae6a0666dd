"""GPS positions with hot keys: one vehicle reports far more often than all others together.

    python -m examples.spark.positions [--cluster | --connect]

Kafka keeps a vehicle's positions in one partition, in order, so one partition has most of the work. Read
plainly, one task would have it all; `maxRecordsPerPartition` splits it. To join what is known of a vehicle
without bringing the hot one together in one task again, it is summed up in two steps: first within each
share of its positions (a salt), then over the shares. The last position of each goes to a compacted topic.
"""

from __future__ import annotations

from random import Random
from typing import Any

from examples.spark.support import Stage, arguments, create_topic, stage
from kclient import Producer

POSITIONS, VEHICLES = "positions", "vehicles"
HOT = "truck-0"
PARTITIONS = 4
SHARES = 4


def send_positions(servers: str, count: int) -> dict[str, int]:
    """Positions of twenty vehicles, eight in ten of them of the hot one; how many each has sent."""
    random = Random(2)
    sent: dict[str, int] = {}
    keys, values = [], []
    for number in range(count):
        vehicle = HOT if random.random() < 0.8 else f"truck-{random.randrange(1, 20)}"
        sent[vehicle] = sent.get(vehicle, 0) + 1
        keys.append(vehicle.encode())
        values.append(b'{"lat":%.5f,"lon":%.5f,"number":%d}' % (48 + number / 1e5, 11 - number / 1e5, number))
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_many(POSITIONS, values, keys).result(60)
    return sent


def read(at: Stage, **options: str) -> Any:
    reader = at.spark.read.format("kclient").option("kafka.bootstrap.servers", at.servers)
    return (
        reader.options(subscribe=POSITIONS, keyFormat="string", valueFormat="json", **options)
        .option("valueSchema", "lat double, lon double, number bigint")
        .load()
        .selectExpr("key as vehicle", "value.*", "partition", "spark_partition_id() as task")
    )


def largest_share(positions: Any, by: str) -> float:
    """How much of all the positions the busiest partition, or task, has."""
    counts: list[int] = [row["count"] for row in positions.groupBy(by).count().collect()]
    return max(counts) / sum(counts)


def last_positions(positions: Any) -> Any:
    """In two steps: the hot vehicle is summed up in several tasks, and only the sums come together."""
    latest = ("count(*) as reports", "max_by(struct(lat, lon, number), number) as last")
    shares = positions.selectExpr("*", f"number % {SHARES} as share").groupBy("vehicle", "share")
    partial = shares.agg(*[_expression(each) for each in latest])
    whole = ("sum(reports) as reports", "max_by(last, last.number) as last")
    return partial.groupBy("vehicle").agg(*[_expression(each) for each in whole])


def _expression(text: str) -> Any:
    from pyspark.sql import functions  # noqa: PLC0415 - after the environment is set

    return functions.expr(text)


def main(at: Stage, count: int = 20_000) -> None:
    create_topic(at.servers, POSITIONS, PARTITIONS)
    create_topic(at.servers, VEHICLES, 1, cleanup_policy="compact")
    sent = send_positions(at.servers, count)
    split = read(at, maxRecordsPerPartition=str(count // 8))
    partition, task = (largest_share(split, by) for by in ("partition", "task"))
    print(f"the busiest partition has {partition:.0%} of the positions, no task more than {task:.0%}")
    last_positions(split).selectExpr("vehicle as key", "struct(reports, last) as value").write.format(
        "kclient"
    ).options(**{"kafka.bootstrap.servers": at.servers, "topic": VEHICLES, "valueFormat": "json"}).mode(
        "append"
    ).save()
    written = (
        at.spark.read.format("kclient")
        .option("kafka.bootstrap.servers", at.servers)
        .options(subscribe=VEHICLES, keyFormat="string", valueFormat="json")
        .option("valueSchema", "reports bigint")
        .load()
        .selectExpr("key", "value.reports")
    )
    found = {row["key"]: row["reports"] for row in written.collect()}
    print(f"{len(found)} vehicles, {HOT} has {found[HOT] / count:.0%} of the reports")
    print(f"none is lost: {found == sent}")


if __name__ == "__main__":
    with stage(arguments(__doc__ or "").parse_args()) as where:
        main(where)
