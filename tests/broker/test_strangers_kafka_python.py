"""kafka-python produces to, consumes from and administers the broker as it would Kafka."""

from __future__ import annotations

from tests.broker.kafka_python import drive

_VALUES = [str(number) for number in range(200)]


def test_what_is_produced_is_consumed(servers: str) -> None:
    drive("produce", servers=servers, topic="plain", values=_VALUES, enable_idempotence=False)

    records = drive("consume", servers=servers, topic="plain", count=200)

    assert [record["value"] for record in records] == _VALUES
    assert records[3] == {"partition": 0, "offset": 3, "key": "k", "value": "3", "headers": [["h", "1"]]}


def test_an_idempotent_producer_gets_consecutive_offsets(servers: str) -> None:
    reports = drive("produce", servers=servers, topic="once", values=_VALUES, enable_idempotence=True)

    assert reports == [[0, offset] for offset in range(200)]


def test_seeks_times_and_commits_are_answered(servers: str) -> None:
    assert drive("positions", servers=servers) == {
        "ends": [0, 10],
        "by_time": [6, 1_700_000_000_006],
        "sought": "4",
        "committed": 5,
        "resumed": "5",
    }


def test_the_admin_client_works_on_topics_and_groups(servers: str) -> None:
    seen = drive("administer", servers=servers)

    assert seen["topics"] == ["made"]
    assert (seen["partitions"], seen["brokers"]) == (3, 1)
    assert "retention.ms" in seen["configs"]
    assert "Stable" in seen["group"]
    assert "strangers" in seen["groups"]
    assert "offset=1" in seen["offsets"]
    assert "strangers" not in seen["groups after"]
    assert "made" not in seen["topics after"]
