"""Live groups of both protocols, as kclient describes them and as librdkafka's admin client does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as TheirTopicPartition
from confluent_kafka.admin import AdminClient

from kclient import Admin, OffsetAndMetadata, TopicPartition
from kclient.admin import ConsumerGroupDescription, GroupState, GroupType, NewTopic
from kclient.errors import GroupIdNotFoundError, GroupSubscribedToTopicError, NonEmptyGroupError
from tools.kafka.provider import PlainKafka
from tools.kafka.waiting import poll

PROTOCOLS = ("classic", "consumer")


def unique(name: str) -> str:
    return f"{name}-{uuid4().hex[:8]}"


@pytest.fixture
def admin(kafka: PlainKafka) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.bootstrap()) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A topic of four partitions."""
    name = unique("topic")
    admin.create_topics(NewTopic(name, 4))
    yield name
    admin.delete_topics(name, raise_errors=False)


@contextmanager
def members(kafka: PlainKafka, group: str, topic: str, protocol: str, count: int = 2) -> Iterator[list[Any]]:
    """Consumers of a group, each with its part of the topic; the second is a static member."""
    consumers = [
        Consumer(
            {
                "bootstrap.servers": kafka.bootstrap(),
                "group.id": group,
                "client.id": f"client-{number}",
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                **({"group.instance.id": "static"} if number == 1 else {}),
                **({"group.protocol": "consumer"} if protocol == "consumer" else {}),
            }
        )
        for number in range(count)
    ]
    try:
        for consumer in consumers:
            consumer.subscribe([topic])

        def all_assigned() -> bool:
            for consumer in consumers:
                consumer.poll(0.1)
            return all(len(consumer.assignment()) == 4 // count for consumer in consumers)

        poll(all_assigned, timeout=60, failure=lambda: f"group {group} has not come to rest")
        yield consumers
    finally:
        for consumer in consumers:
            consumer.close()


def settled(admin: Admin, group: str) -> ConsumerGroupDescription:
    def stable() -> ConsumerGroupDescription | None:
        described = admin.describe_consumer_groups(group)[group]
        return described if described.state is GroupState.STABLE else None

    return poll(stable, timeout=30, failure=lambda: f"group {group} is not stable")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_described_as_librdkafka_describes_it(
    kafka: PlainKafka, admin: Admin, topic: str, protocol: str
) -> None:
    group = unique("group")
    with members(kafka, group, topic, protocol) as consumers:
        ours = settled(admin, group)
        client = AdminClient({"bootstrap.servers": kafka.bootstrap()})
        theirs = client.describe_consumer_groups([group], request_timeout=30)[group].result()
        held = [{TopicPartition(each.topic, each.partition) for each in c.assignment()} for c in consumers]
        listed = admin.list_groups(states=[GroupState.STABLE], types=[GroupType(protocol)])

    assert ours.type == protocol == theirs.type.name.lower()
    assert ours.state.name == theirs.state.name
    assert ours.partition_assignor == theirs.partition_assignor
    assert not ours.is_simple_consumer_group
    assert ours.protocol_type == "consumer"
    assert ours.coordinator is not None
    assert (ours.coordinator.node_id, ours.coordinator.endpoint) == (
        theirs.coordinator.id,
        (theirs.coordinator.host, theirs.coordinator.port),
    )
    assert {
        (member.member_id, member.client_id, member.host, member.group_instance_id, member.assignment)
        for member in ours.members
    } == {
        (
            member.member_id,
            member.client_id,
            member.host,
            member.group_instance_id,
            frozenset(
                TopicPartition(each.topic, each.partition) for each in member.assignment.topic_partitions
            ),
        )
        for member in theirs.members
    }
    by_client = {member.client_id: member for member in ours.members}
    for number, partitions in enumerate(held):
        member = by_client[f"client-{number}"]
        assert member.assignment == partitions
        assert member.subscription == {topic}
        assert member.group_instance_id == ("static" if number == 1 else None)
        if protocol == "consumer":
            assert member.target_assignment == member.assignment
            assert member.upgraded
            assert member.member_epoch is not None
    assert (ours.group_epoch is None) == (protocol == "classic")
    assert listed[group].state is GroupState.STABLE
    assert listed[group].protocol_type == "consumer"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_cannot_be_changed_behind_their_backs(
    kafka: PlainKafka, admin: Admin, topic: str, protocol: str
) -> None:
    group, first = unique("group"), TopicPartition(topic, 0)
    with members(kafka, group, topic, protocol, count=1) as (consumer,):
        consumer.commit(offsets=[TheirTopicPartition(topic, 0, 3)], asynchronous=False)
        with pytest.raises(NonEmptyGroupError, match=f"group {group}"):
            admin.delete_consumer_groups(group)
        with pytest.raises(NonEmptyGroupError, match=f"group {group}, topic {topic}, partition 0"):
            admin.alter_consumer_group_offsets(group, {first: 0})
        with pytest.raises(GroupSubscribedToTopicError, match=f"group {group}, topic {topic}"):
            admin.delete_consumer_group_offsets(group, first)
        committed = admin.list_consumer_group_offsets(group)[first]
        assert committed is not None
        assert committed.offset == 3

    def empty() -> bool:
        return admin.describe_consumer_groups(group)[group].state is GroupState.EMPTY

    poll(empty, timeout=60, failure=lambda: f"group {group} has not become empty")
    admin.alter_consumer_group_offsets(group, {first: OffsetAndMetadata(1, "again")})
    assert admin.list_consumer_group_offsets(group)[first] == OffsetAndMetadata(1, "again")
    admin.delete_consumer_groups(group)


def test_offsets_that_librdkafka_commits_are_the_ones_we_list(
    kafka: PlainKafka, admin: Admin, topic: str
) -> None:
    group = unique("group")
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": group})
    try:
        consumer.commit(offsets=[TheirTopicPartition(topic, 2, 11)], asynchronous=False)
    finally:
        consumer.close()
    listed = admin.list_consumer_group_offsets(group)
    assert {partition: committed and committed.offset for partition, committed in listed.items()} == {
        TopicPartition(topic, 2): 11
    }
    some = admin.list_consumer_group_offsets(group, [TopicPartition(topic, 1), TopicPartition(topic, 2)])
    assert some[TopicPartition(topic, 1)] is None
    assert some[TopicPartition(topic, 2)] is not None


def test_classic_groups_of_an_old_broker_are_described(old_kafka: PlainKafka) -> None:
    name, group = unique("topic"), unique("group")
    with Admin(bootstrap_servers=old_kafka.bootstrap()) as admin:
        admin.create_topics(NewTopic(name, 4))
        with members(old_kafka, group, name, "classic") as consumers:
            described = settled(admin, group)
            held = {frozenset((each.topic, each.partition) for each in c.assignment()) for c in consumers}
        assert {member.assignment for member in described.members} == held
        assert described.type is GroupType.CLASSIC
        admin.delete_topics(name)


def test_groups_that_are_not_there_are_named_one_by_one(admin: Admin, topic: str) -> None:
    group, missing = unique("group"), unique("missing")
    admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 1})
    for call in (admin.describe_consumer_groups, admin.delete_consumer_groups):
        outcomes = call([group, missing], raise_errors=False)
        assert list(outcomes.succeeded) == [group]
        with pytest.raises(GroupIdNotFoundError, match=f"group {missing}"):
            outcomes[missing]
    with pytest.raises(GroupIdNotFoundError, match=f"group {missing}"):
        admin.delete_consumer_group_offsets(missing, TopicPartition(topic, 0))
    assert admin.list_consumer_group_offsets(missing) == {}
