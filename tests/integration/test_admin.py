"""The admin client on real brokers: every verb, its errors, and what old brokers answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as TheirTopicPartition

from kclient import Admin, AsyncAdmin, OffsetAndMetadata, TopicPartition
from kclient.admin import (
    AclOperation,
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    GroupState,
    GroupType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
)
from kclient.errors import (
    BrokerNotAvailableError,
    GroupIdNotFoundError,
    IncompatibleBrokerError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaTimeoutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.schema import NO_UUID
from tools.kafka.fixtures import StartCluster
from tools.kafka.ports import free_ports
from tools.kafka.provider import PlainKafka
from tools.kafka.waiting import poll


def unique(name: str) -> str:
    return f"{name}-{uuid4().hex[:8]}"


@pytest.fixture
def admin(kafka: PlainKafka) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.bootstrap()) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A topic of three partitions."""
    name = unique("topic")
    admin.create_topics(NewTopic(name, 3))
    eventually(lambda: name in admin.list_topics())
    yield name
    admin.delete_topics(name, raise_errors=False)


def produce(kafka: PlainKafka, partition: TopicPartition, timestamps: list[int]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap(), "acks": "all"})
    for timestamp in timestamps:
        producer.produce(partition.topic, b"value", partition=partition.partition, timestamp=timestamp)
    assert producer.flush(60) == 0


def eventually(holds: Callable[[], bool]) -> None:
    """Brokers hear of a change a moment after it was made."""
    poll(holds, timeout=30, failure=lambda: "brokers have not heard of it")


def partitions_of(admin: Admin, topic: str) -> tuple[PartitionDescription, ...]:
    return admin.describe_topics(topic)[topic].partitions


def setting(admin: Admin, resource: ConfigResource, name: str) -> ConfigEntry:
    return admin.describe_configs(resource, name)[resource][name]


# Every version


@pytest.mark.matrix
def test_every_verb_works_on_every_broker(matrix_kafka: PlainKafka) -> None:
    name, group = unique("topic"), unique("group")
    first, resource = TopicPartition(name, 0), ConfigResource.topic(name)
    with Admin(bootstrap_servers=matrix_kafka.bootstrap()) as admin:
        cluster = admin.describe_cluster(include_authorized_operations=True)
        assert cluster.cluster_id is not None
        assert cluster.controller in cluster.brokers
        assert AclOperation.CREATE in (cluster.authorized_operations or ())

        assert admin.create_topics(NewTopic(name, 2), validate_only=True)[name].name == name
        assert name not in admin.list_topics()
        created = admin.create_topics(NewTopic(name, 2, configs={"retention.ms": "60000"}))[name]
        assert (created.num_partitions, created.replication_factor) == (2, 1)
        eventually(lambda: name in admin.list_topics())
        assert admin.list_topics()[name].topic_id == created.topic_id
        admin.create_partitions({name: 3})
        eventually(lambda: len(partitions_of(admin, name)) == 3)
        description = admin.describe_topics(name, include_authorized_operations=True)[name]
        assert [each.leader for each in description.partitions] == [cluster.brokers[0].node_id] * 3
        assert AclOperation.ALTER in (description.authorized_operations or ())

        # Set before it is appended to: Kafka 2.4 fails at appending to a default.
        admin.incremental_alter_configs(
            {resource: {"retention.ms": None, "segment.ms": "50000", "cleanup.policy": "delete"}}
        )
        admin.incremental_alter_configs({resource: [AlterConfigOp.append("cleanup.policy", "compact")]})
        eventually(lambda: "compact" in (setting(admin, resource, "cleanup.policy").value or ""))
        settings = admin.describe_configs(resource, include_synonyms=True, include_documentation=True)[
            resource
        ]
        assert settings["retention.ms"].source is not ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert settings["segment.ms"].value == "50000"
        assert settings["segment.ms"].synonyms[0].value == "50000"
        assert set((settings["cleanup.policy"].value or "").split(",")) == {"compact", "delete"}
        admin.incremental_alter_configs({resource: [AlterConfigOp.subtract("cleanup.policy", "delete")]})
        assert (
            admin.describe_configs(resource, "cleanup.policy")[resource]["cleanup.policy"].value == "compact"
        )

        assert admin.list_offsets(first)[first].offset == 0
        assert admin.list_offsets(first, 1_000, isolation_level="read_committed")[first].offset == -1

        committed = OffsetAndMetadata(5, "by hand")
        admin.alter_consumer_group_offsets(group, {first: committed, TopicPartition(name, 1): 7})
        assert admin.list_consumer_group_offsets(group, first) == {first: committed}
        assert admin.list_consumer_group_offsets(group) == {
            first: committed,
            TopicPartition(name, 1): OffsetAndMetadata(7),
        }
        assert admin.list_groups()[group].protocol_type == ""
        described = admin.describe_consumer_groups(group)[group]
        assert described.state is GroupState.EMPTY
        assert described.coordinator == cluster.brokers[0]
        assert described.is_simple_consumer_group
        admin.delete_consumer_group_offsets(group, TopicPartition(name, 1))
        assert list(admin.list_consumer_group_offsets(group)) == [first]
        admin.delete_consumer_groups(group)
        with pytest.raises(GroupIdNotFoundError, match=f"group {group}"):
            admin.describe_consumer_groups(group)
        assert group not in admin.list_groups()

        admin.delete_topics(name)
        eventually(lambda: name not in admin.list_topics())
        with pytest.raises(UnknownTopicOrPartitionError, match=f"topic {name}"):
            admin.describe_topics(name)


