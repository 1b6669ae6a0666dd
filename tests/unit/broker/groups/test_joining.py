"""Who is taken into a classic group, under which id, and when the group is complete."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.broker.groups.driving import (
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Groups,
    now,
    settle,
)


async def test_a_new_member_is_given_an_id_and_has_to_come_back_with_it() -> None:
    async with Groups() as groups:
        first = await groups.join()
        assert (first.error_code, first.generation_id, first.protocol_name) == (MEMBER_ID_REQUIRED, -1, None)
        assert first.member_id.startswith("app-")
        second = await groups.join(first.member_id)
        assert (second.error_code, second.member_id) == (OK, first.member_id)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_old_versions_join_at_once_without_an_id(version: int) -> None:
    async with Groups() as groups:
        joined = await groups.join(version=version)
        assert (joined.error_code, joined.generation_id, joined.leader) == (OK, 1, joined.member_id)


async def test_a_refused_join_of_an_old_version_names_no_protocol_but_not_null() -> None:
    async with Groups() as groups:
        assert (await groups.join(version=6)).protocol_name == ""


async def test_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() -> None:
    async with Groups() as groups:
        member_id = (await groups.join()).member_id
        await asyncio.sleep(10.1)
        assert (await groups.join(member_id)).error_code == UNKNOWN_MEMBER_ID


async def test_the_first_member_waits_for_the_initial_delay_and_leads() -> None:
    async with Groups() as groups:
        member_id, task = await groups.arriving()
        assert groups.state == "PreparingRebalance"
        joined = await task
        assert now() == pytest.approx(3.0)
        assert (joined.generation_id, joined.leader, joined.protocol_name) == (1, member_id, "range")
        assert [member.member_id for member in joined.members] == [member_id]
        assert groups.state == "CompletingRebalance"


async def test_each_new_member_prolongs_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    async with Groups() as groups:
        tasks = []
        for _ in range(3):
            tasks.append((await groups.arriving(rebalance_ms=7_000))[1])
            await asyncio.sleep(2.5 if len(tasks) < 3 else 0)
        assert {(await task).generation_id for task in tasks} == {1}
        assert now() == pytest.approx(7.0)


async def test_one_answer_shows_all_members_and_the_others_none() -> None:
    async with Groups() as groups:
        arrivals = [await groups.arriving() for _ in range(3)]
        answers = [await task for _, task in arrivals]
        ids = [member_id for member_id, _ in arrivals]
        assert [len(answer.members) for answer in answers] == [3, 0, 0]
        assert {answer.leader for answer in answers} == {ids[0]}
        assert [member.member_id for member in answers[0].members] == ids


async def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    async with Groups(group_initial_rebalance_delay_ms=0) as groups:
        _, task = await groups.arriving()
        assert (await task).error_code == OK
        assert now() == 0


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
async def test_a_session_timeout_outside_the_limits_is_refused(session_ms: int) -> None:
    async with Groups() as groups:
        refused = await groups.join("somebody", session_ms=session_ms)
        assert (refused.error_code, refused.member_id) == (INVALID_SESSION_TIMEOUT, "somebody")
        assert not groups.coordinator.groups


async def test_an_empty_group_id_cannot_be_joined() -> None:
    async with Groups() as groups:
        assert (await groups.join(group="")).error_code == INVALID_GROUP_ID


async def test_a_member_id_of_a_group_that_does_not_exist_is_unknown() -> None:
    async with Groups() as groups:
        assert (await groups.join("somebody")).error_code == UNKNOWN_MEMBER_ID
        assert not groups.coordinator.groups


async def test_a_member_id_that_was_never_handed_out_is_unknown() -> None:
    async with Groups() as groups:
        await groups.stable()
        assert (await groups.join("somebody")).error_code == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("kind", "protocols"), [("", ("range",)), ("consumer", ())])
async def test_a_join_without_protocols_is_refused(kind: str, protocols: tuple[str, ...]) -> None:
    async with Groups() as groups:
        assert (await groups.join(kind=kind, protocols=protocols)).error_code == INCONSISTENT_GROUP_PROTOCOL


async def test_a_member_that_speaks_none_of_the_groups_protocols_is_refused() -> None:
    async with Groups() as groups:
        await groups.stable(protocols=("range", "roundrobin"))
        assert (await groups.join(protocols=("sticky",))).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert (await groups.join(kind="connect")).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert (await groups.join(protocols=("sticky", "range"))).error_code == MEMBER_ID_REQUIRED


async def test_the_protocol_that_most_members_prefer_is_chosen_among_those_all_speak() -> None:
    async with Groups() as groups:
        likes = [("range", "sticky", "own"), ("sticky", "range"), ("sticky", "range")]
        tasks = [(await groups.arriving(protocols=protocols))[1] for protocols in likes]
        assert {(await task).protocol_name for task in tasks} == {"sticky"}


async def test_a_full_group_takes_nobody_else() -> None:
    async with Groups(group_max_size=2) as groups:
        ids = await groups.stable(2)
        refused = await groups.join(version=3)
        assert (refused.error_code, refused.member_id) == (GROUP_MAX_SIZE_REACHED, "")
        assert groups.state == "Stable"
        assert (await groups.heartbeat(ids[0], 1)) == OK


async def test_during_a_rebalance_those_who_come_last_do_not_fit_in() -> None:
    async with Groups(group_max_size=2) as groups:
        ids = await groups.stable(2)
        leader = groups.joining(ids[0])
        await settle()
        late = groups.joining(version=3)
        await settle()
        assert (await groups.join(ids[1])).error_code == GROUP_MAX_SIZE_REACHED
        assert ids[1] not in groups["g"].members
        await asyncio.sleep(61)
        assert leader.done()
        assert late.done()


async def test_a_new_member_makes_a_stable_group_rebalance() -> None:
    async with Groups() as groups:
        (leader,) = await groups.stable()
        _, newcomer = await groups.arriving()
        assert groups.state == "PreparingRebalance"
        assert await groups.heartbeat(leader, 1) == REBALANCE_IN_PROGRESS
        again = await groups.join(leader)
        assert (again.generation_id, (await newcomer).generation_id) == (2, 2)
        assert now() == pytest.approx(3.0)


async def test_a_rebalance_waits_for_ids_that_were_handed_out() -> None:
    async with Groups() as groups:
        (leader,) = await groups.stable()
        handed_out = (await groups.join()).member_id
        leader_join = groups.joining(leader)
        await settle()
        assert not leader_join.done()
        assert (await groups.join(handed_out)).generation_id == 2
        assert (await leader_join).generation_id == 2


async def test_a_follower_that_joins_again_unchanged_is_told_the_generation() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        again = await groups.join(follower)
        assert (again.generation_id, again.leader, again.members) == (1, leader, [])
        assert groups.state == "Stable"


async def test_a_follower_that_subscribes_to_something_else_makes_the_group_rebalance() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        task = groups.joining(follower, topics=("payments",))
        await settle()
        assert groups.state == "PreparingRebalance"
        assert (await groups.join(leader)).generation_id == 2
        assert (await task).generation_id == 2


async def test_a_leader_that_joins_again_makes_the_group_rebalance() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        task = groups.joining(leader)
        await settle()
        assert groups.state == "PreparingRebalance"
        assert (await groups.join(follower)).generation_id == 2
        assert len((await task).members) == 2


async def test_a_member_that_missed_the_answer_to_its_join_gets_it_again() -> None:
    async with Groups() as groups:
        member_id, task = await groups.arriving()
        first = await task
        assert await groups.join(member_id) == first
        assert groups.state == "CompletingRebalance"


async def test_a_join_that_is_repeated_on_another_connection_replaces_the_first() -> None:
    async with Groups() as groups:
        member_id, given_up = await groups.arriving()
        second = groups.joining(member_id)
        await settle()
        assert (await given_up).error_code == REBALANCE_IN_PROGRESS
        assert (await second).error_code == OK


async def test_a_client_that_goes_away_while_it_joins_does_not_hold_up_the_others() -> None:
    async with Groups() as groups:
        _, gone = await groups.arriving()
        _, stays = await groups.arriving()
        gone.cancel()
        await asyncio.wait([gone])
        groups._tasks.remove(gone)
        assert (await stays).generation_id == 1
        await asyncio.sleep(3 * 60)
        assert len(groups["g"].members) < 2


async def test_a_new_member_that_is_never_answered_is_dropped_after_five_minutes() -> None:
    async with Groups() as groups:
        (leader,) = await groups.stable(rebalance_ms=1_000_000)
        _, newcomer = await groups.arriving(rebalance_ms=1_000_000)
        await groups.stay_alive([leader], 1, 299)
        assert not newcomer.done()
        await groups.stay_alive([leader], 1, 2)
        assert (await newcomer).error_code == UNKNOWN_MEMBER_ID


async def test_a_stopped_coordinator_takes_nobody() -> None:
    async with Groups() as groups:
        groups.coordinator.close()
        assert (await groups.join()).error_code == 15
