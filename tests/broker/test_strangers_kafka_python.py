"""kafka-python produces to, consumes from and administers the broker as it would Kafka."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from typing import Any

import pytest

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 deprecated and 3.13 took up again.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka: Any = import_module("kafka")
    kafka_admin: Any = import_module("kafka.admin")
TopicPartition: Any = kafka.TopicPartition

_PATIENCE = 15.0

# It leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


def produce(servers: str, topic: str, values: list[bytes], **options: Any) -> list[Any]:
    with closing(kafka.KafkaProducer(bootstrap_servers=servers, **options)) as producer:
        sent = [producer.send(topic, value, key=b"k", headers=[("h", b"1")]) for value in values]
        return [future.get(_PATIENCE) for future in sent]


def reader(servers: str, *topics: str, **options: Any) -> Any:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        **{
            "group_id": "strangers",
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 100,
            "session_timeout_ms": 10000,
            "heartbeat_interval_ms": 200,
            **options,
        },
    )
    # It joins before it knows the topics, and where their partitions come to light during the join it keeps
    # the empty assignment; Kafka's delay before a first rebalance hides this. So let it look first.
    for topic in topics:
        consumer.partitions_for_topic(topic)
    consumer.subscribe(topics)
    return consumer


def until(done: Callable[[], object], failure: Callable[[], str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not done():
        assert time.monotonic() < deadline, failure()


def take(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        for records in consumer.poll(timeout_ms=50, max_records=count - len(found)).values():
            found.extend(records)
        return len(found) >= count

    until(enough, lambda: f"{len(found)} of {count} came")
    return found


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_what_is_produced_is_consumed(servers: str, codec: str | None, acks: int | str) -> None:
    values = [b"%d" % number for number in range(100)]
    produce(servers, "plain", values, acks=acks, compression_type=codec, enable_idempotence=False)
    with closing(reader(servers, "plain")) as consumer:
        records = take(consumer, 100)
    assert [record.value for record in records] == values
    assert (records[3].key, list(records[3].headers), records[3].offset) == (b"k", [("h", b"1")], 3)


def test_an_idempotent_producer_gets_consecutive_offsets(servers: str) -> None:
    reports = produce(servers, "once", [b"x"] * 200, enable_idempotence=True)
    assert [report.offset for report in reports] == list(range(200))


def test_seeks_times_and_commits_are_answered(servers: str) -> None:
    part = TopicPartition("timed", 0)
    with closing(kafka.KafkaProducer(bootstrap_servers=servers)) as producer:
        for number in range(10):
            producer.send("timed", b"%d" % number, timestamp_ms=1_700_000_000_000 + number).get(_PATIENCE)
    with closing(reader(servers, "timed", enable_auto_commit=False)) as consumer:
        take(consumer, 10)
        assert consumer.beginning_offsets([part]) == {part: 0}
        assert consumer.end_offsets([part]) == {part: 10}
        found = consumer.offsets_for_times({part: 1_700_000_000_006})
        assert (found[part].offset, found[part].timestamp) == (6, 1_700_000_000_006)
        consumer.seek(part, 4)
        assert take(consumer, 1)[0].value == b"4"
        consumer.commit()
        assert consumer.committed(part) == 5
    with closing(reader(servers, "timed")) as again:
        assert take(again, 1)[0].value == b"5"


def test_the_admin_client_works_on_topics_and_groups(servers: str) -> None:
    with closing(kafka_admin.KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([kafka_admin.NewTopic("made", 2, 1)])
        assert "made" in admin.list_topics()
        admin.create_partitions({"made": kafka_admin.NewPartitions(3)})
        (described,) = admin.describe_topics(["made"])
        assert len(described["partitions"]) == 3
        resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, "made")
        assert "retention.ms" in str(admin.describe_configs([resource], config_filter="all"))
        assert admin.describe_cluster()["brokers"]

        produce(servers, "made", [b"a"])
        with closing(reader(servers, "made")) as consumer:
            take(consumer, 1)
            consumer.commit()
            assert "Stable" in str(admin.describe_groups(["strangers"]))
        assert "strangers" in str(admin.list_groups())
        assert "offset=1" in str(admin.list_group_offsets(["strangers"]))
        admin.delete_groups(["strangers"])
        assert "strangers" not in str(admin.list_groups())
        admin.delete_topics(["made"])
        assert "made" not in admin.list_topics()
