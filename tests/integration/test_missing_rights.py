"""What a real broker with ACLs refuses: the error names the resource, the operation and the user.

The operations are Kafka's: only a broker that really asks its authorizer knows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient import AsyncConsumer, AsyncProducer, TopicPartition
from kclient.admin import AsyncAdmin, ConfigResource, ConfigResourceType, NewTopic, OffsetSpec
from kclient.errors import KafkaError
from tests.support.secured import Visitor

pytestmark = pytest.mark.kafka

PATIENCE_MS = 30_000
DESCRIBED = "for-bob"  # the only topic of which bob sees anything
PARTITION = TopicPartition(DESCRIBED, 0)
Action = Callable[[dict[str, Any]], Awaitable[object]]


async def write(options: dict[str, Any], topic: str = DESCRIBED, **more: Any) -> None:
    async with AsyncProducer(**options, **more) as producer:
        await producer.send_and_wait(topic, b"value")


async def read(options: dict[str, Any], topic: str = DESCRIBED) -> None:
    async with AsyncConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.getmany(timeout_ms=PATIENCE_MS)


async def join(options: dict[str, Any], protocol: str) -> None:
    async with AsyncConsumer(**options, group_id="closed", group_protocol=protocol) as consumer:
        consumer.subscribe([DESCRIBED])
        await consumer.getmany(timeout_ms=PATIENCE_MS)


async def commit(options: dict[str, Any]) -> None:
    async with AsyncConsumer(**options, group_id="closed") as consumer:
        consumer.assign([PARTITION])
        await consumer.commit({PARTITION: 0})


def administer(do: Callable[[AsyncAdmin], Awaitable[object]]) -> Action:
    async def action(options: dict[str, Any]) -> None:
        async with AsyncAdmin(**options) as admin:
            await do(admin)

    return action


TOPIC_CONFIG = ConfigResource(ConfigResourceType.TOPIC, DESCRIBED)
TOPIC, GROUP = f"for topic {DESCRIBED}", "for group closed"
ACTIONS: dict[str, tuple[Action, str, str]] = {
    "write, idempotent": (
        write,
        "for a producer id",
        "Write on any topic, or IdempotentWrite on the cluster",
    ),
    "write": (lambda options: write(options, enable_idempotence=False), TOPIC, "Write on the topic"),
    "write, unseen": (
        lambda options: write(options, "for-alice"),
        "for topic for-alice",
        "Write on the topic",
    ),
    "read": (read, TOPIC, "Read on the topic"),
    "read, unseen": (lambda options: read(options, "for-alice"), "for topic for-alice", "Read on the topic"),
    "join": (lambda options: join(options, "classic"), GROUP, "Read on the group"),
    "join, KIP-848": (lambda options: join(options, "consumer"), GROUP, "Read on the group"),
    "commit": (commit, GROUP, "Read on the group"),
    "create": (
        administer(lambda a: a.create_topics(NewTopic("new", 1))),
        "for topic new",
        "Create on the topic",
    ),
    "delete": (administer(lambda a: a.delete_topics([DESCRIBED])), TOPIC, "Delete on the topic"),
    "add partitions": (
        administer(lambda a: a.create_partitions({DESCRIBED: 3})),
        TOPIC,
        "Alter on the topic",
    ),
    "describe": (
        administer(lambda a: a.describe_topics(["for-alice"])),
        "for topic for-alice",
        "Describe on the topic",
    ),
    "offsets": (
        administer(lambda a: a.list_offsets({TopicPartition("for-alice", 0): OffsetSpec.LATEST})),
        "for topic for-alice",
        "Describe on the topic",
    ),
    "configs": (
        administer(lambda a: a.describe_configs([TOPIC_CONFIG])),
        DESCRIBED,
        "DescribeConfigs on the topic",
    ),
    "groups": (administer(lambda a: a.describe_consumer_groups(["closed"])), GROUP, "Describe on the group"),
    "delete groups": (
        administer(lambda a: a.delete_consumer_groups(["closed"])),
        GROUP,
        "Delete on the group",
    ),
}


@pytest.mark.parametrize(("action", "resource", "right"), ACTIONS.values(), ids=ACTIONS)
def test_a_refusal_names_the_resource_the_right_and_the_user(
    visitor: Visitor, action: Action, resource: str, right: str
) -> None:
    async def act() -> None:
        await action(visitor.password("SASL_PLAINTEXT", "PLAIN", "bob"))

    with pytest.raises(KafkaError) as caught:  # a refused commit is the reason of a `CommitFailedError`
        asyncio.run(act())
    visitor.hear(caught.value)
    assert resource in str(caught.value)
    assert "User 'bob' has no ACL for" in str(caught.value)
    assert right in str(caught.value)
