"""Groups that the broker assigns (KIP-848): reconciling, fencing, leaving, on the embedded broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.consumer.group.modern_states import TRANSITIONS, Event, State
from kclient.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    InvalidRegularExpressionError,
    NotCoordinatorError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from kclient.wire.messages.metadata import MetadataRequest
from tests.support.positions import FakePositions
from tests.unit.consumer.members import GROUP, Crowd, Member, in_a_crowd

MODERN: dict[str, Any] = {"group_protocol": "consumer"}
BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
P0 = TopicPartition("orders", 0)


async def join(crowd: Crowd, *topics: str, **options: Any) -> Member:
    return await crowd.member(*topics or ("orders",), **MODERN | options)


def beats(crowd: Crowd) -> list[ConsumerGroupHeartbeatRequest]:
    """Every heartbeat from now on."""
    seen: list[ConsumerGroupHeartbeatRequest] = []

    def hook(_: RequestContext, request: Request[Any]) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            seen.append(request)

    crowd.broker.faults.hook = hook
    return seen


def test_members_share_a_topic_and_take_over_from_those_that_leave() -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd)
        await crowd.settled(first)
        second = await join(crowd)
        await crowd.settled(first, second)
        assert [what for what, _ in first.told] == ["assigned", "revoked"]
        await second.close()
        await crowd.settled(first, within=15)
        assert second.told[-1][0] == "revoked"

    in_a_crowd(story)


def test_partitions_are_given_up_before_good_bye_is_said() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        seen = beats(crowd)
        revoked_at: list[int] = []

        class Slow:
            async def on_partitions_revoked(self, _: object) -> None:
                await asyncio.sleep(20)
                revoked_at.append(sum(beat.member_epoch < 0 for beat in seen))

        member.membership.listen(Slow())
        await member.close()
        assert revoked_at == [0]
        assert [beat.member_epoch for beat in seen][-1] == -1
        assert len(seen) > 3  # it beat on while the listener ran
        await asyncio.sleep(60)
        assert [beat.member_epoch for beat in seen][-1] == -1

    in_a_crowd(story)


def test_only_what_changed_is_said() -> None:
    async def story(crowd: Crowd) -> None:
        seen = beats(crowd)
        member = await join(crowd)
        await crowd.settled(member)
        await asyncio.sleep(30)
        first, *others = seen
        assert first.member_epoch == 0
        assert first.topic_partitions == []
        assert first.rebalance_timeout_ms == 300_000
        assert [beat.subscribed_topic_names for beat in others] == [None] * len(others)
        acks = [beat.topic_partitions for beat in others if beat.topic_partitions is not None]
        assert [sorted(ack[0].partitions) for ack in acks] == [list(range(6))]

    in_a_crowd(story)


@pytest.mark.parametrize("error", [FencedMemberEpochError, UnknownMemberIdError])
def test_a_fenced_member_loses_everything_and_joins_again_under_its_id(error: type[BrokerError]) -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        before = member.membership.metadata().member_id
        seen = beats(crowd)
        crowd.broker.faults.answer_with(BEAT, error)
        await until(lambda: len(member.told) == 3, 60)
        assert [what for what, _ in member.told] == ["assigned", "lost", "assigned"]
        await crowd.settled(member)
        assert member.membership.metadata().member_id == before
        assert 0 in [beat.member_epoch for beat in seen]

    in_a_crowd(story)


def test_a_member_fenced_while_its_listener_runs_takes_over_nothing_more() -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd)
        await crowd.settled(first)

        class Slow:
            async def on_partitions_revoked(self, _: object) -> None:
                crowd.broker.faults.answer_with(BEAT, FencedMemberEpochError)
                await asyncio.sleep(30)

            on_partitions_lost = on_partitions_revoked

        first.membership.listen(Slow())
        second = await join(crowd)
        await asyncio.sleep(90)
        first.membership.listen(None)
        crowd.broker.faults.clear()
        await crowd.settled(first, second)

    in_a_crowd(story)


@pytest.mark.parametrize(
    "error", [NotCoordinatorError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError]
)
def test_passing_errors_pass(error: type[BrokerError]) -> None:
    async def story(crowd: Crowd) -> None:
        crowd.broker.faults.answer_with(BEAT, error, times=3)
        member = await join(crowd)
        await crowd.settled(member)
        crowd.broker.faults.answer_with(BEAT, error, times=3)
        await asyncio.sleep(30)
        await crowd.settled(member)
        assert [what for what, _ in member.told] == ["assigned"]
        assert member.membership.take_error() is None

    in_a_crowd(story)


@pytest.mark.parametrize("fault", ["drop", "ignore", "close", "close after"])
@pytest.mark.parametrize("skipped", range(4))
def test_an_answer_that_never_comes_does_not_stop_a_member(fault: str, skipped: int) -> None:
    async def story(crowd: Crowd) -> None:
        faults = crowd.broker.faults
        faults.delay(BEAT, 0, times=skipped)
        if fault in ("drop", "ignore"):
            faults.drop(BEAT, handled=fault == "drop")
        else:
            faults.close(BEAT, handled=fault == "close after")
        members = [await join(crowd, request_timeout_ms=5_000) for _ in range(2)]
        await asyncio.sleep(60)
        await crowd.settled(*members)
        assert "lost" not in [what for member in members for what, _ in member.told]

    in_a_crowd(story)


@pytest.mark.parametrize("skipped", range(6))
def test_an_assignment_whose_answer_was_lost_is_told_again(skipped: int) -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd, request_timeout_ms=5_000)
        await crowd.settled(first)
        crowd.broker.faults.delay(BEAT, 0, times=skipped)
        crowd.broker.faults.drop(BEAT, handled=True)
        second = await join(crowd, request_timeout_ms=5_000)
        await crowd.settled(first, second, within=60)
        assert "lost" not in [what for member in (first, second) for what, _ in member.told]

    in_a_crowd(story)


def test_a_member_that_was_fenced_while_it_gave_up_partitions_takes_over_none() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        told: list[str] = []

        class Slow:
            async def on_partitions_revoked(self, _: object) -> None:
                crowd.broker.faults.answer_with(BEAT, FencedMemberEpochError)
                await asyncio.sleep(10)
                told.append("revoked")

            def on_partitions_assigned(self, _: object) -> None:
                told.append("assigned")

            def on_partitions_lost(self, _: object) -> None:
                told.append("lost")

        member.membership.listen(Slow())
        member.subscribe("payments")
        await crowd.settled(member, topic="payments", partitions=2)
        assert told == ["revoked", "assigned"]

    in_a_crowd(story, orders=6, payments=2)


def test_no_heartbeat_follows_good_bye() -> None:
    """The coordinator takes its time to answer; a heartbeat behind good-bye would be a join."""

    async def story(crowd: Crowd) -> None:
        member = await join(crowd, heartbeat_interval_ms=1_000)
        await crowd.settled(member)

        async def slowly(_: RequestContext, request: Request[Any]) -> None:
            if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == -1:
                await asyncio.sleep(20)

        crowd.broker.faults.hook = slowly
        await member.close()
        await asyncio.sleep(1)
        group = crowd.broker.groups.groups.get(GROUP)
        assert group is None or group.is_empty

    in_a_crowd(story)


def test_a_member_that_goes_out_keeps_its_place_until_its_listener_has_been_told() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        committed: list[int] = []

        class Slow:
            async def on_partitions_revoked(self, _: object) -> None:
                await asyncio.sleep(100)  # more than two sessions
                offsets = {P0: OffsetAndMetadata(5)}
                await member.membership.commits.commit(member.cluster.deadline(), offsets)
                committed.append(5)

        member.membership.listen(Slow())
        member.positions.topics = None
        member.membership.subscription_changed()
        await until(lambda: member.state == "out", 150)
        assert committed == [5]

    in_a_crowd(story)


def test_good_bye_does_not_overtake_a_commit() -> None:
    """They travel on different connections, so the one has to wait for the other."""

    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        commits: list[asyncio.Task[None]] = []

        async def slowly(_: RequestContext, request: Request[Any]) -> None:
            if request.api_key is ApiKey.OFFSET_COMMIT:
                await asyncio.sleep(2)

        class Late:
            async def on_partitions_revoked(self, _: object) -> None:
                commit = member.membership.commits.commit(
                    member.cluster.deadline(), {P0: OffsetAndMetadata(5)}
                )
                commits.append(asyncio.create_task(commit))
                await asyncio.sleep(0.1)

        crowd.broker.faults.hook = slowly
        member.membership.listen(Late())
        await member.close()
        await commits[0]

    in_a_crowd(story)


@pytest.mark.parametrize("error", [UnsupportedAssignorError, InvalidRegularExpressionError])
def test_what_can_never_work_is_final(error: type[BrokerError]) -> None:
    async def story(crowd: Crowd) -> None:
        crowd.broker.faults.answer_with(BEAT, error)
        member = await join(crowd)
        await until(lambda: member.state == "failed")
        assert isinstance(member.membership.take_error(), error)
        assert isinstance(member.membership.take_error(), error)

    in_a_crowd(story)


def test_what_somebody_may_repair_is_shown_and_tried_again() -> None:
    async def story(crowd: Crowd) -> None:
        fault = crowd.broker.faults.answer_with(BEAT, GroupAuthorizationFailedError, times=None)
        member = await join(crowd)
        await until(lambda: member.positions.woken > 0)
        assert isinstance(member.membership.take_error(), GroupAuthorizationFailedError)
        fault.remove()
        await crowd.settled(member)

    in_a_crowd(story)


def test_an_unknown_assignor_of_the_server_is_final() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd, group_remote_assignor="nonsense")
        await until(lambda: member.state == "failed")
        assert isinstance(member.membership.take_error(), UnsupportedAssignorError)

    in_a_crowd(story)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_an_assignor_of_the_server_is_asked_for(assignor: str) -> None:
    async def story(crowd: Crowd) -> None:
        seen = beats(crowd)
        members = [await join(crowd, group_remote_assignor=assignor) for _ in range(2)]
        await crowd.settled(*members)
        assert seen[0].server_assignor == assignor

    in_a_crowd(story)


def test_a_pattern_is_resolved_by_the_server_also_for_topics_that_come_later() -> None:
    """The client never followed these topics: it learns their names by the ids that are assigned."""

    async def story(crowd: Crowd) -> None:
        positions = FakePositions(server_pattern="ord.*")
        member = await crowd.member(positions=positions, **MODERN)
        positions.topics = frozenset()
        member.membership.subscription_changed()
        await crowd.settled(member)
        crowd.broker.create_topic("ordinary", 2)
        await until(lambda: len(member.owned) == 8, 30)
        positions.server_pattern = None
        member.subscribe("payments")
        await crowd.settled(member, topic="payments", partitions=1)

    in_a_crowd(story, orders=6, payments=1)


def test_a_topic_that_nobody_can_name_yet_is_not_stranded() -> None:
    async def story(crowd: Crowd) -> None:
        positions = FakePositions(server_pattern="ord.*")
        member = await crowd.member(positions=positions, **MODERN)
        fault = crowd.broker.faults.close(ApiKey.METADATA, times=None)
        positions.topics = frozenset()
        member.membership.subscription_changed()
        await until(lambda: member.state == "stable")
        await asyncio.sleep(30)
        assert member.owned == frozenset()
        fault.remove()
        await crowd.settled(member, within=20)

    in_a_crowd(story)


def test_a_member_fenced_while_it_asks_for_the_names_of_topics_joins_again() -> None:
    async def story(crowd: Crowd) -> None:
        positions = FakePositions(server_pattern="ord.*")
        member = await crowd.member(positions=positions, **MODERN)

        async def hook(_: RequestContext, request: Request[Any]) -> None:
            if isinstance(request, MetadataRequest) and request.topics and request.topics[0].name is None:
                crowd.broker.faults.hook = None
                crowd.broker.faults.answer_with(BEAT, FencedMemberEpochError)
                await asyncio.sleep(20)

        crowd.broker.faults.hook = hook
        positions.topics = frozenset()
        member.membership.subscription_changed()
        await crowd.settled(member, within=60)
        assert crowd.broker.faults.hook is None

    in_a_crowd(story)


def test_a_new_subscription_is_a_new_assignment() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        member.subscribe("payments")
        await crowd.settled(member, topic="payments", partitions=2)

    in_a_crowd(story, orders=6, payments=2)


def test_unsubscribing_leaves_and_subscribing_comes_back() -> None:
    async def story(crowd: Crowd) -> None:
        first, second = [await join(crowd) for _ in range(2)]
        await crowd.settled(first, second)
        second.positions.topics = None
        second.membership.subscription_changed()
        await crowd.settled(first, within=15)
        assert second.state == "out"
        assert second.told[-1][0] == "revoked"
        second.subscribe("orders")
        await crowd.settled(first, second)

    in_a_crowd(story)


def test_an_application_that_does_not_ask_for_records_is_taken_out_until_it_does() -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd, max_poll_interval_ms=30_000)
        second = await join(crowd)
        await crowd.settled(first, second)
        first.positions.waits = False
        first.membership.polled()
        await asyncio.sleep(25)
        assert first.state == "stable"
        await crowd.settled(second, within=30)
        assert first.state == "out"
        assert first.told[-1][0] == "lost"
        await asyncio.sleep(600)
        assert first.state == "out"
        first.membership.polled()
        first.positions.waits = True
        await crowd.settled(first, second)

    in_a_crowd(story)


def test_a_static_member_comes_back_to_its_partitions() -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd, group_instance_id="a")
        second = await join(crowd, group_instance_id="b")
        await crowd.settled(first, second)
        owned, told = second.owned, list(first.told)
        seen = beats(crowd)
        await second.close()
        assert [beat.member_epoch for beat in seen if beat.instance_id == "b"][-1] == -2
        await asyncio.sleep(10)
        again = await join(crowd, group_instance_id="b")
        await crowd.settled(first, again)
        assert again.owned == owned
        assert first.told == told

    in_a_crowd(story)


def test_a_static_member_waits_for_one_that_was_killed() -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd, group_instance_id="a")
        await crowd.settled(first)
        await first.vanish()
        second = await join(crowd, group_instance_id="a")
        await crowd.settled(second, within=60)  # the session of the first: 45 s
        assert second.membership.take_error() is None

    in_a_crowd(story)


def test_a_static_member_that_waits_in_vain_says_so() -> None:
    async def story(crowd: Crowd) -> None:
        first = await join(crowd, group_instance_id="a")
        await crowd.settled(first)
        second = await join(crowd, group_instance_id="a")
        await until(lambda: second.positions.woken > 0, 120)
        assert isinstance(second.membership.take_error(), UnreleasedInstanceIdError)
        await crowd.settled(first)

    in_a_crowd(story)


def test_a_fenced_instance_is_final() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd, group_instance_id="a")
        await crowd.settled(member)
        crowd.broker.faults.answer_with(BEAT, FencedInstanceIdError)
        await until(lambda: member.state == "failed")
        assert isinstance(member.membership.take_error(), FencedInstanceIdError)
        assert member.owned == frozenset()

    in_a_crowd(story)


def test_offsets_are_committed_with_the_epoch_also_when_it_has_just_moved() -> None:
    async def story(crowd: Crowd) -> None:
        member = await join(crowd)
        await crowd.settled(member)
        commits = member.membership.commits
        crowd.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, StaleMemberEpochError, times=2)
        await commits.commit(member.cluster.deadline(), {P0: OffsetAndMetadata(5)})
        crowd.broker.faults.answer_with(ApiKey.OFFSET_FETCH, StaleMemberEpochError, times=2)
        crowd.broker.faults.answer_with(ApiKey.OFFSET_FETCH, UnknownMemberIdError, times=2)
        assert await commits.committed([P0], member.cluster.deadline()) == {P0: OffsetAndMetadata(5)}

    in_a_crowd(story)


def test_auto_commit_comes_before_partitions_go() -> None:
    async def story(crowd: Crowd) -> None:
        options: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}
        first = await join(crowd, **options)
        await crowd.settled(first)
        first.positions.offsets = {TopicPartition("orders", n): OffsetAndMetadata(7) for n in range(6)}
        second = await join(crowd, **options)
        await crowd.settled(first, second)
        found = await second.membership.commits.committed(second.owned, second.cluster.deadline())
        assert set(found.values()) == {OffsetAndMetadata(7)}

    in_a_crowd(story)


def test_the_coordinator_moves() -> None:
    async def story(crowd: Crowd) -> None:
        members = [await join(crowd) for _ in range(2)]
        await crowd.settled(*members)
        for node in (1, 2, 3, 1):
            crowd.broker.move_coordinator(GROUP, node)
            await asyncio.sleep(20)
            assert members[0].membership.health().coordinator == node
        assert [what for what, _ in members[0].told].count("lost") == 0

    in_a_crowd(story, nodes=3)


def test_close_in_the_middle_of_joining_leaves_nobody_behind() -> None:
    async def story(crowd: Crowd) -> None:
        crowd.broker.faults.delay(BEAT, 2)
        member = await join(crowd)
        await asyncio.sleep(1)
        assert member.state == "joining"
        await member.close()
        group = crowd.broker.groups.groups.get(GROUP)
        assert group is None or group.is_empty

    in_a_crowd(story)


def test_every_state_but_the_last_has_a_way_on() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State) - {State.FAILED}
    assert {event for _, event in TRANSITIONS} == set(Event)
