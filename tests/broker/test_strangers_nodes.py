"""confluent-kafka goes on while nodes stop and leaders move, and finds its records after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from tests.broker.conftest import Stage, staged
from tests.broker.librdkafka import consumer, produce, take

_QUICK: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 500, "reconnect.backoff.max.ms": 200}


def test_records_and_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    values = [b"%d" % number for number in range(100)]
    with staged(data=tmp_path) as before:
        produce(before.bootstrap_servers, "kept", values, **{"enable.idempotence": True})
        with consumer(before.bootstrap_servers, **{"enable.auto.commit": False}) as reader:
            reader.subscribe(["kept"])
            reader.commit(message=take(reader, 40)[-1], asynchronous=False)

    with staged(data=tmp_path) as after:
        with consumer(after.bootstrap_servers) as reader:
            reader.subscribe(["kept"])
            assert [message.value() for message in take(reader, 60)] == values[40:]
        produce(after.bootstrap_servers, "kept", [b"more"], **{"enable.idempotence": True})
        with consumer(after.bootstrap_servers) as reader:
            reader.assign([TopicPartition("kept", 0, 99)])
            assert [message.value() for message in take(reader, 2)] == [b"99", b"more"]


def test_a_consumer_follows_leaders_and_coordinators_that_move(cluster: Stage) -> None:
    cluster.create_topic("moving", partitions=3, replication_factor=3)
    servers = cluster.bootstrap_servers

    async def move() -> None:
        for index in range(3):
            cluster.broker.move_leader("moving", index, 2)
        cluster.broker.move_coordinator("strangers", 2)

    with consumer(servers, **_QUICK) as reader:
        reader.subscribe(["moving"])
        produce(servers, "moving", [b"before"] * 30)
        take(reader, 30)
        cluster.call(move())
        produce(servers, "moving", [b"after"] * 30)
        assert {message.value() for message in take(reader, 30)} == {b"after"}
        reader.commit(asynchronous=False)


def test_a_producer_and_a_consumer_outlive_a_node(cluster: Stage) -> None:
    cluster.create_topic("surviving", partitions=3, replication_factor=3)
    servers = cluster.bootstrap_servers
    with consumer(servers, **_QUICK) as reader:
        reader.subscribe(["surviving"])
        produce(servers, "surviving", [b"before"] * 30)
        take(reader, 30)
        cluster.call(cluster.broker.stop_node(1))
        produce(servers, "surviving", [b"without"] * 30, acks="all")
        assert {message.value() for message in take(reader, 30)} == {b"without"}
        cluster.call(cluster.broker.start_node(1))
        produce(servers, "surviving", [b"again"] * 30)
        assert {message.value() for message in take(reader, 30)} == {b"again"}
