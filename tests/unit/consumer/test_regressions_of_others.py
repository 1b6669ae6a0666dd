"""What releases of other clients have broken in reading and in groups, planted in virtual time.

Each test names where it happened. Those of producing are beside them, in `tests/unit/producer`. What has a
test of its own elsewhere: giving up partitions before a member leaves that exceeded `max_poll_interval_ms`
(librdkafka#5541) in `test_modern`, committing what is not processed yet (KAFKA-15529, KAFKA-18641) in
`test_positions` and `test_flock`.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.consumer.group.assignors.base import Assignor, Member
from kclient.consumer.group.assignors.cooperative import CooperativeStickyAssignor
from kclient.consumer.group.assignors.sticky import StickyAssignor
from kclient.errors import (
    GroupIdNotFoundError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    RebalanceInProgressError,
    UnknownServerError,
)
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata
from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.messages.classic_groups import LeaveGroupRequest
from kclient.wire.messages.fetch import FetchRequest, FetchResponse
from tests.unit.consumer.members import GROUP, Crowd, in_a_crowd
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts, take

Answer = FetchResponse.FetchableTopicResponse
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "KIP-848": {"group_protocol": "consumer"}}
of_both_kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("named", ["itself", "each other", "each other, ever newer"])
def test_leaders_that_are_named_in_vain_are_not_asked_without_a_pause(named: str) -> None:
    """franz-go#1413: a hint with the same leader and epoch gave 475 requests in five seconds."""

    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            state, seen = world.broker.topics.partition(*part()), 0

            def hook(context: RequestContext, request: Request[Any]) -> Response | None:
                nonlocal seen
                if not isinstance(request, FetchRequest) or not request.topics:
                    return None
                seen += 1
                own = context.node.node_id
                leader = own if named == "itself" else 3 - own
                epoch = state.leader_epoch + (seen if named.endswith("newer") else 0)
                port = world.broker.nodes[leader].listeners["PLAINTEXT"].port
                data = Answer.PartitionData(
                    partition_index=0,
                    error_code=NotLeaderOrFollowerError.code,
                    high_watermark=-1,
                    aborted_transactions=None,
                    records=None,
                    current_leader=Answer.PartitionData.LeaderIdAndEpoch(
                        leader_id=leader, leader_epoch=epoch
                    ),
                )
                return FetchResponse(
                    responses=[Answer(topic_id=request.topics[0].topic_id, partitions=[data])],
                    node_endpoints=[FetchResponse.NodeEndpoint(node_id=leader, host="127.0.0.1", port=port)],
                )

            world.broker.faults.hook = hook
            await asyncio.sleep(5)
            world.broker.faults.hook = None
            assert 0 < seen < 100, seen
            while named.endswith("newer") and state.leader_epoch <= 1 + seen:  # as what was named would be
                world.broker.move_leader(*part(), 3 - state.leader)
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))

    live(story, nodes=2)


def test_a_topic_that_is_assigned_before_metadata_knows_it_is_read() -> None:
    """franz-go 1.21.6: one that matched a pattern of a KIP-848 group was never consumed."""

    async def story(world: World) -> None:
        async with world.consumer(group_id=GROUP, group_protocol="consumer") as consumer:
            consumer.subscribe(server_pattern="ord.*")
            assert await consumer.getmany(timeout_ms=10_000) == {}
            fault = world.broker.faults.answer_with(ApiKey.METADATA, UnknownServerError, times=None)
            world.fill(part(2))
            await asyncio.sleep(60)
            fault.remove()
            assert offsets((await take(consumer, 100))[part(2)]) == list(range(100))

    live(story)


@of_both_kinds
def test_a_member_whose_commit_is_told_that_it_is_none_joins_again_at_once(kind: str) -> None:
    """franz-go 1.21.3: it went on as a zombie until its next heartbeat."""

    async def story(crowd: Crowd) -> None:
        options = {"heartbeat_interval_ms": 30_000, "session_timeout_ms": 120_000, **KINDS[kind]}
        member = await crowd.member("orders", **options)
        await crowd.settled(member)
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[LeaveGroupRequest.MemberIdentity(member_id=member.membership.metadata().member_id)],
        )
        await member.cluster.call(1, lambda _: request, LeaveGroupRequest, member.cluster.deadline())
        began = crowd.sim.loop.time()
        with pytest.raises(KafkaError):
            await member.membership.commits.commit(member.cluster.deadline(), {part(): OffsetAndMetadata(5)})
        await until(lambda: len(member.told) == 3, 60)
        assert [what for what, _ in member.told] == ["assigned", "lost", "assigned"]
        assert crowd.sim.loop.time() - began < 5

    in_a_crowd(story, settings={"group.consumer.heartbeat.interval.ms": "15000"}, orders=6)


