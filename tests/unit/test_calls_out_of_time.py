"""`asyncio.timeout` around every call that waits; then the client is used again: nothing is lost or leaks.

Tasks, timers and connections that a call leaves behind fail the simulated run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.admin import AsyncAdmin, NewTopic, OffsetSpec
from kclient.consumer import AsyncConsumer
from kclient.producer import AsyncProducer
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts

MILLISECONDS = (0, 1, 2, 3, 5, 8, 12, 20, 50)
PROTOCOLS: dict[str, dict[str, Any]] = {"classic": {}, "consumer": {"group_protocol": "consumer"}}
IN_GROUPS = pytest.mark.parametrize("protocol", PROTOCOLS)


def slow(world: World) -> None:
    """Every answer takes some milliseconds, so that calls are given up at every stage."""
    world.broker.faults.delay(None, 0.004, times=None)


async def hurried(milliseconds: int, call: Awaitable[object]) -> bool:
    """Whether it ended in time."""
    try:
        async with asyncio.timeout(milliseconds / 1000):
            await call
    except TimeoutError:
        return False
    return True


Consuming = Callable[[AsyncConsumer[Any, Any]], Awaitable[object]]
CONSUMER_CALLS: dict[str, Consuming] = {
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(part()),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(),
    "seek_to_end": lambda consumer: consumer.seek_to_end(),
    "seek_to_timestamp": lambda consumer: consumer.seek_to_timestamp(0),
    "seek_to_committed": lambda consumer: consumer.seek_to_committed(),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets(parts(2)),
    "end_offsets": lambda consumer: consumer.end_offsets(parts(2)),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({part(): 0}),
    "topics": lambda consumer: consumer.topics(),
}


@pytest.mark.parametrize("name", CONSUMER_CALLS)
def test_a_consumer_goes_on_after_a_call_that_ran_out_of_time(name: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        slow(world)
        late = 0
        async with world.consumer(Topic, group_id="g") as consumer:
            while consumer.assignment() != set(parts(2)):
                await consumer.getmany(timeout_ms=100)
            for milliseconds in MILLISECONDS:
                late += not await hurried(milliseconds, CONSUMER_CALLS[name](consumer))
                await CONSUMER_CALLS[name](consumer)
                await consumer.seek_to_beginning()
                seen: dict[TopicPartition, list[int]] = {each: [] for each in parts(2)}
                while sum(map(len, seen.values())) < 20:
                    for each, records in (await consumer.getmany(timeout_ms=60_000)).items():
                        seen[each] += offsets(records)
                assert all(found == list(range(10)) for found in seen.values())
                await consumer.commit()
        assert late

    live(story)


@IN_GROUPS
@pytest.mark.parametrize("milliseconds", MILLISECONDS)
def test_a_consumer_whose_start_ran_out_of_time_starts_again(milliseconds: int, protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        slow(world)
        consumer = world.consumer(Topic, group_id="g", **PROTOCOLS[protocol])
        if not await hurried(milliseconds, consumer.start()):
            await consumer.start()
        assert await consumer.getmany(timeout_ms=60_000)
        await consumer.close()

    live(story)


@IN_GROUPS
@pytest.mark.parametrize("milliseconds", MILLISECONDS)
def test_a_close_that_ran_out_of_time_is_ended_by_the_next(milliseconds: int, protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        slow(world)
        clients: list[Any] = [
            world.consumer(Topic, group_id="g", **PROTOCOLS[protocol]),
            AsyncProducer(bootstrap_servers=world.broker.bootstrap_servers),
            AsyncAdmin(bootstrap_servers=world.broker.bootstrap_servers),
        ]
        for client in clients:
            await client.start()
            if isinstance(client, AsyncConsumer):
                await client.getmany(timeout_ms=60_000)
            await hurried(milliseconds, client.close())
            await client.close()
            assert client.closed

    live(story)


Asking = Callable[[AsyncAdmin], Awaitable[object]]
ADMIN_CALLS: dict[str, Asking] = {
    "start": lambda admin: admin.start(),
    "list_topics": lambda admin: admin.list_topics(),
    "describe_topics": lambda admin: admin.describe_topics(Topic),
    "create_topics": lambda admin: admin.create_topics(NewTopic("new"), raise_errors=False),
    "delete_topics": lambda admin: admin.delete_topics("other", raise_errors=False),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "list_groups": lambda admin: admin.list_groups(),
    "list_offsets": lambda admin: admin.list_offsets({part(): OffsetSpec.LATEST}),
}


@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_an_admin_client_goes_on_after_a_call_that_ran_out_of_time(name: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2, records=10)
        slow(world)
        late = 0
        for milliseconds in MILLISECONDS:
            async with AsyncAdmin(bootstrap_servers=world.broker.bootstrap_servers) as admin:
                late += not await hurried(milliseconds, ADMIN_CALLS[name](admin))
                await ADMIN_CALLS[name](admin)
                assert Topic in await admin.list_topics()
        assert late
        assert ApiKey.METADATA.name in world.requests

    live(story)