def test_an_old_broker_says_what_it_cannot_do(old_kafka: PlainKafka) -> None:
    name = unique("topic")
    with Admin(bootstrap_servers=old_kafka.bootstrap()) as admin:
        admin.create_topics(name)
        with pytest.raises(IncompatibleBrokerError, match=r"OffsetSpec\.MAX_TIMESTAMP needs Kafka 3\.0"):
            admin.list_offsets(TopicPartition(name, 0), OffsetSpec.MAX_TIMESTAMP)
        with pytest.raises(IncompatibleBrokerError, match=r"by type needs Kafka 3\.8"):
            admin.list_groups(types=[GroupType.CONSUMER])
        admin.delete_topics(name)


# Topics


def test_names_alone_make_topics_with_the_brokers_defaults(admin: Admin) -> None:
    names = [unique("a"), unique("b")]
    created = admin.create_topics(names)
    assert [created[name].num_partitions for name in names] == [1, 1]
    assert all(created[name].topic_id != NO_UUID for name in names)
    assert admin.delete_topics(names) == dict.fromkeys(names)


def test_replicas_can_be_placed_by_hand(admin: Admin) -> None:
    (node,) = (broker.node_id for broker in admin.describe_cluster().brokers)
    name = unique("placed")
    admin.create_topics(NewTopic(name, assignments={0: [node], 1: [node]}))
    admin.create_partitions({name: NewPartitions(3, [[node]])})
    eventually(lambda: [each.replicas for each in partitions_of(admin, name)] == [(node,)] * 3)
    admin.delete_topics(name)


def test_internal_topics_are_listed_on_request(admin: Admin, topic: str) -> None:
    admin.alter_consumer_group_offsets(unique("group"), {TopicPartition(topic, 0): 1})
    assert "__consumer_offsets" not in admin.list_topics()
    assert admin.list_topics(include_internal=True)["__consumer_offsets"].internal