@of_both_kinds
def test_a_commit_in_a_rebalance_does_not_cost_the_assignment(kind: str) -> None:
    """librdkafka#4059, #4908: the member stayed without partitions."""

    async def story(world: World) -> None:
        world.fill_all(2)
        options = {"group_id": GROUP, "enable_auto_commit": False, **KINDS[kind]}
        async with world.consumer(Topic, **options) as first:
            await take(first, 200)
            world.broker.faults.answer_with(ApiKey.OFFSET_COMMIT, RebalanceInProgressError, times=3)
            async with world.consumer(Topic, **options) as second:
                commits = [asyncio.create_task(first.commit()) for _ in range(3)]
                joins = asyncio.create_task(second.getmany(timeout_ms=20_000))
                for _ in range(40):
                    await first.getmany(timeout_ms=500)
                await asyncio.gather(joins, *commits, return_exceptions=True)
                assert len(first.assignment()) == len(second.assignment()) == 1
            await until(lambda: len(first.assignment()) == 2, 60) if kind else None
            for each in parts(2):
                world.fill(each)
            await take(first, 200)

    live(story)


def test_a_kip_848_group_that_is_not_there_any_more_is_joined_again() -> None:
    """librdkafka#5488: GROUP_ID_NOT_FOUND was final."""

    async def story(crowd: Crowd) -> None:
        member = await crowd.member("orders", **KINDS["KIP-848"])
        await crowd.settled(member)
        epoch = member.membership.metadata().generation_id
        crowd.broker.faults.answer_with(ApiKey.CONSUMER_GROUP_HEARTBEAT, GroupIdNotFoundError, times=2)
        await until(lambda: member.told[-1][0] == "lost", 30)
        await crowd.settled(member)
        assert member.told[-1][0] == "assigned"
        assert member.membership.metadata().generation_id != epoch or len(member.told) > 1

    in_a_crowd(story)


@pytest.mark.parametrize("error", [KafkaStorageError, NotLeaderOrFollowerError])
def test_an_error_and_the_end_do_not_move_the_position(error: Any) -> None:
    """librdkafka#4844, #5213: records behind an error or the end of a partition were passed over."""

    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            for count in range(1, 6):
                assert await consumer.getmany(timeout_ms=1_000) == {}  # at the end
                assert await consumer.position(part()) == count * 100
                world.failures += [error] * 3
                assert await consumer.getmany(timeout_ms=200) == {}
                assert await consumer.position(part()) == count * 100
                world.fill(part())
                found = (await take(consumer, 100))[part()]
                assert offsets(found) == list(range(count * 100, count * 100 + 100))

    live(story)


def test_a_leader_that_moves_again_while_the_position_is_validated_is_no_endless_story() -> None:
    """librdkafka#4425, #4492: 400,000 requests a minute, or stuck for ever."""

    async def story(world: World) -> None:
        world.fill(part())
        async with world.reader() as consumer:
            await take(consumer, 100)
            world.broker.faults.delay(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0.7, times=None)
            world.requests.clear()
            for _ in range(12):
                leader = world.broker.topics.partition(*part()).leader
                world.broker.move_leader(*part(), leader % 3 + 1)
                await asyncio.sleep(0.5)
            assert world.requests.count("OFFSET_FOR_LEADER_EPOCH") < 60
            assert len(world.requests) < 400
            world.fill(part())
            assert offsets((await take(consumer, 100))[part()]) == list(range(100, 200))

    live(story, nodes=3)


@pytest.mark.parametrize("kind", [StickyAssignor, CooperativeStickyAssignor])
def test_a_crowd_with_many_subscriptions_is_assigned_without_repeating_itself(
    kind: type[Assignor],
) -> None:
    """aiokafka#1175, #1176: 84 members with subscriptions of their own were out for 45 minutes."""
    random = Random(84)
    layout: dict[str, Any] = {f"topic {number}": [frozenset()] * 12 for number in range(40)}
    members = {
        f"member {number}": Member(tuple(sorted(random.sample(sorted(layout), random.randrange(1, 20)))))
        for number in range(84)
    }
    assignor = kind()
    before = assignor.assign(layout, members)
    claims = {
        name: Member(said.topics, owned=tuple(before[name]), generation=3) for name, said in members.items()
    }
    del claims["member 3"]
    claims["another"] = Member(members["member 3"].topics)
    after = kind().assign(layout, claims)  # its state is its own: another instance decides the same
    assert after == assignor.assign(layout, claims)
    stayed = sum(len({*before[name]} & {*after[name]}) for name in claims if name in before)
    assert stayed >= sum(len(before[name]) for name in claims if name in before) - len(layout)
