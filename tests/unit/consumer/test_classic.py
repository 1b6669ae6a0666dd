"""Classic groups: joining, sharing and leaving, on the embedded broker in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kclient.consumer.group.assignors.base import Assignment, Assignor, Layout
from kclient.consumer.group.assignors.base import Member as Said
from kclient.consumer.group.classic_states import TRANSITIONS, Event, State
from kclient.consumer.group.membership import chosen_assignors
from kclient.errors import (
    ConfigurationError,
    FencedInstanceIdError,
)
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from tests.support.positions import FakePositions
from tests.unit.consumer.members import GROUP, Crowd, Member, in_a_crowd

EAGER: dict[str, Any] = {"partition_assignment_strategy": ["range"]}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": ["cooperative-sticky"]}
BOTH = pytest.mark.parametrize("options", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])


def orders(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("orders", number) for number in numbers]


@BOTH
def test_members_share_a_topic_and_take_over_from_those_that_leave(options: dict[str, Any]) -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", **options)
        await crowd.settled(first)
        second = await crowd.member("orders", **options)
        await crowd.settled(first, second)
        await second.close()
        await crowd.settled(first, within=10)  # far less than the session timeout
        assert second.owned == frozenset()

    in_a_crowd(story)


def test_eager_members_give_up_everything_before_they_join() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", **EAGER)
        await crowd.settled(first)
        second = await crowd.member("orders", **EAGER)
        await crowd.settled(first, second)
        assert first.told == [
            ("assigned", orders(0, 1, 2, 3, 4, 5)),
            ("revoked", orders(0, 1, 2, 3, 4, 5)),
            ("assigned", sorted(first.owned)),
        ]

    in_a_crowd(story)


def test_cooperative_members_give_up_only_what_moves() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", **COOPERATIVE)
        await crowd.settled(first)
        second = await crowd.member("orders", **COOPERATIVE)
        await crowd.settled(first, second)
        assert ("revoked", sorted(second.owned)) in first.told
        assert first.told[0] == ("assigned", orders(0, 1, 2, 3, 4, 5))
        kept = {step for step, partitions in first.positions.steps if partitions & first.owned}
        assert kept == {"assign", "fence", "release"}  # what stayed was never taken away

    in_a_crowd(story)


def test_partitions_are_fenced_while_the_listener_runs() -> None:
    seen: list[tuple[str, bool]] = []

    class Listener:
        def __init__(self, positions: FakePositions) -> None:
            self.positions = positions

        async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            await asyncio.sleep(1)
            seen.append(("assigned", partitions == self.positions.fenced == self.positions.reading))

        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await asyncio.sleep(1)
            seen.append(("revoked", partitions == self.positions.fenced == self.positions.reading))

    async def story(crowd: Crowd) -> None:
        member = await crowd.member()
        member.membership.listen(Listener(member.positions))
        member.subscribe("orders")
        await crowd.settled(member)
        assert not member.positions.fenced
        await member.close()
        assert not member.positions.reading

    in_a_crowd(story)
    assert seen == [("assigned", True), ("revoked", True)]


def test_heartbeats_go_on_while_a_listener_takes_its_time() -> None:
    """Four session timeouts in a listener, and the member is still in."""

    async def story(crowd: Crowd) -> None:
        member = await crowd.member(session_timeout_ms=6_000, heartbeat_interval_ms=1_000)

        class Slow:
            async def on_partitions_assigned(self, _: object) -> None:
                await asyncio.sleep(25)

        member.membership.listen(Slow())
        member.subscribe("orders")
        await until(lambda: member.state == "stable", 60)
        assert member.membership.metadata().generation_id == 1
        assert crowd.broker.groups.groups[GROUP].state_name == "Stable"

    in_a_crowd(story)


def test_a_listener_that_fails_is_shown_once_and_stops_nothing() -> None:
    class Broken:
        def on_partitions_assigned(self, _: object) -> None:
            raise RuntimeError("no disk left")

    async def story(crowd: Crowd) -> None:
        member = await crowd.member()
        member.membership.listen(Broken())
        member.subscribe("orders")
        await crowd.settled(member)
        error = member.membership.take_error()
        assert error is not None
        assert "no disk left" in str(error)
        assert isinstance(error.__cause__, RuntimeError)
        assert member.positions.woken
        assert member.membership.take_error() is None

    in_a_crowd(story)


def test_a_new_subscription_is_a_new_assignment() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", **COOPERATIVE)
        await crowd.settled(member)
        member.subscribe("payments")
        await crowd.settled(member, topic="payments", partitions=2)
        assert ("revoked", orders(0, 1, 2, 3, 4, 5)) in member.told

    in_a_crowd(story, orders=6, payments=2)


def test_unsubscribing_leaves_the_group_and_subscribing_comes_back() -> None:
    async def story(crowd: Crowd) -> None:
        first, second = [await crowd.member("orders") for _ in range(2)]
        await crowd.settled(first, second)
        second.positions.topics = None
        second.membership.subscription_changed()
        await crowd.settled(first, within=10)
        assert second.state == "out"
        assert second.membership.metadata().member_id == ""
        second.subscribe("orders")
        await crowd.settled(first, second)

    in_a_crowd(story)


def test_more_partitions_are_shared_out() -> None:
    async def story(crowd: Crowd) -> None:
        members = [await crowd.member("orders", metadata_max_age_ms=10_000) for _ in range(2)]
        await crowd.settled(*members)
        topic = crowd.broker.topics.by_name["orders"]
        crowd.broker.topics.grow(topic, crowd.broker.place(4, 1))
        await crowd.settled(*members, partitions=10)

    in_a_crowd(story)


def test_a_topic_of_others_that_grows_is_noticed_by_the_leader() -> None:
    async def story(crowd: Crowd) -> None:
        leader = await crowd.member("payments", metadata_max_age_ms=10_000)
        await crowd.settled(leader, topic="payments", partitions=2)
        other = await crowd.member("orders")
        await crowd.settled(other)
        topic = crowd.broker.topics.by_name["orders"]
        crowd.broker.topics.grow(topic, crowd.broker.place(4, 1))
        await crowd.settled(other, partitions=10)

    in_a_crowd(story, orders=6, payments=2)


def test_a_topic_that_is_created_late_is_found_soon() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", "late")
        await crowd.settled(member)
        crowd.broker.create_topic("late", 1)
        await until(lambda: TopicPartition("late", 0) in member.owned, 15)

    in_a_crowd(story)


def test_a_deleted_topic_is_given_up() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", "payments", metadata_max_age_ms=10_000)
        await until(lambda: len(member.owned) == 8)
        crowd.broker.topics.delete(crowd.broker.topics.by_name["payments"])
        await crowd.settled(member)

    in_a_crowd(story, orders=6, payments=2)


def test_an_application_that_does_not_ask_for_records_is_taken_out_until_it_does() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", max_poll_interval_ms=30_000)
        second = await crowd.member("orders")
        await crowd.settled(first, second)
        first.positions.waits = False
        first.membership.polled()
        await asyncio.sleep(25)
        assert first.state == "stable"
        await crowd.settled(second, within=10)
        assert first.state == "out"
        assert [what for what, _ in first.told][-1] == "lost"
        await asyncio.sleep(600)
        assert first.state == "out"
        first.membership.polled()
        first.positions.waits = True
        await crowd.settled(first, second)

    in_a_crowd(story)


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", group_instance_id="a")
        second = await crowd.member("orders", group_instance_id="b")
        await crowd.settled(first, second)
        generation, owned = first.membership.metadata().generation_id, second.owned
        told = len(first.told)
        await second.close()
        again = await crowd.member("orders", group_instance_id="b")
        await crowd.settled(first, again)
        assert again.owned == owned
        assert first.membership.metadata().generation_id == generation
        assert len(first.told) == told

    in_a_crowd(story)


def test_a_second_process_with_the_same_instance_id_ends_the_first() -> None:
    async def story(crowd: Crowd) -> None:
        first = await crowd.member("orders", group_instance_id="a")
        await crowd.settled(first)
        second = await crowd.member("orders", group_instance_id="a")
        await until(lambda: first.state == "failed")
        assert isinstance(first.membership.take_error(), FencedInstanceIdError)
        assert isinstance(first.membership.take_error(), FencedInstanceIdError)
        assert first.owned == frozenset()
        await crowd.settled(second)

    in_a_crowd(story)


class Everything(Assignor):
    """Gives everything to the member that comes first."""

    name = "first"

    def assign(self, layout: Layout, members: Mapping[str, Said]) -> Assignment:
        every = [TopicPartition(topic, n) for topic, racks in layout.items() for n in range(len(racks))]
        return {min(members): every}


@pytest.mark.parametrize("given", [Everything, Everything()], ids=["class", "object"])
def test_an_assignor_of_ones_own(given: object) -> None:
    async def story(crowd: Crowd) -> None:
        members = [
            await crowd.member("orders", partition_assignment_strategy=[given, "range"]) for _ in range(2)
        ]
        await until(lambda: sorted(len(member.owned) for member in members) == [0, 6])
        await until(lambda: all(member.state == "stable" for member in members))

    in_a_crowd(story)


@pytest.mark.parametrize("strategy", [["nonsense"], [], ["range", "range"], [int], [3]])
def test_a_strategy_that_makes_no_sense_is_refused(strategy: list[object]) -> None:
    with pytest.raises(ConfigurationError, match="partition_assignment_strategy"):
        chosen_assignors(strategy)


def test_a_manual_consumer_needs_no_place_in_the_group() -> None:
    async def story(crowd: Crowd) -> None:
        member = await crowd.member()
        await asyncio.sleep(60)
        assert member.state == "out"
        assert GROUP not in crowd.broker.groups.groups

    in_a_crowd(story)


def test_every_state_but_the_last_has_a_way_on() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State) - {State.FAILED}
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_health_tells_where_a_member_stands() -> None:
    async def story(crowd: Crowd) -> None:
        member: Member = await crowd.member("orders")
        assert member.membership.health().state == "out"
        await crowd.settled(member)
        await asyncio.sleep(5)
        health = member.membership.health()
        assert (health.state, health.generation, health.coordinator) == ("stable", 1, 1)
        assert health.member_id
        assert health.last_heartbeat_age is not None
        assert health.last_heartbeat_age <= 3.1

    in_a_crowd(story)