def test_each_topic_has_an_error_of_its_own(admin: Admin, topic: str) -> None:
    fresh, big = unique("fresh"), unique("big")
    outcomes = admin.create_topics(
        [topic, fresh, "not/valid", NewTopic(unique("none"), 0), NewTopic(big, 1, 99)], raise_errors=False
    )
    assert list(outcomes.succeeded) == [fresh]
    assert [type(error) for error in outcomes.errors.values()] == [
        TopicAlreadyExistsError,
        InvalidTopicError,
        InvalidPartitionsError,
        InvalidReplicationFactorError,
    ]
    with pytest.raises(InvalidReplicationFactorError, match=f"topic {big}"):
        outcomes[big]
    admin.delete_topics(fresh)


def test_the_first_error_is_raised_and_tells_of_the_rest(admin: Admin, topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError, match=f"topic {topic}") as raised:
        admin.create_topics([topic, "not/valid"])
    assert "also for not/valid: INVALID_TOPIC_EXCEPTION" in raised.value.__notes__[0]


def test_partitions_cannot_become_fewer(admin: Admin, topic: str) -> None:
    with pytest.raises(InvalidPartitionsError, match=f"topic {topic}"):
        admin.create_partitions({topic: 1})


def test_topics_that_are_not_there_are_named(admin: Admin) -> None:
    began = time.monotonic()
    for call in (admin.delete_topics, admin.describe_topics):
        with pytest.raises(UnknownTopicOrPartitionError, match="topic nothing"):
            call("nothing")
    with pytest.raises(UnknownTopicOrPartitionError, match="topic nothing"):
        admin.create_partitions({"nothing": 2})
    with pytest.raises(UnknownTopicOrPartitionError, match="topic nothing, partition 4"):
        admin.list_offsets(TopicPartition("nothing", 4))
    assert time.monotonic() - began < 10


# Settings


def test_a_setting_that_does_not_exist_is_refused(admin: Admin, topic: str) -> None:
    with pytest.raises(InvalidConfigError, match=rf"configs of topic {topic}.*nonsense"):
        admin.incremental_alter_configs({ConfigResource.topic(topic): {"nonsense": "1"}})


def test_checking_a_change_changes_nothing(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    admin.incremental_alter_configs({resource: {"retention.ms": "1"}}, validate_only=True)
    assert admin.describe_configs(resource, ["retention.ms"])[resource]["retention.ms"].value != "1"


def test_settings_of_brokers_are_read_and_changed_at_the_broker(admin: Admin) -> None:
    (node,) = (broker.node_id for broker in admin.describe_cluster().brokers)
    one, every = ConfigResource.broker(node), ConfigResource.broker()
    assert admin.describe_configs(one)[one]["broker.id"].value == str(node)
    admin.incremental_alter_configs(
        {one: {"message.max.bytes": "1000000"}, every: {"message.max.bytes": "1000000"}}
    )
    dynamic = ConfigSource.DYNAMIC_BROKER_CONFIG
    eventually(lambda: setting(admin, one, "message.max.bytes").source is dynamic)
    admin.incremental_alter_configs({one: {"message.max.bytes": None}, every: {"message.max.bytes": None}})
    with pytest.raises(BrokerNotAvailableError, match="broker 77"):
        admin.describe_configs(ConfigResource.broker(77))


def test_settings_of_a_group_can_be_changed(admin: Admin) -> None:
    group = ConfigResource.group(unique("group"))
    admin.incremental_alter_configs({group: {"consumer.session.timeout.ms": "50000"}})
    eventually(lambda: setting(admin, group, "consumer.session.timeout.ms").value == "50000")
    source = setting(admin, group, "consumer.session.timeout.ms").source
    assert source is ConfigSource.DYNAMIC_GROUP_CONFIG


# Offsets


def test_offsets_are_found_by_place_and_by_time(kafka: PlainKafka, admin: Admin, topic: str) -> None:
    partition, empty = TopicPartition(topic, 1), TopicPartition(topic, 2)
    produce(kafka, partition, [1_000, 3_000, 2_000])
    found = {
        at: admin.list_offsets(partition, at)[partition].offset
        for at in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, 500, 1_001, 3_001)
    }
    assert list(found.values()) == [0, 3, 1, 0, 1, -1]
    assert admin.list_offsets(partition, 1_001)[partition].timestamp == 3_000
    outcomes = admin.list_offsets({partition: OffsetSpec.LATEST, empty: OffsetSpec.MAX_TIMESTAMP})
    assert [outcomes[each].offset for each in (partition, empty)] == [3, -1]


