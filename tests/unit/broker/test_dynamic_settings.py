"""Settings of brokers altered while they run: for one node or for all, over a restart, as Kafka has it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kclient import AsyncAdmin
from kclient.broker.broker import Broker
from kclient.errors import TopicDeletionDisabledError
from kclient.net.connection import Connection
from kclient.wire.messages.configs import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from kclient.wire.messages.metadata import MetadataRequest
from tests.broker.conversation import build
from tests.broker.records_script import produce, records
from tests.support.embedded import connected, simulated, within

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
INVALID_REQUEST, INVALID_CONFIG = 42, 40


async def alter(connection: Connection, kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    request = build(IncrementalAlterConfigsRequest, resources=[resource], validate_only=False)
    (answer,) = (await connection.call(request, within(5), version=1)).responses
    return answer.error_code, answer.error_message


async def describe(connection: Connection, kind: int, name: str, *keys: str) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    request = build(DescribeConfigsRequest, resources=[resource], include_synonyms=True)
    (answer,) = (await connection.call(request, within(5), version=4)).results
    return answer


async def values(connection: Connection, kind: int, name: str, *keys: str) -> Any:
    """Of every setting: its value, its source, and those behind it as Kafka lists them."""
    answer = await describe(connection, kind, name, *keys)
    assert answer.error_code == 0, answer.error_message
    return {
        one.name: (one.value, one.config_source, [(s.name, s.value, s.source) for s in one.synonyms])
        for one in answer.configs
    }


def test_a_nodes_value_goes_before_that_of_all_and_the_given_one() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t")
        assert await alter(connection, BROKER, "1", ("log.retention.ms", SET, "5000")) == (0, None)
        assert await alter(connection, BROKER, "", ("log.retention.ms", SET, "7000")) == (0, None)
        behind = [
            ("log.retention.ms", "5000", 2),
            ("log.retention.ms", "7000", 3),
            ("log.retention.ms", "9000", 4),
            ("log.retention.hours", "168", 5),
        ]
        found = await values(connection, BROKER, "1", "log.retention.ms")
        assert found["log.retention.ms"] == ("5000", 2, behind)
        assert (await values(connection, TOPIC, "t", "retention.ms"))["retention.ms"] == ("5000", 2, behind)
        assert broker.topics.partition("t", 0).log.config.retention_ms == 5000
        assert await values(connection, BROKER, "") == {
            "log.retention.ms": ("7000", 3, [("log.retention.ms", "7000", 3)])
        }
        await alter(connection, BROKER, "1", ("log.retention.ms", DELETE, None))
        assert broker.topics.partition("t", 0).log.config.retention_ms == 7000
        await alter(connection, BROKER, "", ("log.retention.ms", DELETE, None))
        assert broker.topics.partition("t", 0).log.config.retention_ms == 9000

    simulated(check, config={"log.retention.ms": "9000"})


def test_a_nodes_value_counts_for_the_partitions_that_it_leads() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        partition = broker.create_topic("t", 1, 3).partitions[0]
        broker.move_leader("t", 0, 1)
        await alter(connection, BROKER, "1", ("message.max.bytes", SET, "200"))
        assert partition.log.config.max_message_bytes == 200
        broker.move_leader("t", 0, 2)
        assert partition.log.config.max_message_bytes == 1048588
        async with connected(broker, 2) as second:
            answer = await second.call(produce("t", records(b"x" * 500)), within(5), version=12)
            assert answer.responses[0].partition_responses[0].error_code == 0

    simulated(check, nodes=3)


def test_what_was_altered_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t")
        assert (await alter(connection, BROKER, "", ("log.cleanup.policy", APPEND, "compact")))[0] == 0
        assert (await alter(connection, BROKER, "1", ("log.segment.bytes", SET, "2000000")))[0] == 0

    async def second(broker: Broker, connection: Connection) -> None:
        found = await values(connection, TOPIC, "t", "cleanup.policy", "segment.bytes")
        assert found["cleanup.policy"][:2] == ("delete,compact", 3)
        assert found["segment.bytes"][:2] == ("2000000", 2)
        assert broker.topics.partition("t", 0).log.config.compacted

    simulated(first, data=tmp_path)
    simulated(second, data=tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "text"),
    [
        (
            BROKER,
            "1",
            ("num.partitions", SET, "3"),
            INVALID_REQUEST,
            "Cannot update these configs dynamically",
        ),
        (BROKER, "1", ("log.retention.ms", SET, "x"), INVALID_REQUEST, "Invalid value x for configuration"),
        (BROKER, "1", ("log.retention.ms", APPEND, "1"), INVALID_CONFIG, "log.retention.ms"),
        (BROKER, "7", ("log.retention.ms", SET, "1"), INVALID_REQUEST, "expected 1, but received 7"),
        (BROKER, "a", ("log.retention.ms", SET, "1"), INVALID_REQUEST, "Node id must be an integer"),
        (BROKER, "", ("max.connections", SET, "3"), INVALID_CONFIG, "connections are not limited here"),
        (BROKER, "", ("my.own", SET, "3"), INVALID_CONFIG, "Kafka has no such setting"),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "46000"),
            INVALID_CONFIG,
            "settings of single groups",
        ),
        (LOGGER, "1", ("root", SET, "INFO"), INVALID_CONFIG, "Kafka's loggers"),
        (METRICS, "m", ("interval.ms", SET, "1"), INVALID_CONFIG, "client metrics"),
        (77, "m", ("interval.ms", SET, "1"), INVALID_REQUEST, "Unknown resource type 77"),
    ],
)
def test_what_cannot_be_altered_is_answered_with_why(
    kind: int, name: str, change: tuple[str, int, str], code: int, text: str
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        answered, message = await alter(connection, kind, name, change)
        assert answered == code
        assert text in message
        assert broker.settings.altered == {}

    simulated(check)


def test_resources_are_listed_and_those_without_settings_described_as_such() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t")
        answer = await connection.call(build(ListConfigResourcesRequest), within(5), version=1)
        listed = {(one.resource_type, one.resource_name) for one in answer.config_resources}
        assert listed == {(TOPIC, "t"), (BROKER, "1"), (BROKER, "2")}
        assert (await values(connection, LOGGER, "1"), await values(connection, METRICS, "m")) == ({}, {})
        found = await values(connection, GROUP, "g")
        assert found["consumer.session.timeout.ms"][:2] == ("45000", 5)
        assert (await describe(connection, GROUP, "")).error_code == INVALID_REQUEST

    simulated(check, nodes=2)


def test_a_broker_describes_all_its_settings_and_which_of_them_are_fixed() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        answer = await describe(connection, BROKER, "1")
        found = {one.name: one for one in answer.configs}
        assert len(found) > 200
        assert (found["num.partitions"].value, found["num.partitions"].read_only) == ("1", True)
        assert (found["log.retention.ms"].value, found["log.retention.ms"].read_only) == (None, False)
        assert found["broker.rack"].value == "east"
        assert found["listeners"].value == f"PLAINTEXT://{broker.bootstrap_servers}"
        assert found["advertised.listeners"].value == "PLAINTEXT://kafka.test:9999"

    simulated(check, config={"advertised.listeners": "PLAINTEXT://kafka.test:9999", "broker.rack": "east"})


def test_clients_are_told_the_advertised_address_of_every_node() -> None:
    async def check(_: Broker, connection: Connection) -> None:
        answer = await connection.call(MetadataRequest(topics=[]), within(5), version=12)
        told = [(node.host, node.port, node.rack) for node in answer.brokers]
        assert told == [("kafka.test", 9999, "east"), ("kafka.test", 10000, "east")]

    config = {"advertised.listeners": "PLAINTEXT://kafka.test:9999", "broker.rack": "east"}
    simulated(check, nodes=2, config=config)


def test_compaction_looks_every_fifteen_seconds_unless_told_otherwise() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        configs = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
        log = broker.create_topic("t", 1, configs=configs).partitions[0].log
        for _ in range(3):
            await connection.call(produce("t", records(b"v")), within(5), version=12)
            log.roll()
        size = log.size
        await asyncio.sleep(14)
        assert log.size == size
        await asyncio.sleep(2)
        assert log.size < size
        await alter(connection, BROKER, "", ("log.cleaner.backoff.ms", SET, "1000"))
        await asyncio.sleep(15)  # the pause that was begun
        for _ in range(2):
            await connection.call(produce("t", records(b"v")), within(5), version=12)
            log.roll()
        size = log.size
        await asyncio.sleep(1.1)
        assert log.size < size

    simulated(check)


def test_topics_stay_where_deleting_is_disabled() -> None:
    async def check(broker: Broker, _: Connection) -> None:
        broker.create_topic("t")
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            with pytest.raises(TopicDeletionDisabledError):
                await admin.delete_topics("t")
        assert "t" in broker.topics.by_name

    simulated(check, config={"delete.topic.enable": "false"})


def test_what_logs_cannot_have_is_refused_and_not_kept(tmp_path: Path) -> None:
    async def story() -> None:
        for node in ("1", ""):
            async with Broker(data=tmp_path) as broker, connected(broker) as connection:
                code, message = await alter(connection, BROKER, node, ("message.max.bytes", SET, "-1"))
                assert (code, "must be at least 0" in message) == (INVALID_CONFIG, True)
                broker.create_topic(f"t{node}")
                changed = await alter(connection, TOPIC, f"t{node}", ("retention.ms", SET, "99"))
                assert changed == (0, None)

    asyncio.run(story())
