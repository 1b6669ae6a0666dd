"""What automatic commits owe for partitions that the application drops, and that it gets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.errors import NotCoordinatorError
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import World, live, offsets, part, parts, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill
from tests.unit.consumer.test_commits_of_consumers import GROUP, PROTOCOLS, committed

# Too long for the clock to have done it.
OPTIONS: dict[str, Any] = {"group_id": GROUP, "auto_commit_interval_ms": 3_600_000}


@PROTOCOLS
def test_a_partition_that_the_application_drops_is_committed(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(group_protocol=protocol, **OPTIONS) as consumer:
            consumer.assign([part(0)])
            await take(consumer, 60, max_records=60)
            await take(consumer, 30, max_records=30)
            consumer.assign([part(1)])
            await asyncio.sleep(1)
            assert await committed(world, 0) == 60  # of the last 30 nobody knows whether they are done
            await take(consumer, 100)
            consumer.unsubscribe()
            assert await consumer.getmany() == {}
        assert [await committed(world, number) for number in (0, 1)] == [90, 100]

    live(story)


def test_a_partition_that_is_taken_up_again_goes_on_behind_what_was_handed_out() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(**OPTIONS) as consumer:
            consumer.assign([part(0)])
            await take(consumer, 60, max_records=60)
            assert await consumer.getmany(part(1)) == {}
            consumer.assign([part(1)])
            consumer.assign([part(0)])
            assert offsets((await take(consumer, 40))[part(0)]) == list(range(60, 100))

    live(story)


def test_what_is_owed_is_committed_later_where_the_coordinator_was_away() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(**OPTIONS, default_api_timeout_ms=1_000) as consumer:
            consumer.assign([part(0)])
            await take(consumer, 100)
            fault = world.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, NotCoordinatorError, times=None)
            consumer.assign([part(1)])
            await asyncio.sleep(10)
            fault.remove()
            await take(consumer, 100)
        assert [await committed(world, number) for number in (0, 1)] == [100, 100]

    live(story)


@pytest.mark.parametrize("auto", [True, False], ids=["auto commit", "manual commits"])
def test_without_automatic_commits_nothing_is_owed(auto: bool) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer(enable_auto_commit=auto, **OPTIONS) as consumer:
            consumer.assign(parts(2))
            await take(consumer, 200)
            consumer.assign([part(1)])
        assert await committed(world, 0) == (100 if auto else None)

    live(story)


@PROTOCOLS
def test_a_group_that_is_left_gets_what_was_handed_out(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer("orders", group_protocol=protocol, **OPTIONS) as consumer:
            await take(consumer, 200)
            assert await consumer.getmany() == {}
            consumer.unsubscribe()
            consumer.assign([part(1)])  # before the group has given up what it had
            await until(lambda: consumer.health().group.state == "out", 10)  # type: ignore[union-attr]
            assert [await committed(world, number) for number in (0, 1)] == [100, 100]

    live(story)


@PROTOCOLS
@pytest.mark.parametrize("then", ["subscribe", "pattern", "the same"])
def test_what_was_dropped_before_a_subscription_is_committed_before_the_group_is_joined(
    protocol: str, then: str
) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        world.fill(part(0, "other"))
        async with world.consumer(group_protocol=protocol, **OPTIONS) as consumer:
            consumer.assign([part(0)])
            await take(consumer, 100)
            assert await consumer.getmany() == {}
            consumer.unsubscribe()
            if then == "pattern":
                consumer.subscribe(pattern="oth.*")
            else:
                consumer.subscribe(["other" if then == "subscribe" else "orders"])
            await take(consumer, 100)
            assert await committed(world, 0) == 100
            if then == "the same":
                assert await consumer.position(part(0)) == 100

    live(story)


@PROTOCOLS
def test_a_commit_that_cannot_be_made_keeps_nobody_out_of_the_group_for_ever(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        world.fill(part(0, "other"))
        async with world.consumer(group_protocol=protocol, **OPTIONS) as consumer:
            consumer.assign([part(0)])
            await take(consumer, 100)
            assert await consumer.getmany() == {}
            fault = world.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, NotCoordinatorError, times=None)
            consumer.unsubscribe()
            consumer.subscribe(["other"])
            await take(consumer, 100)
            fault.remove()

    live(story)


@pytest.mark.parametrize("by", ["assign", "unsubscribe", "subscribe", "subscribe at once"])
def test_a_blocking_consumer_commits_what_it_drops(by: str) -> None:
    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        running.broker.create_topic("orders", 2)
        fill(running, part(0))
        with consumer_of(running, **OPTIONS) as consumer:
            if by == "subscribe":
                consumer.subscribe(["orders"])
            else:
                consumer.assign([part(0)])
            records = consumer.poll(timeout_ms=PATIENCE_MS)[part(0)]
            if by == "assign":
                consumer.assign([part(1)])
            else:
                consumer.unsubscribe()
            if by == "subscribe at once":
                consumer.subscribe(["orders"])
                assert not consumer.poll(part(0))
        with consumer_of(running, group_id=GROUP) as consumer:
            found = consumer.committed(part(0))
            assert found is not None
            assert found.offset == len(records)
