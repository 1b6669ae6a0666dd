"""confluent-kafka's AdminClient finds, makes, changes and removes topics, settings, groups and offsets."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)

from tests.broker.conftest import Stage
from tests.broker.librdkafka import PATIENCE, consumer, produce, take

rd: Any = import_module("confluent_kafka.admin")  # its types do not say what it exports


@pytest.fixture
def admin(servers: str) -> Any:
    return rd.AdminClient({"bootstrap.servers": servers})


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(PATIENCE) for future in futures.values()]


def refused(futures: dict[Any, Any]) -> int:
    """The code with which the only thing that was asked for was refused."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as caught:
        future.result(PATIENCE)
    return int(caught.value.args[0].code())


def test_topics_are_created_described_grown_and_deleted(admin: Any) -> None:
    done(admin.create_topics([rd.NewTopic("a", 2, 1, config={"retention.ms": "1000"}), rd.NewTopic("b")]))
    assert refused(admin.create_topics([rd.NewTopic("a", 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert refused(admin.create_topics([rd.NewTopic("no/slash", 1, 1)])) == KafkaError.TOPIC_EXCEPTION
    assert refused(admin.create_topics([rd.NewTopic("c", 1, 3)])) == KafkaError.INVALID_REPLICATION_FACTOR

    done(admin.create_partitions([rd.NewPartitions("a", 5)]))
    (described,) = done(admin.describe_topics(TopicCollection(["a"])))
    assert described.name == "a"
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3, 4]
    assert described.partitions[0].leader.id == 1
    assert set(admin.list_topics(timeout=PATIENCE).topics) == {"a", "b"}

    done(admin.delete_topics(["a"]))
    assert set(admin.list_topics(timeout=PATIENCE).topics) == {"b"}
    assert refused(admin.delete_topics(["a"])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_cluster_is_described(admin: Any, broker: Stage) -> None:
    described = admin.describe_cluster().result(PATIENCE)
    assert described.cluster_id == broker.broker.cluster_id
    assert described.controller.id == 1
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [broker.bootstrap_servers]


def test_settings_are_described_and_altered(admin: Any, broker: Stage) -> None:
    broker.create_topic("tuned")
    resource = rd.ConfigResource(rd.ResourceType.TOPIC, "tuned")
    (before,) = done(admin.describe_configs([resource]))
    assert before["retention.ms"].value == "604800000"
    assert before["retention.ms"].is_default

    change = rd.ConfigResource(
        rd.ResourceType.TOPIC,
        "tuned",
        incremental_configs=[
            rd.ConfigEntry("retention.ms", "5000", incremental_operation=rd.AlterConfigOpType.SET),
            rd.ConfigEntry("cleanup.policy", "compact", incremental_operation=rd.AlterConfigOpType.APPEND),
        ],
    )
    done(admin.incremental_alter_configs([change]))

    (after,) = done(admin.describe_configs([resource]))
    assert after["retention.ms"].value == "5000"
    assert not after["retention.ms"].is_default
    assert after["cleanup.policy"].value == "delete,compact"
    (of_broker,) = done(admin.describe_configs([rd.ConfigResource(rd.ResourceType.BROKER, "1")]))
    assert of_broker["num.partitions"].value == "1"


def test_a_setting_that_is_not_valid_is_refused(admin: Any, broker: Stage) -> None:
    broker.create_topic("tuned")
    entry = rd.ConfigEntry("retention.ms", "soon", incremental_operation=rd.AlterConfigOpType.SET)
    change = rd.ConfigResource(rd.ResourceType.TOPIC, "tuned", incremental_configs=[entry])
    assert refused(admin.incremental_alter_configs([change])) == KafkaError.INVALID_CONFIG


def test_offsets_are_listed_and_records_deleted(admin: Any, servers: str) -> None:
    produce(servers, "long", [b"%d" % number for number in range(10)])
    where = TopicPartition("long", 0)

    def listed(spec: Any) -> int:
        futures = admin.list_offsets({where: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        (found,) = done(futures)
        return int(found.offset)

    assert (listed(rd.OffsetSpec.earliest()), listed(rd.OffsetSpec.latest())) == (0, 10)
    assert 0 <= listed(rd.OffsetSpec.max_timestamp()) <= 9
    assert listed(rd.OffsetSpec.for_timestamp(0)) == 0

    (deleted,) = done(admin.delete_records([TopicPartition("long", 0, 4)]))
    assert deleted.low_watermark == 4
    assert listed(rd.OffsetSpec.earliest()) == 4


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_listed_described_and_deleted(admin: Any, servers: str, protocol: str) -> None:
    produce(servers, "grouped", [b"a", b"b"])
    with consumer(servers, **{"group.protocol": protocol, "client.id": "reader"}) as member:
        member.subscribe(["grouped"])
        take(member, 2)
        member.commit(asynchronous=False)
        (described,) = done(admin.describe_consumer_groups(["strangers"]))
        assert described.state == ConsumerGroupState.STABLE
        assert described.type == ConsumerGroupType[protocol.upper()]
        assert [one.client_id for one in described.members] == ["reader"]
        assert described.members[0].host == "/127.0.0.1"
        assert described.members[0].assignment.topic_partitions == [TopicPartition("grouped", 0)]
        assert described.coordinator.id == 1
        assert refused(admin.delete_consumer_groups(["strangers"])) == KafkaError.NON_EMPTY_GROUP

    listing = admin.list_consumer_groups().result(PATIENCE)
    assert not listing.errors
    assert [(group.group_id, group.state) for group in listing.valid] == [
        ("strangers", ConsumerGroupState.EMPTY)
    ]
    done(admin.delete_consumer_groups(["strangers"]))
    assert admin.list_consumer_groups().result(PATIENCE).valid == []
    assert refused(admin.delete_consumer_groups(["strangers"])) == KafkaError.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_are_listed_and_altered(admin: Any, servers: str) -> None:
    produce(servers, "grouped", [b"%d" % number for number in range(5)])
    with consumer(servers) as member:
        member.subscribe(["grouped"])
        take(member, 5)
        member.commit(asynchronous=False)

    asked = ConsumerGroupTopicPartitions("strangers")
    (found,) = done(admin.list_consumer_group_offsets([asked]))
    assert [(part.topic, part.partition, part.offset) for part in found.topic_partitions] == [
        ("grouped", 0, 5)
    ]
    wanted = ConsumerGroupTopicPartitions("strangers", [TopicPartition("grouped", 0, 2)])
    done(admin.alter_consumer_group_offsets([wanted]))

    with consumer(servers) as member:
        member.subscribe(["grouped"])
        assert take(member, 1)[0].value() == b"2"
