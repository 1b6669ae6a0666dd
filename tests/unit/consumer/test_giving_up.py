"""When partitions are given up at a rebalance: once the application has done with their records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    UnknownMemberIdError,
)
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import World, live, part, parts, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill
from tests.unit.consumer.test_commits_of_consumers import GROUP, committed

KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "kip848": {"group_protocol": "consumer"},
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)
Member = AsyncConsumer[Any, Any]


class Told:
    """A listener that notes what went, and when."""

    def __init__(self) -> None:
        self.gone: list[tuple[str, float]] = []

    def on_partitions_revoked(self, _: Collection[TopicPartition]) -> None:
        self.gone.append(("revoked", asyncio.get_running_loop().time()))

    def on_partitions_lost(self, _: Collection[TopicPartition]) -> None:
        self.gone.append(("lost", asyncio.get_running_loop().time()))


class Pair:
    """A member with all partitions, and one that is to get half of them."""

    def __init__(self, world: World, kind: str, options: dict[str, Any]) -> None:
        self.world = world
        self.listener = Told()
        chosen = {"group_id": GROUP, "heartbeat_interval_ms": 1_000, **KINDS[kind], **options}
        self.first: Member = world.consumer(**chosen)
        self.first.subscribe(["orders"], listener=self.listener)
        self.second: Member = world.consumer("orders", **chosen)
        self.got: set[TopicPartition] = set()

    async def run(self, story: Callable[[Pair], Awaitable[None]]) -> None:
        self.world.fill_all(2)
        async with self.first:
            await until(lambda: len(self.first.assignment()) == 2, 10)
            await asyncio.sleep(1)
            assert set(await self.first.getmany()) == set(parts(2))
            async with self.second:
                reading = asyncio.create_task(self._read())
                try:
                    await story(self)
                finally:
                    reading.cancel()
                    await asyncio.wait([reading])

    async def _read(self) -> None:
        while True:
            self.got |= set(await self.second.getmany(timeout_ms=60_000))

    def shared(self) -> bool:
        return {len(each.assignment()) for each in (self.first, self.second)} == {1}


def in_pairs(kind: str, story: Callable[[Pair], Awaitable[None]], **options: Any) -> None:
    """Run a story about the first member, which has 100 records of each partition in hand."""

    async def main(world: World) -> None:
        await Pair(world, kind, options).run(story)

    live(main, config={"group.initial.rebalance.delay.ms": "0"})


def now() -> float:
    return asyncio.get_running_loop().time()


@of_every_kind
@pytest.mark.parametrize("auto", [True, False], ids=["auto commit", "manual commits"])
def test_partitions_stay_until_the_application_asks_for_more(kind: str, auto: bool) -> None:
    async def story(pair: Pair) -> None:
        await asyncio.sleep(100)
        assert pair.first.assignment() == set(parts(2))
        assert not pair.second.assignment()
        assert pair.listener.gone == []
        if not auto:
            await pair.first.commit()
        back = now()
        reading = asyncio.create_task(pair.first.getmany(timeout_ms=60_000))
        await until(pair.shared, 10)
        assert [what for what, at in pair.listener.gone if at >= back] == ["revoked"]
        gone = next(iter(pair.second.assignment()))
        assert await committed(pair.world, gone.partition) == 100
        await asyncio.sleep(10)
        assert not pair.got  # all was done
        reading.cancel()

    in_pairs(kind, story, enable_auto_commit=auto)


@of_every_kind
def test_nothing_new_is_handed_out_of_what_goes(kind: str) -> None:
    async def story(pair: Pair) -> None:
        await asyncio.sleep(30)
        for each in parts(2):
            pair.world.fill(each)
        got = set(await pair.first.getmany(timeout_ms=5_000))
        await until(lambda: bool(pair.got), 10)
        assert got.isdisjoint(pair.got)

    in_pairs(kind, story)


@of_every_kind
@pytest.mark.parametrize("how", ["after a call", "waiting in a call", "paused"])
def test_with_nothing_in_hand_partitions_go_at_once(kind: str, how: str) -> None:
    async def main(world: World) -> None:
        pair = Pair(world, kind, {})
        world.fill_all(2)
        async with pair.first:
            await take(pair.first, 200)
            if how == "paused":
                pair.first.pause(*parts(2))
            assert await pair.first.getmany() == {}
            waiting = asyncio.create_task(pair.first.getmany(timeout_ms=120_000)) if "wait" in how else None
            async with pair.second:
                await until(pair.shared, 10)
            if waiting is not None:
                waiting.cancel()

    live(main, config={"group.initial.rebalance.delay.ms": "0"})


@of_every_kind
def test_partitions_go_before_the_group_would_throw_the_member_out(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(pair: Pair) -> None:
        member = pair.first.group_metadata().member_id
        await until(pair.shared, 30)
        assert [what for what, _ in pair.listener.gone] == ["revoked"]
        assert pair.first.group_metadata().member_id == member
        with pytest.raises(CommitFailedError) as caught:
            await pair.first.commit()
        assert set(caught.value.errors) >= pair.second.assignment()
        await until(lambda: pair.got == pair.second.assignment(), 10)  # it is read again

    with caplog.at_level(logging.WARNING, "kclient.consumer.group.holdings"):
        in_pairs(kind, story, rebalance_timeout_ms=20_000, enable_auto_commit=False)
    assert "did not ask for more in time" in caplog.text


def test_they_go_in_time_though_the_member_was_not_heard_for_a_while() -> None:
    """The group has counted since before it could tell the member."""

    async def main(world: World) -> None:
        pair = Pair(world, "eager", {"rebalance_timeout_ms": 60_000, "enable_auto_commit": False})
        world.fill_all(2)
        async with pair.first:
            await take(pair.first, 200)
            refused = world.broker.faults.answer_with(
                ApiKey.HEARTBEAT, GroupAuthorizationFailedError, times=None
            )
            began = now()
            async with pair.second:
                await asyncio.sleep(12)
                refused.remove()
                await until(lambda: bool(pair.listener.gone), 100)
                assert [what for what, _ in pair.listener.gone] == ["revoked"]
                assert pair.listener.gone[0][1] - began < 60

    live(main, config={"group.initial.rebalance.delay.ms": "0"})


def test_a_refusal_that_passes_while_the_application_works_is_over() -> None:
    async def story(pair: Pair) -> None:
        def refusal() -> str | None:
            return pair.first.health().group.refused  # type: ignore[union-attr]

        await asyncio.sleep(10)
        refused = pair.world.broker.faults.answer_with(
            ApiKey.HEARTBEAT, GroupAuthorizationFailedError, times=None
        )
        await until(lambda: refusal() is not None, 10)
        refused.remove()
        await until(lambda: refusal() is None, 10)
        assert pair.listener.gone == []

    in_pairs("eager", story)


@pytest.mark.parametrize("takes", [0, 20])
@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_they_go_in_time_though_a_listener_was_still_told_what_had_come(kind: str, takes: int) -> None:
    async def main(world: World) -> None:
        class Slow(Told):
            told = 0

            async def on_partitions_assigned(self, _: Collection[TopicPartition]) -> None:
                self.told += 1
                await asyncio.sleep(takes if self.told == 1 else 0)

        world.fill_all(2)
        listener = Slow()
        options = {"group_id": GROUP, "heartbeat_interval_ms": 1_000, "rebalance_timeout_ms": 30_000}
        chosen = options | {"enable_auto_commit": False} | KINDS[kind]
        async with world.consumer(**chosen) as first:
            first.subscribe(["orders"], listener=listener)
            await until(lambda: listener.told == 1, 10)
            async with world.consumer("orders", **chosen):
                await take(first, 200)
                await until(lambda: bool(listener.gone), 60)
                assert [what for what, _ in listener.gone] == ["revoked"]

    live(main, config={"group.initial.rebalance.delay.ms": "0"})


@of_every_kind
def test_who_wants_it_gives_up_at_once(kind: str) -> None:
    async def story(pair: Pair) -> None:
        await until(pair.shared, 10)
        assert [what for what, _ in pair.listener.gone] == ["revoked"]

    in_pairs(kind, story, revoke_at_once=True)


@of_every_kind
@pytest.mark.parametrize("way", ["close", "unsubscribe", "exception"])
def test_an_application_that_ends_is_not_waited_for(kind: str, way: str) -> None:
    async def story(pair: Pair) -> None:
        await asyncio.sleep(30)
        began = now()
        if way == "unsubscribe":
            pair.first.unsubscribe()
        elif way == "close":
            await pair.first.close()
        else:
            await pair.first.__aexit__(RuntimeError, RuntimeError(), None)
        assert now() - began < 1
        await until(lambda: pair.second.assignment() == set(parts(2)), 10)
        # After an exception nobody knows what was done.
        await asyncio.sleep(10)
        assert pair.got == (set(parts(2)) if way == "exception" else set())

    in_pairs(kind, story)


@of_every_kind
def test_a_member_that_closes_while_it_cannot_commit_tells_its_listener_and_leaves(kind: str) -> None:
    async def story(pair: Pair) -> None:
        world = pair.world
        stuck = world.broker.faults.answer_with(
            ApiKey.OFFSET_COMMIT, CoordinatorNotAvailableError, times=None
        )
        await asyncio.sleep(5)
        assert await pair.first.getmany() == {}  # so they are to go
        await asyncio.sleep(1)
        assert pair.listener.gone == []
        began = now()
        await pair.first.close(timeout_ms=5_000)
        assert now() - began < 5
        assert {what for what, _ in pair.listener.gone} == {"revoked"}
        await until(lambda: pair.second.assignment() == set(parts(2)), 5)
        stuck.remove()

    in_pairs(kind, story)


@of_every_kind
def test_a_member_that_loses_its_place_meanwhile_is_told_so_at_once(kind: str) -> None:
    async def story(pair: Pair) -> None:
        await asyncio.sleep(30)
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT if kind == "kip848" else ApiKey.HEARTBEAT
        pair.world.broker.faults.answer_with(key, UnknownMemberIdError, times=6)  # both
        await until(lambda: bool(pair.listener.gone), 10)
        assert pair.listener.gone[0][0] == "lost"
        await until(pair.shared, 120)

    in_pairs(kind, story)


@of_every_kind
def test_an_application_that_takes_longer_than_it_may_leaves_meanwhile(kind: str) -> None:
    async def story(pair: Pair) -> None:
        await until(lambda: pair.second.assignment() == set(parts(2)), 60)
        assert [what for what, _ in pair.listener.gone] == ["lost"]
        reading = asyncio.create_task(pair.first.getmany(timeout_ms=60_000))
        await until(pair.shared, 30)
        reading.cancel()

    in_pairs(kind, story, max_poll_interval_ms=30_000, rebalance_timeout_ms=300_000)


@of_every_kind
def test_a_second_rebalance_does_not_end_the_wait(kind: str) -> None:
    async def story(pair: Pair) -> None:
        await asyncio.sleep(20)
        third = pair.world.consumer("orders", group_id=GROUP, **KINDS[kind])
        async with third:
            await asyncio.sleep(20)
            assert pair.listener.gone == []
        await asyncio.sleep(20)
        assert pair.listener.gone == []
        reading = asyncio.create_task(pair.first.getmany(timeout_ms=60_000))
        await until(pair.shared, 60)
        await asyncio.sleep(10)
        assert not pair.got
        reading.cancel()

    in_pairs(kind, story)


@of_every_kind
def test_commits_work_while_the_group_waits(kind: str) -> None:
    async def story(pair: Pair) -> None:
        for place in range(10, 100, 10):
            await asyncio.sleep(5)
            await pair.first.commit({part(0): place, part(1): place})
        assert await committed(pair.world, 0) == 90

    in_pairs(kind, story, enable_auto_commit=False)


def between_join_and_assignment(story: Callable[[Pair], Awaitable[None]], **options: Any) -> None:
    """The one that assigns has all in hand, and has not heard yet that a generation has begun."""

    async def main(world: World) -> None:
        pair = Pair(world, "cooperative", options)
        world.fill_all(2)
        async with pair.first, AsyncExitStack() as stack:
            await until(lambda: len(pair.first.assignment()) == 2, 10)
            await asyncio.sleep(1)
            assert set(await pair.first.getmany()) == set(parts(2))
            world.broker.faults.delay(ApiKey.JOIN_GROUP, 2, times=None)
            await stack.enter_async_context(pair.second)
            await until(lambda: world.broker.groups.groups[GROUP].state_name == "CompletingRebalance", 30)
            await story(pair)

    live(main, config={"group.initial.rebalance.delay.ms": "0"})


def test_a_commit_that_meets_the_end_of_a_generation_is_done_in_the_next_one() -> None:
    async def story(pair: Pair) -> None:
        await pair.first.commit()
        assert await committed(pair.world, 0) == await committed(pair.world, 1) == 100

    between_join_and_assignment(story, enable_auto_commit=False)


def test_a_member_that_closes_before_it_has_assigned_commits_after_that() -> None:
    async def story(pair: Pair) -> None:
        await pair.first.close(timeout_ms=20_000)
        assert await committed(pair.world, 0) == await committed(pair.world, 1) == 100

    between_join_and_assignment(story)


def test_a_blocking_application_is_waited_for_and_heard_of_at_once() -> None:
    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        running.broker.create_topic("orders", 2)
        for each in parts(2):
            fill(running, each)
        options = {"group_id": GROUP, "heartbeat_interval_ms": 20, "max_poll_records": None}
        with consumer_of(running, **options) as first, consumer_of(running, **options) as second:
            first.subscribe(["orders"])
            seen = 0
            while seen < 2000:
                seen += sum(map(len, first.poll(timeout_ms=PATIENCE_MS).values()))
            waits = first._engine.subscription
            second.subscribe(["orders"])
            asyncio.run(until(lambda: waits.awaited, 30))
            assert first.assignment() == set(parts(2))
            # The group is told of calls now and then only; of this one it has to be told.
            first._engine._polled = first._engine.loop.time() + 3_600  # type: ignore[union-attr]
            assert not first.poll()
            asyncio.run(until(lambda: len(first.assignment()) == 1, 30))
            place = first.committed(part(0))
            assert place is not None
            assert place.offset == 1000
