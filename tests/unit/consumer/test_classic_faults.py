"""Classic groups: what goes wrong, and how a member gets over it, on the embedded broker in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.consumer.group.assignors.base import Assignment, Assignor, Layout
from kclient.consumer.group.assignors.base import Member as Said
from kclient.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    NotCoordinatorError,
    RebalanceInProgressError,
    SaslAuthenticationFailedError,
    UnknownMemberIdError,
)
from kclient.testing.simulation import until
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.classic_groups import SyncGroupRequest
from kclient.wire.messages.metadata import MetadataRequest
from tests.unit.consumer.members import GROUP, Crowd, in_a_crowd

EAGER: dict[str, Any] = {"partition_assignment_strategy": ["range"]}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": ["cooperative-sticky"]}
BOTH = pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])


@BOTH
def test_a_member_that_vanishes_is_replaced_after_its_session(options: dict[str, Any]) -> None:
    async def story(crowd: Crowd) -> None:
        members = [await crowd.member("orders", session_timeout_ms=10_000, **options) for _ in range(3)]
        await crowd.settled(*members)
        await members[0].vanish()
        await crowd.settled(*members[1:], within=15)

    in_a_crowd(story)


@pytest.mark.parametrize("error", [UnknownMemberIdError, IllegalGenerationError])
def test_a_member_that_is_told_it_is_not_one_loses_everything_and_joins_again(error: Any) -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", **COOPERATIVE)
        await crowd.settled(member)
        before = member.membership.metadata()
        crowd.broker.faults.answer_with(ApiKey.HEARTBEAT, error)
        await until(lambda: member.membership.metadata().generation_id > before.generation_id)
        await until(lambda: len(member.told) == 3, 90)
        assert [what for what, _ in member.told] == ["assigned", "lost", "assigned"]
        same_id = member.membership.metadata().member_id == before.member_id
        assert same_id == (error is IllegalGenerationError)

    in_a_crowd(story)


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
@pytest.mark.parametrize(
    "error", [NotCoordinatorError, CoordinatorLoadInProgressError, RebalanceInProgressError]
)
def test_passing_errors_pass(key: ApiKey, error: type[BrokerError]) -> None:
    async def story(crowd: Crowd) -> None:
        crowd.broker.faults.answer_with(key, error, times=3)
        member = await crowd.member("orders")
        await crowd.settled(member)
        await asyncio.sleep(30)
        await crowd.settled(member)
        assert member.membership.take_error() is None

    in_a_crowd(story)


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
@pytest.mark.parametrize("fault", ["drop", "ignore", "close", "close after"])
def test_answers_that_never_come_do_not_stop_a_member(key: ApiKey, fault: str) -> None:
    async def story(crowd: Crowd) -> None:
        faults = crowd.broker.faults
        if fault in ("drop", "ignore"):
            faults.drop(key, handled=fault == "drop")
        else:
            faults.close(key, handled=fault == "close after")
        members = [await crowd.member("orders", rebalance_timeout_ms=20_000, **COOPERATIVE) for _ in range(2)]
        await asyncio.sleep(60)
        await crowd.settled(*members, within=120)

    in_a_crowd(story)


def test_what_does_not_pass_is_shown_and_still_tried_again() -> None:
    async def story(crowd: Crowd) -> None:
        fault = crowd.broker.faults.answer_with(ApiKey.JOIN_GROUP, GroupAuthorizationFailedError, times=None)
        member = await crowd.member("orders")
        await until(lambda: member.positions.woken > 0)
        assert isinstance(member.membership.take_error(), GroupAuthorizationFailedError)
        fault.remove()
        await crowd.settled(member)

    in_a_crowd(story)


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
def test_credentials_that_are_refused_are_tried_again_slowly(key: ApiKey) -> None:
    """Also where only one step is refused: that the others are not does not mean that it has passed."""

    async def story(crowd: Crowd) -> None:
        fault = crowd.broker.faults.answer_with(key, SaslAuthenticationFailedError, times=None)
        member = await crowd.member("orders")
        await until(lambda: member.positions.woken > 0)
        await asyncio.sleep(60)
        assert 8 <= fault.met <= 20
        assert member.positions.woken <= 3
        assert isinstance(member.membership.take_error(), SaslAuthenticationFailedError)
        fault.remove()
        await crowd.settled(member, within=10)

    in_a_crowd(story)


def test_a_group_that_is_full_is_shown() -> None:
    async def story(crowd: Crowd) -> None:
        crowd.broker.faults.answer_with(ApiKey.JOIN_GROUP, GroupMaxSizeReachedError)
        member = await crowd.member("orders")
        await until(lambda: member.positions.woken > 0)
        assert isinstance(member.membership.take_error(), GroupMaxSizeReachedError)

    in_a_crowd(story)


def test_the_coordinator_moves() -> None:
    async def story(crowd: Crowd) -> None:
        members = [await crowd.member("orders", **COOPERATIVE) for _ in range(2)]
        await crowd.settled(*members)
        generation = members[0].membership.metadata().generation_id
        for node in (1, 2, 3, 1):
            crowd.broker.move_coordinator(GROUP, node)
            await asyncio.sleep(20)
            assert members[0].membership.health().coordinator == node
        assert members[0].membership.metadata().generation_id == generation
        assert [what for what, _ in members[0].told].count("lost") == 0

    in_a_crowd(story, nodes=3)


def test_the_coordinator_stops_while_a_member_joins() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders")
        await crowd.settled(first)
        crowd.broker.faults.drop(ApiKey.JOIN_GROUP, handled=False, times=None, node=1)
        crowd.broker.move_coordinator(GROUP, 1)
        second = await crowd.member("orders")
        await asyncio.sleep(20)
        assert second.state == "joining"
        crowd.broker.move_coordinator(GROUP, 2)  # node 1 keeps the connection and says nothing
        await crowd.settled(first, second, within=120)

    in_a_crowd(story, nodes=3)


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE, {"group_protocol": "consumer"}], ids=str)
@pytest.mark.parametrize("seconds", [5, 300])
def test_a_group_is_there_again_after_the_whole_cluster_was_down(
    options: dict[str, Any], seconds: float
) -> None:
    async def story(crowd: Crowd) -> None:
        members = [await crowd.member("orders", **options) for _ in range(2)]
        await crowd.settled(*members)
        for node in (1, 2, 3):
            await crowd.broker.stop_node(node)
        await asyncio.sleep(seconds)
        for node in (1, 2, 3):
            await crowd.start_node(node)
        await asyncio.sleep(10)
        await crowd.settled(*members, within=30)

    in_a_crowd(story, nodes=3)


def test_a_topic_that_does_not_exist_is_asked_for_now_and_then() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", "missing")
        await crowd.settled(member)
        asked = 0

        def count(_: RequestContext, request: Request[Any]) -> None:
            nonlocal asked
            asked += isinstance(request, MetadataRequest)

        crowd.broker.faults.hook = count
        await asyncio.sleep(300)
        assert 50 <= asked <= 110  # with every heartbeat, not with every back-off

    in_a_crowd(story)


def test_close_ends_in_time_when_the_cluster_is_gone() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders")
        await crowd.settled(member)
        await crowd.broker.stop_node(1)
        before = crowd.sim.loop.time()
        await member.close(5)
        assert crowd.sim.loop.time() - before <= 6
        await crowd.start_node(1)

    in_a_crowd(story)


def test_close_ends_in_time_though_a_listener_does_not() -> None:
    class Endless:
        async def on_partitions_revoked(self, _: object) -> None:
            await asyncio.sleep(3600)

    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders")
        await crowd.settled(member)
        member.membership.listen(Endless())
        before = crowd.sim.loop.time()
        await member.close(5)
        assert crowd.sim.loop.time() - before <= 6

    in_a_crowd(story)


def test_close_leaves_also_in_the_middle_of_a_join() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders")
        await crowd.settled(first)
        blocking = asyncio.Event()

        class Slow:
            async def on_partitions_revoked(self, _: object) -> None:
                await blocking.wait()

        first.membership.listen(Slow())
        second = await crowd.member("orders")
        await until(lambda: second.state == "joining")
        await asyncio.sleep(10)
        before = crowd.sim.loop.time()
        await second.close(5)
        assert crowd.sim.loop.time() - before < 1  # good-bye did not wait behind the join
        blocking.set()
        await crowd.settled(first, within=10)

    in_a_crowd(story)


@pytest.mark.parametrize("options", [COOPERATIVE, {"group_protocol": "consumer"}], ids=["classic", "modern"])
def test_good_bye_reaches_a_coordinator_that_has_moved(options: dict[str, Any]) -> None:
    """Else the others would wait until the session of a member that left in order is over."""

    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", **options)
        second = await crowd.member("orders", **options)
        await crowd.settled(first, second)
        before = crowd.broker.coordinator_of(GROUP)
        crowd.broker.move_coordinator(GROUP, before % 3 + 1)
        await second.close(5)
        await crowd.settled(first, within=10)

    settings = {"group.consumer.session.timeout.ms": "45000", "group.consumer.heartbeat.interval.ms": "3000"}
    in_a_crowd(story, nodes=3, settings=settings)


def test_joins_under_way_go_to_the_new_coordinator_at_once() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", **EAGER)
        await crowd.settled(first)
        blocking = asyncio.Event()

        class Slow:
            async def on_partitions_revoked(self, _: object) -> None:
                await blocking.wait()

        first.membership.listen(Slow())
        second = await crowd.member("orders", **EAGER)
        await until(lambda: second.state == "joining")
        await asyncio.sleep(5)
        after = crowd.broker.coordinator_of(GROUP) % 3 + 1
        crowd.broker.move_coordinator(GROUP, after)
        await until(lambda: second.membership.health().coordinator == after, 5)
        blocking.set()
        await crowd.settled(first, second, within=10)

    in_a_crowd(story, nodes=3)


def test_heartbeats_do_not_wait_behind_a_sync() -> None:
    """They would miss their deadline there, and take the connection and the sync with them."""

    async def story(crowd: Crowd) -> None:
        syncs = 0

        def count(_: RequestContext, request: Request[Any]) -> None:
            nonlocal syncs
            syncs += isinstance(request, SyncGroupRequest)

        crowd.broker.faults.hook = count
        crowd.broker.faults.delay(ApiKey.SYNC_GROUP, 20)
        member = await crowd.member("orders", session_timeout_ms=6_000, heartbeat_interval_ms=1_000)
        await crowd.settled(member)
        assert syncs == 1

    in_a_crowd(story)


def test_an_assignor_that_fails_is_shown() -> None:
    class Broken(Assignor):
        name = "broken"

        def assign(self, layout: Layout, members: Mapping[str, Said]) -> Assignment:
            raise RuntimeError(f"cannot share {len(layout)} topics among {len(members)}")

    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", partition_assignment_strategy=[Broken])
        await until(lambda: member.positions.woken > 0)
        assert "cannot share 1 topics among 1" in str(member.membership.take_error())

    in_a_crowd(story)
