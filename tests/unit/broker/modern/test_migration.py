"""A group moves from the classic protocol to KIP-848 and back while members are in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kclient.broker.groups.base import GroupConfig, MemoryStore
from kclient.broker.groups.modern_member import MemberState
from kclient.errors import ConfigurationError, GroupIdNotFoundError, UnreleasedInstanceIdError
from tests.unit.broker.groups.driving import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    OK,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    settle,
)
from tests.unit.broker.modern.mixed_driving import PROTOCOL, TOPIC, Mixed, assignment, subscription, told


async def let_go(groups: Mixed, member: str) -> None:
    """A classic member that has everything hands over half of it to the newcomer "new"."""
    assert await groups.heartbeat(member, 1) == REBALANCE_IN_PROGRESS
    joined = await groups.rejoin(member, [0, 1, 2, 3])
    assert (joined.error_code, joined.generation_id, joined.leader) == (OK, 1, "")
    assert await groups.held(member, 1) == [0, 1]
    assert told(groups.beat("new", 2)) is None
    assert (await groups.rejoin(member, [0, 1])).generation_id == 2
    assert await groups.held(member, 2) == [0, 1]
    assert told(groups.beat("new", 2)) == [2, 3]


async def mixed_group(groups: Mixed) -> str:
    """A classic member and one of the other protocol, "new", with two partitions each."""
    (member,) = await groups.classic_group()
    groups.begin("new")
    await let_go(groups, member)
    return member


async def test_the_first_newcomer_finds_members_with_what_they_had() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group()
        joined = groups.begin("new")
        assert (joined.member_epoch, told(joined)) == (2, [])
        assert groups.seen == ("consumer", "Reconciling")
        old, new = groups.described().members
        assert (old.member_id, old.member_epoch, old.member_type, old.client_id) == (member, 1, 0, "app")
        assert (new.member_id, new.member_epoch, new.member_type) == ("new", 2, 1)
        assert [topic.partitions for topic in old.assignment.topic_partitions] == [[0, 1, 2, 3]]
        assert [topic.partitions for topic in old.target_assignment.topic_partitions] == [[0, 1]]


async def test_partitions_are_handed_over_from_a_classic_member_only_once_it_has_let_go() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        assert await groups.heartbeat(member, 2) == OK
        assert groups.seen == ("consumer", "Stable")


async def test_a_classic_member_is_told_to_join_when_what_it_waits_for_is_free() -> None:
    async with Mixed() as groups:
        groups.begin("new")
        assert (
            await groups.join(protocols=(PROTOCOL,), metadata=subscription())
        ).error_code == MEMBER_ID_REQUIRED
        joined = await groups.rejoin("late")
        assert (joined.generation_id, joined.protocol_name) == (3, PROTOCOL)
        assert await groups.held("late", 3) == []
        assert await groups.heartbeat("late", 3) == OK
        groups.beat("new", 2)
        groups.beat("new", 2, [0, 1])
        assert await groups.heartbeat("late", 3) == REBALANCE_IN_PROGRESS
        await groups.rejoin("late")
        assert await groups.held("late", 3) == [2, 3]
        assert await groups.heartbeat("late", 3) == OK


async def test_joins_and_syncs_that_wait_are_told_to_join_again() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group()
        other, waiting = await groups.arriving(protocols=(PROTOCOL,), metadata=subscription())
        assert groups.seen == ("classic", "PreparingRebalance")
        groups.begin("new")
        answer = await waiting
        assert (answer.error_code, answer.member_id) == (REBALANCE_IN_PROGRESS, other)
        assert sorted(groups.modern.members) == sorted([member, other, "new"])
        assert (await groups.rejoin(other)).generation_id == 2


async def test_who_waits_for_an_assignment_is_told_to_join_again() -> None:
    async with Mixed() as groups:
        arrivals = [
            await groups.arriving(protocols=(PROTOCOL,), metadata=subscription(), group="g") for _ in "12"
        ]
        await asyncio.gather(*(task for _, task in arrivals))
        follower = groups.syncing(arrivals[1][0], 1)
        await settle()
        groups.begin("new")
        assert (await follower).error_code == REBALANCE_IN_PROGRESS
        assert groups.modern.assignment_epoch == 2


@pytest.mark.parametrize("goes", ["leaves", "falls silent", "is removed"])
async def test_the_group_is_classic_again_once_the_last_newcomer_is_gone(goes: str) -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        if goes == "leaves":
            groups.beat("new", -1)
        elif goes == "is removed":
            assert [one.error_code for one in (await groups.leave("new")).members] == [OK]
        else:
            await groups.stay_alive([member], 2, 46)
        assert groups.seen == ("classic", "PreparingRebalance")
        assert await groups.heartbeat(member, 2) == REBALANCE_IN_PROGRESS
        joined = await groups.rejoin(member, [0, 1])
        assert (joined.generation_id, joined.leader) == (3, member)
        await groups.sync(member, 3, {member: assignment(range(4))})
        assert await groups.held(member, 3) == [0, 1, 2, 3]
        assert groups.seen == ("classic", "Stable")


async def test_a_group_that_nobody_is_left_in_stays_of_its_kind() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        answers = (await groups.leave(member, "new", "nobody")).members
        assert [one.error_code for one in answers] == [OK, OK, UNKNOWN_MEMBER_ID]
        assert groups.seen == ("consumer", "Empty")


async def test_a_newcomer_that_does_not_revoke_in_time_takes_the_kind_of_the_group_with_it() -> None:
    async with Mixed() as groups:
        groups.begin("new", rebalance_timeout_ms=5_000)
        await groups.rejoin("old")
        groups.beat("new", 2)  # has to let go now
        await groups.stay_alive(["old"], 3, 4)
        groups.beat("new", 2)
        assert groups.kind == "consumer"
        await groups.stay_alive(["old"], 3, 2)
        assert groups.kind == "classic"


async def test_a_classic_member_that_does_not_join_or_sync_in_time_is_out() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group(rebalance_ms=20_000)
        groups.begin("new")
        for _ in range(19):
            await asyncio.sleep(1)
            assert await groups.heartbeat(member, 1) == REBALANCE_IN_PROGRESS
        await groups.rejoin(member, [0, 1, 2, 3], rebalance_ms=20_000)
        for _ in range(19):
            await asyncio.sleep(1)
            groups.beat("new", 2)
            assert await groups.heartbeat(member, 1) == REBALANCE_IN_PROGRESS
        await asyncio.sleep(2)
        assert await groups.heartbeat(member, 1) == UNKNOWN_MEMBER_ID
        assert told(groups.beat("new", 2)) == [0, 1, 2, 3]


async def test_the_time_to_join_begins_with_the_first_call_to_do_so() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group(rebalance_ms=20_000)
        groups.begin("new")
        for _ in range(20):
            await groups.heartbeat(member, 1)
            await asyncio.sleep(1)
        await asyncio.sleep(0.1)
        assert await groups.heartbeat(member, 1) == UNKNOWN_MEMBER_ID


async def test_a_silent_classic_member_is_gone_after_its_own_session_timeout() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        await asyncio.sleep(9)
        assert await groups.heartbeat(member, 2) == OK
        await asyncio.sleep(9)
        assert member in groups.modern.members
        await asyncio.sleep(2)
        assert member not in groups.modern.members
        groups.beat("new", 2)


async def test_requests_of_a_classic_member_have_to_fit_the_group() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        assert await groups.heartbeat(member, 1) == ILLEGAL_GENERATION
        assert await groups.heartbeat("new", 2) == UNKNOWN_MEMBER_ID
        assert await groups.heartbeat("nobody", 2) == UNKNOWN_MEMBER_ID
        assert (await groups.sync(member, 2, protocol="range")).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert (await groups.sync(member, 2, kind="connect")).error_code == INCONSISTENT_GROUP_PROTOCOL
        for options in ({"kind": "connect"}, {"protocols": ("range",)}, {"protocols": ()}):
            refused = await groups.rejoin(member, **options)
            assert (refused.error_code, refused.member_id) == (INCONSISTENT_GROUP_PROTOCOL, "")
        assert (await groups.rejoin(member, metadata=b"")).error_code == -1


async def test_members_commit_with_what_their_protocol_calls_the_epoch() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        here = (TOPIC, 0)
        for version in (8, 9):
            done = await groups.commit({here: 1}, member_id=member, generation=2, version=version)
            assert done == {here: OK}
            stale = await groups.commit({here: 1}, member_id=member, generation=3, version=version)
            assert stale == {here: ILLEGAL_GENERATION}
        assert await groups.commit({here: 1}, member_id="new", generation=1) == {here: STALE_MEMBER_EPOCH}


async def test_a_commit_with_an_older_epoch_is_good_for_what_the_member_had_then() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        kept, gone = (TOPIC, 0), (TOPIC, 2)
        assert await groups.commit({kept: 1}, member_id=member, generation=1) == {kept: OK}
        refused = await groups.commit({kept: 2, gone: 2}, member_id=member, generation=1)
        assert refused == {kept: ILLEGAL_GENERATION, gone: ILLEGAL_GENERATION}
        assert await groups.commit({gone: 1}, member_id="new", generation=1) == {gone: STALE_MEMBER_EPOCH}
        assert await groups.commit({gone: 3}, member_id="new", generation=2) == {gone: OK}
        assert await groups.committed() == {kept: 1, gone: 3}


async def test_a_static_member_changes_the_protocol_with_a_restart() -> None:
    async with Mixed() as groups:
        first = await groups.rejoin("", instance="i")
        await groups.sync(first.member_id, 1, {first.member_id: assignment(range(4))}, instance="i")
        taken = groups.begin("new", instance_id="i")
        assert (taken.member_epoch, told(taken)) == (1, [0, 1, 2, 3])
        assert groups.seen == ("consumer", "Stable")
        assert await groups.heartbeat(first.member_id, 1, instance="i") == FENCED_INSTANCE_ID
        with pytest.raises(UnreleasedInstanceIdError):
            groups.begin("newer", instance_id="i")
        back = await groups.rejoin("", instance="i")
        assert (back.error_code, back.generation_id) == (OK, 1)
        assert groups.seen == ("classic", "Stable")
        assert await groups.held(back.member_id, 1, "i") == [0, 1, 2, 3]
        with pytest.raises(GroupIdNotFoundError):
            groups.beat("new", 1, instance_id="i")


async def test_a_group_that_a_static_member_takes_back_while_it_is_not_settled_rebalances() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group()
        groups.begin("new", instance_id="i")  # waits for half of what the other has
        back = await groups.rejoin("", instance="i")
        assert groups.seen == ("classic", "PreparingRebalance")
        assert await groups.heartbeat(member, 1) == ILLEGAL_GENERATION
        assert (await groups.sync(back.member_id, back.generation_id, instance="i")).error_code != OK


@pytest.mark.parametrize(
    ("policy", "kinds", "joins"),
    [
        ("disabled", ("classic", "consumer"), INCONSISTENT_GROUP_PROTOCOL),
        ("upgrade", ("consumer", "consumer"), OK),
        ("downgrade", ("classic", "classic"), OK),
        ("Bidirectional", ("consumer", "classic"), OK),
    ],
)
async def test_the_policy_says_which_way_groups_may_go(
    policy: str, kinds: tuple[str, str], joins: int
) -> None:
    async with Mixed(group_consumer_migration_policy=policy) as groups:
        await groups.classic_group()
        if kinds[0] == "classic":
            with pytest.raises(GroupIdNotFoundError, match=r"because online upgrade is disabled\."):
                groups.begin("new")
        else:
            groups.begin("new")
        assert groups.kind == kinds[0]
        groups.coordinator.delete(groups.coordinator.groups["g"])
        groups.begin("new")
        assert (await groups.rejoin("old")).error_code == joins
        groups.beat("new", -1)
        assert groups.kind == kinds[1]


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="it is one of disabled, upgrade, downgrade, bidirectional"):
        GroupConfig(group_consumer_migration_policy="sometimes")


@pytest.mark.parametrize(
    ("options", "given", "why"),
    [
        ({"kind": "connect"}, b"", "the group does not use the consumer embedded protocol"),
        ({"metadata": b"\xff\xff"}, b"", "the embedded consumer protocol is malformed"),
        ({"metadata": b""}, b"", "the embedded consumer protocol is malformed"),
        ({}, b"\x00", "the embedded consumer protocol is malformed"),
        ({}, assignment([0], b"mine"), "an unsupported custom assignor is in use"),
    ],
)
async def test_a_group_that_cannot_be_understood_stays_classic(
    options: dict[str, Any], given: bytes, why: str
) -> None:
    async with Mixed() as groups:
        joined = await groups.rejoin("", instance="i", **options)
        await groups.sync(joined.member_id, 1, {joined.member_id: given}, instance="i")
        with pytest.raises(
            GroupIdNotFoundError, match=f"Cannot upgrade classic group g to consumer group because {why}"
        ):
            groups.begin("new")
        assert groups.seen == ("classic", "Stable")
        for epoch in (1, -1):
            with pytest.raises(GroupIdNotFoundError, match="Group g is not a consumer group"):
                groups.beat("new", epoch)


async def test_groups_that_are_too_large_for_the_other_kind_stay() -> None:
    async with Mixed(group_consumer_max_size=1) as groups:
        await groups.classic_group(2)
        with pytest.raises(GroupIdNotFoundError, match="the group size exceeds the consumer group maximum"):
            groups.begin("new")
    async with Mixed(group_max_size=1, group_consumer_max_size=3) as groups:
        groups.begin("new")
        await groups.rejoin("first")
        await groups.rejoin("second")
        assert (await groups.rejoin("third")).error_code == GROUP_MAX_SIZE_REACHED
        groups.beat("new", -1)
        assert groups.kind == "consumer"


async def test_a_partition_that_two_classic_members_were_given_is_the_first_ones() -> None:
    async with Mixed() as groups:
        ids = await groups.classic_group(2)
        for member in groups["g"].members:
            member.assignment = assignment(range(4))
        groups.begin("new")
        held = [groups.modern.members[one].held.keys() for one in ids]
        assert [len(partitions) for partitions in held] == [4, 0]


async def test_a_restart_changes_nothing_for_members_of_both_kinds() -> None:
    store = MemoryStore()
    async with Mixed(store) as groups:
        member = await mixed_group(groups)
        before = groups.described()
    async with Mixed(store) as groups:
        after = groups.described()
        assert (after.group_state, after.group_epoch) == ("Stable", 2)
        assert sorted(after.members, key=repr) == sorted(before.members, key=repr)
        assert await groups.heartbeat(member, 2) == OK
        assert groups.beat("new", 2).member_epoch == 2
        assert await groups.held(member, 2) == [0, 1]
        await asyncio.sleep(11)
        assert list(groups.modern.members) == ["new"]


async def test_a_downgraded_group_is_a_classic_one_after_a_restart() -> None:
    store = MemoryStore()
    async with Mixed(store) as groups:
        member = await mixed_group(groups)
        groups.beat("new", -1)
    assert {int.from_bytes(key[:2], "big") for key in store.records} == {2}
    async with Mixed(store) as groups:
        assert groups.seen == ("classic", "Stable")
        assert await groups.held(member, 2) == [0, 1]


async def test_an_empty_classic_group_gives_way() -> None:
    store = MemoryStore()
    async with Mixed(store) as groups:
        (member,) = await groups.classic_group()
        await groups.leave(member)
        joined = groups.begin("new")
        assert (joined.member_epoch, told(joined), groups.seen) == (2, [0, 1, 2, 3], ("consumer", "Stable"))
        assert b"\x00\x02\x00\x01g" not in store.records


async def test_a_heartbeat_that_is_refused_leaves_the_classic_group_alone() -> None:
    async with Mixed(group_consumer_max_size=1) as groups:
        (member,) = await groups.classic_group()
        with pytest.raises(Exception, match="maximum capacity of 1"):
            groups.begin("new")
        assert groups.seen == ("classic", "Stable")
        await asyncio.sleep(9)
        assert await groups.heartbeat(member, 1) == OK
        await asyncio.sleep(9)
        assert await groups.heartbeat(member, 1) == OK


async def test_a_sync_of_an_older_target_has_the_member_join_again() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group(rebalance_ms=20_000)
        groups.begin("new")
        assert (await groups.sync(member, 1)).error_code == REBALANCE_IN_PROGRESS


async def test_a_classic_member_that_has_to_let_go_is_told_to_join_even_at_the_newest_epoch() -> None:
    async with Mixed() as groups:
        member = await mixed_group(groups)
        groups.modern.put(replace(groups.modern.members[member], state=MemberState.UNREVOKED))
        assert await groups.heartbeat(member, 2) == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("syncs", [True, False])
async def test_a_classic_member_is_in_for_long_only_if_it_syncs(syncs: bool) -> None:
    async with Mixed() as groups:
        groups.begin("new")
        await groups.rejoin("late", rebalance_ms=20_000)
        if syncs:
            await groups.held("late", 3)
        await groups.stay_alive(["late"], 3, 21)
        assert ("late" in groups.modern.members) is syncs


async def test_a_classic_member_has_its_time_to_let_go_from_when_it_is_told() -> None:
    async with Mixed() as groups:
        (member,) = await groups.classic_group(rebalance_ms=20_000)
        groups.begin("new")
        await groups.rejoin(member, [0, 1, 2, 3], rebalance_ms=20_000)
        await groups.held(member, 1)
        await asyncio.sleep(5)
        await groups.stay_alive([member], 1, 17)
        assert member in groups.modern.members
        await groups.stay_alive([member], 1, 5)
        assert member not in groups.modern.members


async def test_sessions_go_on_in_a_downgraded_group() -> None:
    async with Mixed() as groups:
        await mixed_group(groups)
        groups.beat("new", -1)
        await asyncio.sleep(11)
        assert groups.seen == ("classic", "Empty")


async def test_an_upgraded_group_knows_its_topics() -> None:
    async with Mixed() as groups:
        await groups.classic_group()
        assert groups.begin("new", subscribed_topic_names=[]).member_epoch == 1
        groups.topics.add("unrelated", 1)
        groups.service.topics_changed()
        assert groups.beat("new", 1).member_epoch == 1
