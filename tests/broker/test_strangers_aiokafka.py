"""aiokafka produces to, consumes from and administers the broker as it would Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pytest

from tests.broker.aiokafka_runs import aiokafka, run
from tests.broker.conftest import Stage

pytestmark = pytest.mark.uvloop

aiokafka_admin: Any = import_module("aiokafka.admin")
TopicPartition: Any = aiokafka.TopicPartition


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


def reader(servers: str, *topics: str, **options: Any) -> Any:
    return aiokafka.AIOKafkaConsumer(
        *topics,
        bootstrap_servers=servers,
        **{
            "group_id": "strangers",
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 100,
            "session_timeout_ms": 2000,
            "heartbeat_interval_ms": 200,
            "metadata_max_age_ms": 1000,
            **options,
        },
    )


async def produce(servers: str, topic: str, values: list[bytes], **options: Any) -> list[Any]:
    async with started(aiokafka.AIOKafkaProducer(bootstrap_servers=servers, **options)) as producer:
        sent = [
            await producer.send(topic, value, key=b"k", headers=[("h", b"1")], partition=0)
            for value in values
        ]
        return [await future for future in sent]


async def take(consumer: Any, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize(
    ("codec", "acks"),
    [(None, 0), (None, 1), *((codec, "all") for codec in ("gzip", "snappy", "lz4", "zstd"))],
)
def test_what_is_produced_is_consumed(servers: str, codec: str | None, acks: int | str) -> None:
    async def scenario() -> None:
        values = [b"%d" % number for number in range(100)]
        await produce(servers, "plain", values, acks=acks, compression_type=codec)
        async with started(reader(servers, "plain")) as consumer:
            records = await take(consumer, 100)
        assert [record.value for record in records] == values
        assert (records[3].key, records[3].headers, records[3].offset) == (b"k", (("h", b"1"),), 3)

    run(scenario())


def test_an_idempotent_producer_gets_consecutive_offsets(servers: str) -> None:
    async def scenario() -> None:
        reports = await produce(servers, "once", [b"x"] * 200, enable_idempotence=True)
        assert [report.offset for report in reports] == list(range(200))

    run(scenario())


def test_a_member_that_leaves_gives_its_partitions_to_the_other(broker: Stage, servers: str) -> None:
    broker.create_topic("shared", partitions=4)

    async def holds(consumer: Any, count: int) -> None:
        while len(consumer.assignment()) != count:
            await consumer.getmany(timeout_ms=20)

    async def scenario() -> None:
        async with started(reader(servers, "shared")) as first:
            await holds(first, 4)
            async with started(reader(servers, "shared")) as second:
                await asyncio.gather(holds(first, 2), holds(second, 2))
                assert not first.assignment() & second.assignment()
            await holds(first, 4)

    run(scenario())


def test_seeks_times_and_commits_are_answered(servers: str) -> None:
    part = TopicPartition("timed", 0)

    async def scenario() -> None:
        async with started(aiokafka.AIOKafkaProducer(bootstrap_servers=servers)) as producer:
            for number in range(10):
                await producer.send_and_wait("timed", b"%d" % number, timestamp_ms=1_700_000_000_000 + number)
        async with started(reader(servers, "timed", enable_auto_commit=False)) as consumer:
            await take(consumer, 10)
            assert await consumer.beginning_offsets([part]) == {part: 0}
            assert await consumer.end_offsets([part]) == {part: 10}
            found = await consumer.offsets_for_times({part: 1_700_000_000_006})
            assert (found[part].offset, found[part].timestamp) == (6, 1_700_000_000_006)
            consumer.seek(part, 8)
            assert (await consumer.getone()).value == b"8"
            await consumer.commit({part: (4, "note")})
            assert await consumer.committed(part) == 4
        async with started(reader(servers, "timed")) as again:
            assert (await again.getone()).value == b"4"

    run(scenario())


def test_the_admin_client_works_on_topics_and_groups(servers: str) -> None:
    async def scenario() -> None:
        admin = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            await admin.create_topics([aiokafka_admin.NewTopic("made", 2, 1)])
            assert await admin.list_topics() == ["made"]
            await admin.create_partitions({"made": aiokafka_admin.NewPartitions(3)})
            (described,) = await admin.describe_topics(["made"])
            assert len(described["partitions"]) == 3
            resource = aiokafka_admin.config_resource.ConfigResource
            kind = aiokafka_admin.config_resource.ConfigResourceType.TOPIC
            (configs,) = await admin.describe_configs([resource(kind, "made")])
            assert "retention.ms" in {entry[0] for entry in configs.resources[0][4]}

            await produce(servers, "made", [b"a"])
            async with started(reader(servers, "made")) as consumer:
                await take(consumer, 1)
                await consumer.commit()
                (group,) = await admin.describe_consumer_groups(["strangers"])
                assert group.groups[0][2] == "Stable"
            assert ("strangers", "consumer") in await admin.list_consumer_groups()
            offsets = await admin.list_consumer_group_offsets("strangers")
            assert offsets[TopicPartition("made", 0)].offset == 1
            await admin.delete_topics(["made"])
            assert "made" not in await admin.list_topics()
        finally:
            await admin.close()

    run(scenario())
