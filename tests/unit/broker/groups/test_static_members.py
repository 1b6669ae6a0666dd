"""Members with a group instance id: they restart without a rebalance, and only one of each is let in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.broker.groups.driving import (
    FENCED_INSTANCE_ID,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Groups,
    settle,
)


async def two_static(groups: Groups, **options: Any) -> tuple[str, str]:
    """A stable group of the instances "a", which leads, and "b"; assigned b"a" and b"b"."""
    tasks = [groups.joining(instance=name, **options) for name in "ab"]
    first, second = [await task for task in tasks]
    task = groups.syncing(second.member_id, 1, instance="b")
    await settle()
    assignments = {first.member_id: b"a", second.member_id: b"b"}
    await groups.sync(first.member_id, 1, assignments, instance="a")
    assert (await task).assignment == b"b"
    return first.member_id, second.member_id


async def test_a_static_member_is_named_after_its_instance_and_needs_no_second_join() -> None:
    async with Groups() as groups:
        joined = await groups.join(instance="a")
        assert joined.error_code == OK
        assert joined.member_id.startswith("a-")
        assert joined.members[0].group_instance_id == "a"


async def test_a_follower_that_restarts_gets_its_assignment_without_a_rebalance() -> None:
    async with Groups() as groups:
        leader, old = await two_static(groups)
        again = await groups.join(instance="b")
        assert (again.error_code, again.generation_id, again.leader) == (OK, 1, leader)
        assert again.member_id != old
        assert (again.skip_assignment, again.members) == (False, [])
        assert groups.state == "Stable"
        assert (await groups.sync(again.member_id, 1, instance="b")).assignment == b"b"


async def test_the_session_of_the_former_incarnation_ends_with_it() -> None:
    async with Groups() as groups:
        leader, _ = await two_static(groups)
        again = await groups.join(instance="b")
        await groups.stay_alive([leader, again.member_id], 1, 11)
        assert groups.state == "Stable"


async def test_a_leader_that_restarts_is_told_not_to_assign() -> None:
    async with Groups() as groups:
        await two_static(groups)
        again = await groups.join(instance="a")
        assert (again.leader, again.skip_assignment, len(again.members)) == (again.member_id, True, 2)
        assert groups.state == "Stable"


async def test_a_leader_that_restarts_with_an_old_version_is_told_that_its_former_id_leads() -> None:
    async with Groups() as groups:
        leader, _ = await two_static(groups)
        again = await groups.join(instance="a", version=8)
        assert (again.leader, again.skip_assignment, again.members) == (leader, False, [])
        assert (await groups.sync(again.member_id, 1, instance="a")).assignment == b"a"


async def test_a_restart_that_changes_the_chosen_protocol_is_a_rebalance() -> None:
    async with Groups() as groups:
        tasks = [groups.joining(instance=name, protocols=("range", "sticky")) for name in "ab"]
        ids = [(await task).member_id for task in tasks]
        await groups.sync(ids[0], 1)
        groups.joining(instance="b", protocols=("sticky",))
        await settle()
        assert groups.state == "PreparingRebalance"


async def test_the_former_incarnation_is_fenced_off() -> None:
    async with Groups() as groups:
        _, old = await two_static(groups)
        await groups.join(instance="b")
        assert await groups.heartbeat(old, 1, instance="b") == FENCED_INSTANCE_ID
        assert (await groups.sync(old, 1, instance="b")).error_code == FENCED_INSTANCE_ID
        assert (await groups.join(old, instance="b")).error_code == FENCED_INSTANCE_ID
        answer = await groups.leave((old, "b"))
        assert answer.members[0].error_code == FENCED_INSTANCE_ID
        offsets = {("orders", 0): 1}
        codes = await groups.commit(offsets, member_id=old, generation=1, instance="b")
        assert codes == {("orders", 0): FENCED_INSTANCE_ID}


async def test_who_still_waits_to_join_is_fenced_off_at_once() -> None:
    async with Groups() as groups:
        first = groups.joining(instance="a")
        await settle()
        second = groups.joining(instance="a")
        assert (await first).error_code == FENCED_INSTANCE_ID
        assert (await second).error_code == OK
        assert len(groups["g"].members) == 1


async def test_a_restart_while_the_leader_assigns_is_a_rebalance() -> None:
    async with Groups() as groups:
        tasks = [groups.joining(instance=name) for name in "ab"]
        first, second = [await task for task in tasks]
        waiting = groups.syncing(second.member_id, 1, instance="b")
        await settle()
        again = groups.joining(instance="b")
        assert (await waiting).error_code == FENCED_INSTANCE_ID
        await settle()
        assert groups.state == "PreparingRebalance"
        assert (await groups.join(first.member_id, instance="a")).generation_id == 2
        assert (await again).generation_id == 2


async def test_an_instance_id_that_nobody_holds_is_unknown() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        assert await groups.heartbeat(member_id, 1, instance="nobody") == UNKNOWN_MEMBER_ID


async def test_a_static_member_that_does_not_rejoin_keeps_its_place_until_its_session_is_over() -> None:
    async with Groups() as groups:
        leader, absent = await two_static(groups, rebalance_ms=6_000)
        task = groups.joining(leader, instance="a", rebalance_ms=6_000)
        await asyncio.sleep(7)
        joined = await task
        assert [member.group_instance_id for member in joined.members] == ["a", "b"]
        await groups.stay_alive([leader], 2, 11)
        assert absent not in groups["g"].members


async def test_who_rejoined_leads_in_the_place_of_a_static_leader_that_did_not() -> None:
    async with Groups() as groups:
        absent, follower = await two_static(groups, rebalance_ms=6_000)
        joined = await groups.join(follower, instance="b", rebalance_ms=6_000, topics=("payments",))
        assert (joined.leader, len(joined.members)) == (follower, 2)
        assert absent in groups["g"].members


async def test_static_members_that_live_but_do_not_rejoin_are_waited_for_again() -> None:
    async with Groups() as groups:
        leader, follower = await two_static(groups, rebalance_ms=6_000)
        _, gone = await groups.arriving(rebalance_ms=6_000)
        await groups.leave(next(member.member_id for member in groups["g"].members if member.is_new))
        assert (await gone).error_code == UNKNOWN_MEMBER_ID
        await groups.stay_alive([leader, follower], 1, 8)
        assert groups.state == "PreparingRebalance"
        joining = groups.joining(leader, instance="a", rebalance_ms=6_000)
        await groups.stay_alive([follower], 1, 5)
        assert joining.done()
        assert (await joining).generation_id == 2


async def test_if_no_static_member_rejoins_their_sessions_empty_the_group() -> None:
    async with Groups() as groups:
        await two_static(groups)
        handed_out = (await groups.join()).member_id
        task = groups.joining(handed_out)
        await settle()
        task.cancel()
        await asyncio.wait([task])
        groups._tasks.remove(task)
        await asyncio.sleep(600)
        assert groups.state == "Empty"


async def test_admin_clients_remove_static_members_by_instance_id() -> None:
    async with Groups() as groups:
        leader, _ = await two_static(groups)
        answer = await groups.leave(("", "b"), ("", "nobody"))
        assert [member.error_code for member in answer.members] == [OK, UNKNOWN_MEMBER_ID]
        assert await groups.heartbeat(leader, 1, instance="a") == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", [8, 9])
async def test_a_replaced_member_is_kept_under_its_new_id_after_a_restart(version: int) -> None:
    async with Groups() as groups:
        await two_static(groups)
        again = await groups.join(instance="b", version=version)
        async with Groups(groups.store) as later:
            assert again.member_id in later["g"].members
            assert (await later.sync(again.member_id, 1, instance="b")).assignment == b"b"
