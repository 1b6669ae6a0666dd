"""Consumers of a group that unsubscribe, and what they may do next."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import CoordinatorNotAvailableError
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import World, live, offsets, part, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


class Listener:
    """Notes what it is told, and commits what goes."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []
        self.consumer: AsyncConsumer[Any, Any] | None = None

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", sorted(assigned)))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        if self.consumer is not None:
            await self.consumer.commit()
        self.told.append(("revoked", sorted(revoked)))


def member(world: World, protocol: str, listener: object, **options: Any) -> AsyncConsumer[Any, Any]:
    consumer = world.consumer(group_id="billing", group_protocol=protocol, **options)
    consumer.subscribe(["orders"], listener=listener)
    return consumer


@PROTOCOLS
def test_subscribing_to_the_same_again_goes_on_reading(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with member(world, protocol, None, enable_auto_commit=False) as consumer:
            await take(consumer, 100)
            await consumer.commit()
            consumer.unsubscribe()
            consumer.subscribe(["orders"])
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))

    live(story)


@PROTOCOLS
def test_partitions_assigned_by_hand_are_not_taken_for_the_groups(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with member(world, protocol, None, enable_auto_commit=False) as consumer:
            await take(consumer, 100)
            consumer.unsubscribe()
            consumer.assign([part()])
            await asyncio.sleep(30)
            assert consumer.assignment() == {part()}
            assert offsets((await take(consumer, 100))[part()]) == list(range(100))

    live(story)


@PROTOCOLS
def test_the_listener_is_told_of_what_goes_and_can_still_commit_it(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        listener = Listener()
        async with member(world, protocol, listener, enable_auto_commit=False) as consumer:
            listener.consumer = consumer
            await take(consumer, 100)
            consumer.unsubscribe()
            assert consumer.assignment() == frozenset()
            assert await consumer.getmany(timeout_ms=1000) == {}
            assert listener.told == [("assigned", [part()]), ("revoked", [part()])]
            committed = await consumer.committed(part())
            assert committed is not None
            assert committed.offset == 100
            await until(lambda: consumer.health().group.state == "out", 10)  # type: ignore[union-attr]

    live(story)


def test_a_blocking_consumer_has_told_its_listener_when_the_call_returns() -> None:
    told: list[str] = []

    class Blocking:
        def on_partitions_revoked(self, _: object) -> None:
            consumer.commit()
            told.append("revoked")

    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        running.broker.create_topic("orders", 1)
        fill(running, part())
        consumer = consumer_of(running, group_id="billing", enable_auto_commit=False)
        consumer.subscribe(["orders"], listener=Blocking())
        with consumer:
            assert consumer.poll(timeout_ms=PATIENCE_MS)
            consumer.unsubscribe()
            assert told == ["revoked"]
            committed = consumer.committed(part())
            assert committed is not None
            assert committed.offset == 500


def test_a_member_that_leaves_is_one_until_then_though_heartbeats_fail_meanwhile() -> None:
    """Its listener takes longer than a session, and commits at the end."""

    class Slow(Listener):
        async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            await asyncio.sleep(120)
            await super().on_partitions_revoked(revoked)

    async def story(world: World) -> None:
        world.fill(part())
        listener = Slow()
        consumer = listener.consumer = member(world, "consumer", listener, enable_auto_commit=False)
        async with consumer:
            await take(consumer, 100)
            consumer.unsubscribe()
            key = ApiKey.CONSUMER_GROUP_HEARTBEAT
            failing = world.broker.faults.answer_with(key, CoordinatorNotAvailableError, times=None)
            await asyncio.sleep(6)
            assert failing.met
            failing.remove()
            await until(lambda: listener.told[-1][0] == "revoked", 130)
            found = await consumer.committed(part())
            assert found is not None
            assert found.offset == 100

    live(story)
