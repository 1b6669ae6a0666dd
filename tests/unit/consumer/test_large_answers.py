"""Answers above `receive_message_max_bytes`: said to the application, and no loss to other partitions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import ConfigurationError, FrameTooLargeError
from kclient.records import encode_batch
from kclient.testing import RunningBroker
from tests.unit.consumer.reading import Topic, World, live, part, parts
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of

SMALL: dict[str, Any] = {"receive_message_max_bytes": 200_000, "fetch_max_bytes": 100_000}


def put(world: World, partition: int, *values: bytes) -> None:
    state = world.broker.topics.partition(*part(partition))
    for value in values:
        state.log.append(encode_batch([(None, value, 0, ())]), leader_epoch=0)
    state.wake()


@pytest.mark.parametrize("most", [{}, {"fetch_max_bytes": 199_000}])
def test_options_with_which_brokers_may_send_too_much_are_refused(most: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"fetch_max_bytes=.* and receive_message_max_bytes=200000 contra"
    ):
        AsyncConsumer(receive_message_max_bytes=200_000, **most)
    AsyncConsumer(**SMALL)


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("read", ["getmany", "getone", "getarrow"])
def test_a_batch_that_is_too_large_is_told_with_the_option_and_a_seek_goes_on(
    partitions: int, read: str
) -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, partitions)
        for number in range(partitions):
            put(world, number, b"0")
        put(world, 0, bytes(300_000), b"2")
        async with world.reader(partitions, **SMALL) as consumer:
            for number in range(partitions):
                assert (await consumer.getone(part(number))).offset == 0
            options: dict[str, Any] = {} if read == "getone" else {"timeout_ms": 60_000}
            for _ in range(3):
                with pytest.raises(
                    FrameTooLargeError,
                    match=r"300\d\d\d bytes: raise receive_message_max_bytes=200000.*partition 0, offset 1",
                ):
                    await getattr(consumer, read)(part(), **options)
                assert await consumer.position(part()) == 1
            health = consumer.health()
            assert health.partitions[part()].state == "stuck"
            assert "receive_message_max_bytes" in (health.last_error or "")
            for number in range(1, partitions):
                put(world, number, b"1")
                assert (await consumer.getone(part(number))).offset == 1
            consumer.seek(part(), 2)
            assert (await consumer.getone()).value == b"2"

    live(story)


def test_several_such_partitions_are_found_while_others_are_read() -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 9)
        large = {2, 3, 7}
        for number in range(9):
            put(world, number, bytes(300_000) if number in large else b"0")
        async with world.reader(9, **SMALL) as consumer:
            seen: set[int] = set()
            told: set[int | None] = set()
            while len(seen) + len(told) < 9:
                try:
                    found = await consumer.getmany(timeout_ms=60_000)
                except FrameTooLargeError as error:
                    told.add(error.partition)
                    await asyncio.sleep(0.1)
                else:
                    seen |= {partition.partition for partition in found}
            assert (told, seen) == (large, set(range(9)) - large)
            requests = len(world.fetches)
            await asyncio.sleep(30)
            # From then on nothing is asked for in vain.
            assert len(world.fetches) < requests + 70

    live(story)


def test_a_blocking_consumer_is_told_too() -> None:
    with RunningBroker() as running:
        running.broker.create_topic(Topic, 2)

        async def append() -> None:
            for number, value in enumerate((b"small", bytes(300_000))):
                state = running.broker.topics.partition(*part(number))
                state.log.append(encode_batch([(None, value, 0, ())]), leader_epoch=0)

        running.call(append())
        with consumer_of(running, **SMALL) as consumer:
            consumer.assign(parts(2))
            assert consumer.poll(part(0), timeout_ms=PATIENCE_MS)
            with pytest.raises(FrameTooLargeError, match="receive_message_max_bytes"):
                consumer.poll(timeout_ms=PATIENCE_MS)
