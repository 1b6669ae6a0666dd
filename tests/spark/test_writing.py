"""Spark writes through kclient: in batches and in streams, to an embedded broker, in classic Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kclient.testing import RunningBroker
from kclient.types import Record
from tests.support.producing import written

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own


def records(kafka: RunningBroker, topic: str) -> list[Record[Any, Any]]:
    async def read() -> list[Record[Any, Any]]:
        return written(kafka.broker, topic, 0)

    return sorted(kafka.call(read()), key=lambda record: record.value or b"")


def options(kafka: RunningBroker, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, **more}


def test_a_batch_is_written_with_all_columns_and_read_as_it_was(spark: Any, broker: RunningBroker) -> None:
    rows = spark.range(1_000).selectExpr(
        "cast(id as string) as key",
        "struct(id, concat('n', id) as name, array(id) as numbers) as value",
        "array(struct('from' as key, cast('spark' as binary) as value)) as headers",
        "0 as partition",
        "timestamp_millis(1700000000000 + id) as timestamp",
    )
    rows.write.format("kclient").options(**options(broker, "out", valueFormat="json")).mode("append").save()
    found = records(broker, "out")
    assert len(found) == 1_000
    assert (found[0].key, found[0].value) == (b"0", b'{"id":0,"name":"n0","numbers":[0]}')
    assert (found[0].headers, found[0].timestamp) == ((("from", b"spark"),), 1_700_000_000_000)
    read = spark.read.format("kclient").options(
        **{
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "out",
            "keyFormat": "string",
            "valueFormat": "json",
            "valueSchema": "id bigint, name string, numbers array<bigint>",
        }
    )
    assert read.load().select("key", "value").exceptAll(rows.select("key", "value")).count() == 0


def test_a_stream_goes_on_from_its_checkpoint(spark: Any, broker: RunningBroker, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for turn, expected in ((0, 50), (1, 100)):
        spark.range(turn * 50, turn * 50 + 50).selectExpr("cast(id as string) as value").write.mode(
            "append"
        ).parquet(str(source))
        stream = spark.readStream.schema("value string").parquet(str(source)).writeStream.format("kclient")
        query = (
            stream.options(**options(broker, "streamed"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert len(records(broker, "streamed")) == expected


def test_a_failed_task_says_why_in_a_sentence(spark: Any, broker: RunningBroker) -> None:
    rows = spark.sql("select cast(null as string) as topic, 'v' as value")
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    with pytest.raises(Exception, match="null topic present in the data") as failure:
        rows.write.format("kclient").options(**given).mode("append").save()
    assert str(failure.value).count("File ") <= 3


def test_what_cannot_be_written_fails_before_a_task_runs(spark: Any, broker: RunningBroker) -> None:
    rows = spark.range(3).withColumnRenamed("id", "value")
    for mode, message in (
        ("append", "bigint cannot be written as it is"),
        ("overwrite", "Overwrite not allowed"),
    ):
        with pytest.raises(Exception, match=message):
            rows.write.format("kclient").options(**options(broker, "never")).mode(mode).save()