def test_an_open_transaction_hides_the_end_from_those_who_read_what_is_committed(
    kafka: PlainKafka, admin: Admin, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": unique("transaction")}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush(30)
    assert admin.list_offsets(partition)[partition].offset == 1
    assert admin.list_offsets(partition, isolation_level="read_committed")[partition].offset == 0
    producer.abort_transaction(30)


def test_offsets_about_to_change_are_waited_for_on_request(
    kafka: PlainKafka, admin: Admin, topic: str
) -> None:
    """A transaction that commits offsets for a group makes them unstable until it ends."""
    group, partition = unique("group"), TopicPartition(topic, 0)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": group})
    producer = Producer({"bootstrap.servers": kafka.bootstrap(), "transactional.id": unique("transaction")})
    try:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TheirTopicPartition(topic, 0, 9)], consumer.consumer_group_metadata(), 30
        )
        assert admin.list_consumer_group_offsets(group, partition) == {partition: None}
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            admin.list_consumer_group_offsets(group, partition, require_stable=True, timeout_ms=500)
        producer.commit_transaction(30)
        stable = admin.list_consumer_group_offsets(group, partition, require_stable=True)[partition]
        assert stable is not None
        assert stable.offset == 9
    finally:
        consumer.close()


# Several brokers, and none


def test_a_cluster_is_asked_broker_by_broker_and_survives_the_loss_of_one(
    kafka_cluster: StartCluster,
) -> None:
    cluster = kafka_cluster(nodes=3)
    name = unique("topic")
    partitions = [TopicPartition(name, number) for number in range(6)]
    groups = sorted(unique("group") for _ in range(8))
    with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
        admin.create_topics(NewTopic(name, 6, 3))
        eventually(lambda: {each.leader for each in partitions_of(admin, name)} == {1, 2, 3})
        assert [admin.list_offsets(partitions)[each].offset for each in partitions] == [0] * 6
        for group in groups:
            admin.alter_consumer_group_offsets(group, {partitions[0]: 1})
        coordinators = {
            group.coordinator.node_id
            for group in admin.describe_consumer_groups(groups).values()
            if group.coordinator is not None
        }
        assert len(coordinators) > 1
        assert list(admin.list_groups()) == groups
        cluster.kill(3)
        assert list(admin.list_groups()) == groups
        assert [admin.list_offsets(partitions)[each].offset for each in partitions] == [0] * 6
        assert all(
            committed is not None and committed.offset == 1
            for group in groups
            for committed in admin.list_consumer_group_offsets(group).values()
        )
        assert [broker.node_id for broker in admin.describe_cluster().brokers] == [1, 2]


@pytest.mark.alone
def test_a_broker_that_goes_away_is_waited_for_until_the_deadline(kafka_cluster: StartCluster) -> None:
    cluster = kafka_cluster()
    with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
        assert admin.health().connected
        cluster.kill(1)
        for call in (admin.list_topics, admin.list_groups, admin.describe_cluster):
            began = time.monotonic()
            with pytest.raises(KafkaTimeoutError, match=r"within 1\.5 s"):
                call(timeout_ms=1_500)
            assert time.monotonic() - began < 2.5
        began = time.monotonic()
    assert time.monotonic() - began < 1


@pytest.mark.alone
def test_nobody_at_the_address_is_said_when_the_deadline_has_passed() -> None:
    (port,) = free_ports(1)

    async def connect() -> None:
        async with AsyncAdmin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=1_000):
            pass

    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"cannot connect to 127\.0\.0\.1"):
        asyncio.run(connect())
    assert time.monotonic() - began < 2
