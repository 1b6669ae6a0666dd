"""Spark reads through kclient: in batches and in streams, from an embedded broker, in classic Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Producer
from kclient.admin import NewTopic
from kclient.spark.progress import offsets_behind_latest
from kclient.testing.running import RunningBroker

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own

_ROW = ("key", "value", "topic", "partition", "offset", "timestampType")


def fill(running: RunningBroker, numbers: range, topic: str = "orders", partitions: int = 3) -> None:
    """Records with keys, values, timestamps and, where the number is odd, a header."""
    with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
        if topic not in admin.list_topics():
            admin.create_topics(NewTopic(topic, partitions))
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(
                topic,
                f"value {number}".encode(),
                key=b"key" if number % 3 else None,
                partition=number % partitions,
                timestamp_ms=1_700_000_000_000 + number,
                headers=[("parity", b"odd")] if number % 2 else [],
            )


def reader(spark: Any, running: RunningBroker, streaming: bool = False, **options: str) -> Any:
    builder = spark.readStream if streaming else spark.read
    return builder.format("kclient").options(
        **{"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "orders", **options}
    )


def test_a_batch_has_the_columns_of_sparks_own_source(spark: Any, broker: RunningBroker) -> None:
    fill(broker, range(30))

    found = reader(spark, broker, includeHeaders="true").load()

    assert found.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = found.selectExpr(*_ROW, "unix_millis(timestamp) as at", "headers").collect()
    by_number = {int(row["value"].split()[1]): row for row in rows}
    assert sorted(by_number) == list(range(30))
    for number, row in by_number.items():
        assert row["key"] == (b"key" if number % 3 else None)
        assert (row["topic"], row["partition"], row["offset"]) == ("orders", number % 3, number // 3)
        assert (row["timestampType"], row["at"]) == (0, 1_700_000_000_000 + number)
        headers = (
            None if row["headers"] is None else [(each["key"], each["value"]) for each in row["headers"]]
        )
        assert headers == ([("parity", b"odd")] if number % 2 else None)


def test_offsets_and_schema_bound_what_a_batch_reads_and_filters_are_sparks(
    spark: Any, broker: RunningBroker
) -> None:
    fill(broker, range(300))

    some = reader(spark, broker, startingOffsets='{"orders":{"1":90}}', endingOffsets='{"orders":{"0":5}}')
    counts = {row["partition"]: row["count"] for row in some.load().groupBy("partition").count().collect()}
    pruned = reader(spark, broker).schema("offset bigint, value binary").load()
    late = reader(spark, broker).load().where("timestamp >= timestamp_millis(1700000000290)")
    one = reader(spark, broker).load().where("partition = 2 and offset >= 97")

    assert counts == {0: 5, 1: 10, 2: 100}
    assert pruned.columns == ["offset", "value"]
    assert pruned.agg({"offset": "sum"}).first()[0] == 3 * sum(range(100))
    assert late.count() == 10
    assert [row["offset"] for row in one.collect()] == [97, 98, 99]


def test_filters_of_one_query_do_not_reach_into_another(spark: Any, broker: RunningBroker) -> None:
    """Spark keeps one plan of a `load()` for all its queries, with what was pushed down last."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    fill(broker, range(300))
    whole = reader(spark, broker).load()
    second, early = whole.where("partition = 1"), whole.where("offset < 10")

    assert [second.count(), whole.count()] == [100, 300]
    assert [early.count(), second.count(), whole.count()] == [30, 100, 300]
    assert second.union(early).count() == 130
    assert second.join(early, ["partition", "offset"]).count() == 10
    assert early.alias("a").join(whole.alias("b"), "offset").count() == 90
    assert whole.where("partition = 1").exceptAll(early).count() == 90
    assert second.where("timestamp >= timestamp_millis(1700000000290)").count() == 3
    assert whole.count() == 300


def test_filters_on_a_view_do_not_reach_into_another_query(spark: Any, broker: RunningBroker) -> None:
    fill(broker, range(300))
    spark.sql(
        "create or replace temporary view orders_now using kclient options "
        f"('kafka.bootstrap.servers' '{broker.bootstrap_servers}', 'subscribe' 'orders')"
    )

    def count(rest: str = "") -> int:
        found: int = spark.sql(f"select count(*) from orders_now {rest}").first()[0]
        return found

    assert [count("where partition = 1"), count(), count("where offset < 10"), count()] == [100, 300, 30, 300]
    both = "a join orders_now b on a.offset = b.offset where a.partition = 1 and b.partition = 2"
    assert [count(both), count()] == [100, 300]
    spark.catalog.dropTempView("orders_now")


def test_a_batch_keeps_its_first_plan_and_another_load_sees_what_came_since(
    spark: Any, broker: RunningBroker
) -> None:
    """As long as nothing is filtered: Spark plans a Python source once for each `load()`."""
    fill(broker, range(300))
    orders = reader(spark, broker).load()

    assert orders.count() == 300
    fill(broker, range(300, 307))
    assert orders.count() == 300
    assert reader(spark, broker).load().count() == 307


def test_a_stream_goes_on_from_its_checkpoint_and_commits_for_its_group(
    spark: Any, broker: RunningBroker, tmp_path: Path
) -> None:
    fill(broker, range(100))
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "40",
        "kafka.group.id": "spark",
        "kclient.commitOffsets": "true",
    }

    def run() -> list[Any]:
        stream = reader(spark, broker, streaming=True, **options).load()
        query = (
            stream.selectExpr("cast(value as string) as text")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    first = run()
    fill(broker, range(100, 130))
    second = run()

    assert [sum(batch["numInputRows"] for batch in run) for run in (first, second)] == [100, 30]
    assert max(batch["numInputRows"] for batch in first) <= 40
    behind = offsets_behind_latest(first[0])[0]
    assert 19 <= behind["avgOffsetsBehindLatest"] <= 21
    texts = {row["text"] for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert texts == {f"value {number}" for number in range(130)}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        committed = admin.list_consumer_group_offsets("spark")
    assert {key.partition: at.offset for key, at in committed.items() if at is not None} == {
        0: 44,
        1: 43,
        2: 43,
    }


def test_what_went_wrong_is_said_in_one_sentence(spark: Any, broker: RunningBroker) -> None:
    fill(broker, range(3))

    with pytest.raises(Exception, match=r"did you mean 'startingOffsets'\?"):
        reader(spark, broker, startingOffset="earliest").load().count()
    with pytest.raises(Exception, match="the log ends at offset 1, endingOffsets says 9"):
        reader(spark, broker, endingOffsets='{"orders":{"0":9}}').load().count()
