"""Commits of what was handed out before the member lost its place: they fail, in every form."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import CommitFailedError, IllegalGenerationError, KafkaError, UnknownMemberIdError
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import World, live, part, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill
from tests.unit.consumer.test_commits_of_consumers import GROUP, PROTOCOLS, committed

FORMS = pytest.mark.parametrize("form", ["all", "offsets", "nowait", "nowait offsets"])


async def commit(consumer: AsyncConsumer[Any, Any], form: str) -> None:
    """Commit the 100 records of partition 0; raises what went wrong."""
    given = {part(): 100} if form.endswith("offsets") else None
    if not form.startswith("nowait"):
        await consumer.commit(given)
        return
    told: list[KafkaError | None] = []
    consumer.commit_nowait(given, lambda _, error: told.append(error))
    await until(lambda: bool(told))
    if told[0] is not None:
        raise told[0]


def member(world: World, protocol: str, **options: Any) -> AsyncConsumer[Any, Any]:
    return world.consumer(
        "orders", group_id=GROUP, group_protocol=protocol, enable_auto_commit=False, **options
    )


class Counting:
    """Counts how often partitions came."""

    assigned = 0

    def on_partitions_assigned(self, _: object) -> None:
        self.assigned += 1


@PROTOCOLS
@FORMS
def test_a_member_that_asked_too_late_is_told_by_its_commit(protocol: str, form: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with member(world, protocol, max_poll_interval_ms=10_000) as consumer:
            await take(consumer, 100)
            await asyncio.sleep(60)
            with pytest.raises(CommitFailedError) as caught:
                await commit(consumer, form)
            assert set(caught.value.errors) == {part()}
            assert isinstance(caught.value.errors[part()], IllegalGenerationError)
            await take(consumer, 100)  # it is handed out again, and can be committed
            await commit(consumer, form)
        assert await committed(world, 0) == 100

    live(story)


@PROTOCOLS
@FORMS
def test_a_member_that_has_come_back_cannot_commit_what_it_got_before(protocol: str, form: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with member(world, protocol) as consumer:
            await take(consumer, 100)
            listener = Counting()
            consumer.subscribe(["orders"], listener=listener)
            key = ApiKey.HEARTBEAT if protocol == "classic" else ApiKey.CONSUMER_GROUP_HEARTBEAT
            world.broker.faults.answer_with(key, UnknownMemberIdError)
            await until(lambda: listener.assigned == 1, 60)
            assert await consumer.position(part()) == 0
            with pytest.raises(CommitFailedError):
                await commit(consumer, form)
            assert await committed(world, 0) is None
            await take(consumer, 100)
            await commit(consumer, form)
        assert await committed(world, 0) == 100

    live(story)


@PROTOCOLS
@pytest.mark.parametrize("form", ["all", "nowait"])
def test_a_commit_of_everything_fails_until_records_are_asked_for_again(protocol: str, form: str) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        async with member(world, protocol, max_poll_interval_ms=10_000) as consumer:
            await take(consumer, 100)
            await asyncio.sleep(60)
            for _ in range(3):  # who tries again must not take the work for recorded
                with pytest.raises(CommitFailedError):
                    await commit(consumer, form)
            await consumer.getmany(timeout_ms=0)
            await commit(consumer, form)
            consumer.unsubscribe()
        assert await committed(world, 0) is None

    live(story)


@PROTOCOLS
def test_a_commit_of_everything_fails_for_what_went_and_the_others_are_committed(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with member(world, protocol, max_poll_interval_ms=10_000) as consumer:
            await take(consumer, 200)
            await consumer.commit({part(1): 100})
            await asyncio.sleep(60)
            with pytest.raises(CommitFailedError) as caught:
                await consumer.commit()
            assert set(caught.value.errors) == {part(0)}  # of the other one nothing was left to commit
            await consumer.getmany(timeout_ms=0)
            await consumer.commit()
            consumer.unsubscribe()

    live(story)


@PROTOCOLS
@pytest.mark.parametrize("again", [100, 40], ids=["all", "a part"])
def test_what_is_done_again_after_a_loss_and_committed_is_nothing_to_be_told_of(
    protocol: str, again: int
) -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with member(world, protocol, heartbeat_interval_ms=1_000) as consumer:
            await take(consumer, 200)
            listener = Counting()
            consumer.subscribe(["orders"], listener=listener)
            key = ApiKey.HEARTBEAT if protocol == "classic" else ApiKey.CONSUMER_GROUP_HEARTBEAT
            world.broker.faults.answer_with(key, UnknownMemberIdError)
            await until(lambda: listener.assigned == 1, 60)
            for number in (0, 1):
                got = await consumer.getmany(part(number), timeout_ms=10_000, max_records=again)
                assert len(got[part(number)]) == again
            consumer.pause(part(0), part(1))
            await consumer.getmany()
            await consumer.commit({part(0): again, part(1): again})
            async with member(world, protocol, heartbeat_interval_ms=1_000) as other:
                reading = asyncio.create_task(consumer.getmany(timeout_ms=60_000))
                await until(lambda: len(consumer.assignment()) == len(other.assignment()) == 1, 60)
                reading.cancel()
                if again == 100:
                    await consumer.commit()
                else:  # of what it got before it lost its place, a part is not done again, and not committed
                    with pytest.raises(CommitFailedError):
                        await consumer.commit()

    live(story, config={"group.initial.rebalance.delay.ms": "0"})


def test_a_blocking_consumer_is_told_too() -> None:
    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        running.broker.create_topic("orders", 1)
        fill(running, part())
        options = {"group_id": GROUP, "enable_auto_commit": False, "heartbeat_interval_ms": 50}
        with consumer_of(running, "orders", **options) as consumer:
            assert consumer.poll(timeout_ms=PATIENCE_MS)
            before = consumer.group_metadata()
            running.broker.faults.answer_with(ApiKey.HEARTBEAT, UnknownMemberIdError)
            asyncio.run(until(lambda: consumer.group_metadata() != before, 30))
            with pytest.raises(CommitFailedError):
                consumer.commit()
