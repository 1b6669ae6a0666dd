"""The sink without Spark's JVM: what its workers call, with the embedded broker behind it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import StructType

from kclient.errors import ConfigurationError, KafkaError
from kclient.producer.hashing.murmur2 import MURMUR2
from kclient.spark import KafkaDataSource, producers, sink
from kclient.spark.arrow_types import arrow_type
from kclient.spark.ddl import data_type
from kclient.spark.options import Use, parse
from kclient.testing import RunningBroker
from kclient.types import Record
from kclient.wire.api import ApiKey
from tests.support.producing import written

HEADERS = "headers array<struct<key:string,value:binary>>"


@pytest.fixture(scope="module")
def kafka() -> Iterator[RunningBroker]:
    with RunningBroker(config={"num.partitions": "1"}) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_producer_is_left() -> Iterator[None]:
    yield
    producers.close_all()


def schema_of(text: str) -> StructType:
    kind = data_type(text)
    assert isinstance(kind, StructType)
    return kind


def batch_of(schema: StructType, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    arrays = [
        pa.array([row[place] for row in rows], arrow_type(field.dataType))
        for place, field in enumerate(schema.fields)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.fieldNames())


def write(kafka: RunningBroker, schema: str, *batches: list[tuple[Any, ...]], **options: str) -> sink.Written:
    """Have a task write some batches, as Spark does: the writer is made, pickled, and called elsewhere."""
    kind = schema_of(schema)
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers} | {
        name.replace("_", ".") if name.startswith("kafka_") else name: value
        for name, value in options.items()
    }
    writer = pickle.loads(pickle.dumps(KafkaDataSource(given).writer(kind, False)))
    found: sink.Written = writer.write(iter([batch_of(kind, rows) for rows in batches]))
    writer.commit([found, None])
    return found


def records(kafka: RunningBroker, topic: str, partition: int = 0) -> list[Record[Any, Any]]:
    async def read() -> list[Record[Any, Any]]:
        return written(kafka.broker, topic, partition)

    return kafka.call(read())


def test_every_column_becomes_part_of_the_record(kafka: RunningBroker) -> None:
    rows = [
        ("v", "k", [{"key": "h", "value": b"x"}], 0, 1_700_000_000_123_000),
        (None, None, None, None, 1_700_000_000_999_999),
    ]
    columns = f"value string, key string, {HEADERS}, partition int, timestamp timestamp, other int"
    write(kafka, columns, [(*row, 5) for row in rows], topic="columns")
    first, second = records(kafka, "columns")
    assert (first.key, first.value, first.headers, first.timestamp) == (
        b"k",
        b"v",
        (("h", b"x"),),
        1_700_000_000_123,
    )
    assert (second.key, second.value, second.headers, second.timestamp) == (None, None, (), 1_700_000_000_999)


def test_a_row_without_a_time_gets_the_present_one(kafka: RunningBroker) -> None:
    write(kafka, "value string, timestamp timestamp", [("a", None), ("b", 5_000)], topic="times")
    first, second = records(kafka, "times")
    assert first.timestamp > 1_700_000_000_000
    assert second.timestamp == 5


def test_names_of_columns_are_compared_as_spark_does(kafka: RunningBroker) -> None:
    write(kafka, "VALUE string, Key string", [("v", "k")], topic="case")
    assert [(record.key, record.value) for record in records(kafka, "case")] == [(b"k", b"v")]


def test_the_topic_comes_from_the_option_or_from_the_column(kafka: RunningBroker) -> None:
    rows = [("one", "1"), ("two", "2"), ("one", "3"), ("one", "4")]
    write(kafka, "topic string, value string", rows)
    assert [record.value for record in records(kafka, "one")] == [b"1", b"3", b"4"]
    assert [record.value for record in records(kafka, "two")] == [b"2"]
    write(kafka, "topic string, value string", rows, topic="three")
    assert len(records(kafka, "three")) == 4


def test_a_topic_that_is_null_fails_the_task(kafka: RunningBroker) -> None:
    with pytest.raises(ConfigurationError, match=r"null topic present in the data \(1 of 2 rows\)"):
        write(kafka, "topic string, value string", [("one", "1"), (None, "2")])


def test_keys_go_where_java_puts_them(kafka: RunningBroker) -> None:
    kafka.broker.create_topic("keyed", 5)
    keys = [f"customer {number}" for number in range(300)]
    done = write(kafka, "key string, value string", [(key, "v") for key in keys], topic="keyed")
    for partition in range(5):
        found = [record.key for record in records(kafka, "keyed", partition)]
        assert found == [key.encode() for key in keys if MURMUR2.partition(key.encode(), 5) == partition]
        assert done.ends["keyed", partition] == (len(found), len(found) - 1)


def test_what_a_task_has_written_is_counted_over_all_batches(kafka: RunningBroker) -> None:
    batches = [[(f"{number}",) for number in range(100)]] * 3
    done = write(kafka, "value string", *batches, topic="counted")
    assert (done.rows, done.ends) == (300, {("counted", 0): (300, 299)})
    assert write(kafka, "value string", topic="counted") == sink.Written()


@pytest.mark.parametrize("chosen", ["json", "msgpack"])
def test_a_column_is_written_in_its_format(kafka: RunningBroker, chosen: str) -> None:
    write(
        kafka,
        "key int, value struct<id: bigint, name: string>",
        [(1, {"id": 1, "name": "a"})],
        topic=f"as-{chosen}",
        valueFormat=chosen,
        keyFormat="string",
    )
    (record,) = records(kafka, f"as-{chosen}")
    assert record.key == b"1"
    assert record.value == (b'{"id":1,"name":"a"}' if chosen == "json" else b"\x82\xa2id\x01\xa4name\xa1a")


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("key string", {"topic": "t"}, "Required attribute 'value' not found"),
        ("value string", {}, "topic option required when no 'topic' attribute is present"),
        ("value int", {"topic": "t"}, "the column 'value': a column of type int cannot be written as it is"),
        ("value string, key int", {"topic": "t"}, "the column 'key'"),
        ("value string, topic int", {}, "topic attribute type must be string, not int"),
        ("value string, partition bigint", {"topic": "t"}, "partition attribute type must be int"),
        ("value string, timestamp bigint", {"topic": "t"}, "timestamp attribute type must be timestamp"),
        (
            "value string, headers array<string>",
            {"topic": "t"},
            "headers attribute type must be array<struct",
        ),
        ("value string, VALUE string", {"topic": "t"}, "two columns 'value'"),
        ("value string", {"topic": "t", "kafka.acks": "2"}, "acks='2' is not one of"),
        (
            "value string",
            {"topic": "t", "kafka.value.serializer": "x"},
            "values are written as bytes or text",
        ),
        ("value string", {"topic": "t", "kafka.partitioner.class": "my.Own"}, "a class of Java"),
        (
            "value string",
            {"topic": "t", "subscribe": "x"},
            "'subscribe' is for reading, not for a batch write",
        ),
        ("value string", {"topic": "t", "valueFormat": "avro"}, "there is no format 'avro'"),
        (
            "value struct<a: int>",
            {"topic": "t", "valueFormat": "json", "valueSchema": "a string"},
            "valueSchema says",
        ),
    ],
)
def test_what_cannot_be_written_is_said_before_the_first_task(
    schema: str, options: dict[str, str], message: str
) -> None:
    given = {"kafka.bootstrap.servers": "localhost:9"} | options
    with pytest.raises(ConfigurationError, match=message):
        KafkaDataSource(given).writer(schema_of(schema), False)


def test_kafka_is_not_overwritten_but_a_complete_result_is_appended() -> None:
    source = KafkaDataSource({"kafka.bootstrap.servers": "localhost:9", "topic": "t"})
    with pytest.raises(ConfigurationError, match="Save mode Overwrite not allowed"):
        source.writer(schema_of("value string"), True)
    assert repr(source.streamWriter(schema_of("value string"), True)) == "<StreamWriter to localhost:9>"


def test_javas_partitioners_have_equals(kafka: RunningBroker) -> None:
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    kafka.broker.create_topic("round", 3)
    rows = [("same", "v")] * 9
    write(kafka, "key string, value string", rows, topic="round", kafka_partitioner_class=name)
    assert [len(records(kafka, "round", partition)) for partition in range(3)] == [3, 3, 3]


def test_a_row_that_is_not_written_fails_the_task_in_one_sentence(kafka: RunningBroker) -> None:
    kafka.broker.create_topic("small", 1, 1, {"max.message.bytes": "2000"})
    with pytest.raises(KafkaError, match=r"so the task fails and none is lost.*small") as failure:
        write(kafka, "value string", [("x" * 5_000,)], topic="small")
    assert failure.value.__suppress_context__
    assert len(failure.traceback) < 5
    write(kafka, "value string", [("y",)], topic="small")
    assert [record.value for record in records(kafka, "small")] == [b"y"]


def test_a_partition_that_is_not_there_fails_the_task(kafka: RunningBroker) -> None:
    with pytest.raises(KafkaError, match="partition 7"):
        write(kafka, "value string, partition int", [("x", 7)], topic="one-partition")


def test_a_broker_in_trouble_is_asked_again_and_nothing_is_there_twice(kafka: RunningBroker) -> None:
    kafka.broker.create_topic("trouble", 1)
    kafka.broker.faults.close(ApiKey.PRODUCE, handled=True, times=2)
    rows = [(f"{number}",) for number in range(500)]
    write(kafka, "value string", rows, topic="trouble")
    assert [record.value for record in records(kafka, "trouble")] == [row[0].encode() for row in rows]


def test_a_worker_keeps_its_producer_for_the_next_task(kafka: RunningBroker) -> None:
    write(kafka, "value string", [("1",)], topic="kept")
    (first,) = producers._kept.values()
    write(kafka, "value string", [("2",)], topic="kept")
    write(kafka, "value string", [("3",)], topic="kept", kafka_linger_ms="1")
    assert first in producers._kept.values()
    assert len(producers._kept) == 2
    producers.close_all()
    assert first.producer.closed


def test_an_idle_producer_is_closed(kafka: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "IDLE_SECONDS", 0.0)
    write(kafka, "value string", [("1",)], topic="idle")
    for kept in list(producers._kept.values()):
        assert kept.timer is not None
        kept.timer.join(10)
        assert kept.producer.closed
    assert not producers._kept


def test_a_forked_worker_makes_its_own_producer(kafka: RunningBroker) -> None:
    write(kafka, "value string", [("parent",)], topic="forked")
    child = os.fork()
    if child == 0:
        os._exit(0 if not producers._kept else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert producers._kept


def test_rows_of_older_spark_are_gathered_to_batches(kafka: RunningBroker) -> None:
    schema = schema_of(f"value struct<a: int, m: map<string,int>>, {HEADERS}, key binary")
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "rows", "valueFormat": "json"}
    writer = sink.RowStreamWriter(parse(given, Use.STREAM_WRITE), schema)
    rows = [
        Row(
            value=Row(a=number, m={"x": 1}),
            headers=[Row(key="h", value=bytearray(b"y"))],
            key=bytearray(b"k"),
        )
        for number in range(3)
    ]
    assert writer.write(iter(rows)).rows == 3
    found = records(kafka, "rows")
    assert [record.value for record in found] == [b'{"a":%d,"m":{"x":1}}' % number for number in range(3)]
    assert (found[0].headers, found[0].key) == ((("h", b"y"),), b"k")


def test_rows_of_which_one_array_cannot_hold_the_values_become_several_batches(
    kafka: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def array(items: list[Any], kind: Any) -> Any:
        return pa.chunked_array([items[:2], items[2:]], kind)  # as from 2 GiB on

    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "large"}
    writer = sink.RowStreamWriter(parse(given, Use.STREAM_WRITE), schema_of("value string"))
    monkeypatch.setattr(pa, "array", array)
    assert writer.write(iter([Row(value=each) for each in "abc"])).rows == 3
    assert [record.value for record in records(kafka, "large")] == [b"a", b"b", b"c"]


def test_a_failed_write_says_what_stays(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "localhost:9", "topic": "t"}
    writer = KafkaDataSource(given).streamWriter(schema_of("value string"), False)
    writer.abort([sink.Written(rows=5), None], 7)
    assert "a write of batch 7 failed after 5 rows were written: they stay" in caplog.text


def test_options_of_a_stream_that_are_sparks_own_are_not_ours() -> None:
    given = {"kafka.bootstrap.servers": "localhost:9", "topic": "t", "checkpointLocation": "/data/x"}
    KafkaDataSource(given).streamWriter(schema_of("value string"), False)
    with pytest.raises(ConfigurationError, match=r"no option 'bootstrap\.servers' for a streaming write"):
        KafkaDataSource(given | {"bootstrap.servers": "x"}).streamWriter(schema_of("value string"), False)
