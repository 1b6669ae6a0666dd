"""Members that wait in a join, or a sync, for the applications of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import ClientClosedError, KafkaError, SaslAuthenticationFailedError
from kclient.testing.simulation import until
from kclient.wire.api import ApiKey
from tests.unit.consumer.reading import World, live
from tests.unit.consumer.test_commits_of_consumers import GROUP
from tests.unit.consumer.test_hung_applications import SETTINGS, Told

OPTIONS: dict[str, Any] = {
    "group_id": GROUP,
    "partition_assignment_strategy": "cooperative-sticky",
    "enable_auto_commit": False,
}
Member = AsyncConsumer[Any, Any]


async def _reads(member: Member, raised: list[KafkaError]) -> None:
    while True:
        try:
            await member.getmany(timeout_ms=1_000)
        except ClientClosedError:
            return
        except KafkaError as error:
            raised.append(error)


@asynccontextmanager
async def joining(world: World, told: Told, raised: list[KafkaError]) -> AsyncIterator[Member]:
    """A member that holds two partitions, and joins: one that works on its records keeps it waiting."""
    world.fill_all(6)
    waiting, working, third, fourth = (world.consumer(**OPTIONS) for _ in range(4))
    waiting.subscribe(["orders"], listener=told)
    reading: list[asyncio.Task[None]] = []
    try:
        for member in (working, third, fourth):
            member.subscribe(["orders"])
        await working.start()
        await until(lambda: len(working.assignment()) == 6, 60)
        await waiting.start()
        reading.append(asyncio.create_task(_reads(waiting, raised)))
        while not len(working.assignment()) == len(waiting.assignment()) == 3:
            await working.getmany(timeout_ms=1_000)
        for each in working.assignment():
            world.fill(each)
        assert await working.getmany(timeout_ms=2_000)
        for member in (third, fourth):
            await member.start()
            reading.append(asyncio.create_task(_reads(member, raised)))
            await asyncio.sleep(10)
        assert state_of(waiting) == "joining"
        assert len(waiting.assignment()) == 2
        told.heard.clear()
        yield waiting
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
        for member in (waiting, working, third, fourth):
            await member.close()


async def breaks(member: Member) -> None:
    """The connection that its join is under way on breaks."""
    cluster, membership = member._engine.cluster, member._engine.membership
    assert cluster is not None
    assert membership is not None
    node = membership._coordinator.node_id
    assert node is not None
    (await cluster.connection(node, cluster.deadline(), "group")).close()


def state_of(member: Member) -> str | None:
    group = member.health().group
    return None if group is None else group.state


@pytest.mark.parametrize("again", [False, True])
def test_who_unsubscribes_while_it_joins_waits_for_nobody(again: bool) -> None:
    async def story(world: World) -> None:
        told = Told()
        async with joining(world, told, []) as member:
            world.requests.clear()
            held = member.assignment()
            member.unsubscribe()
            await until(lambda: state_of(member) == "out", 5)
            assert told.heard == [("revoked", held)]
            assert "LEAVE_GROUP" in world.requests
            if again:
                member.subscribe(["orders"])
                await until(lambda: state_of(member) == "joining", 5)

    live(story, config=SETTINGS)


def test_who_unsubscribes_while_the_leader_assigns_waits_for_nobody() -> None:
    async def story(world: World) -> None:
        world.fill_all(2)
        async with world.consumer("orders", **OPTIONS) as leader, world.consumer(**OPTIONS) as member:
            told = Told()
            member.subscribe(["orders"], listener=told)
            both = (leader, member)
            reading = [asyncio.create_task(_reads(each, [])) for each in both]
            await until(lambda: [len(each.assignment()) for each in both] == [1, 1], 60)
            world.broker.faults.delay(ApiKey.SYNC_GROUP, 20, times=None)
            async with world.consumer("orders", **OPTIONS):
                await until(lambda: state_of(member) == "syncing", 20)
                member.unsubscribe()
                await until(lambda: state_of(member) == "out", 5)
                assert [what for what, _ in told.heard][-1] == "revoked"
            for task in reading:
                task.cancel()

    live(story, config=SETTINGS)


def test_a_member_that_waited_in_a_join_keeps_what_it_has_through_a_refusal() -> None:
    async def story(world: World) -> None:
        told, raised = Told(), list[KafkaError]()
        async with joining(world, told, raised) as member:
            await asyncio.sleep(60)  # more than a session
            held = member.assignment()
            refused = world.broker.faults.answer_with(
                ApiKey.JOIN_GROUP, SaslAuthenticationFailedError, times=None
            )
            await breaks(member)
            await asyncio.sleep(2)
            refused.remove()
            await asyncio.sleep(10)
            assert [type(error) for error in raised] == [SaslAuthenticationFailedError]
            assert told.heard == []
            assert member.assignment() == held

    live(story, config=SETTINGS)


def test_a_member_that_is_refused_for_a_session_is_lost_however_often_it_asks() -> None:
    async def story(world: World) -> None:
        told, raised = Told(), list[KafkaError]()
        async with joining(world, told, raised) as member:
            refused = world.broker.faults.answer_with(
                ApiKey.JOIN_GROUP, SaslAuthenticationFailedError, times=None
            )
            await breaks(member)
            await asyncio.sleep(30)
            assert told.heard == []
            await until(lambda: [what for what, _ in told.heard] == ["lost"], 30)
            refused.remove()

    live(story, config=SETTINGS)
