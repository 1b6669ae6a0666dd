"""Members that leave by themselves, or are removed by an admin client."""

from __future__ import annotations

from tests.unit.broker.groups.driving import (
    INVALID_GROUP_ID,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Groups,
    settle,
)


async def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        answer = await groups.leave(leader)
        assert [(one.member_id, one.error_code) for one in answer.members] == [(leader, OK)]
        assert await groups.heartbeat(follower, 1) == REBALANCE_IN_PROGRESS
        assert (await groups.join(follower)).leader == follower


async def test_several_members_leave_with_one_request() -> None:
    async with Groups() as groups:
        ids = await groups.stable(3)
        answer = await groups.leave(ids[0], "stranger", ids[2])
        assert answer.error_code == OK
        assert [one.error_code for one in answer.members] == [OK, UNKNOWN_MEMBER_ID, OK]
        assert [member.member_id for member in groups["g"].members] == [ids[1]]


async def test_before_version_three_the_answer_has_the_error_of_the_one_member() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        assert (await groups.leave("stranger", version=2)).error_code == UNKNOWN_MEMBER_ID
        assert (await groups.leave(member_id, version=2)).error_code == OK
        assert (await groups.leave(member_id, group="none", version=2)).error_code == UNKNOWN_MEMBER_ID


async def test_the_last_member_leaves_an_empty_group_in_a_new_generation() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await groups.leave(member_id)
        assert (groups.state, groups["g"].generation) == ("Empty", 2)


async def test_who_leaves_a_group_that_does_not_exist_was_not_a_member() -> None:
    async with Groups() as groups:
        answer = await groups.leave("a", "b", group="none")
        assert (answer.error_code, [one.error_code for one in answer.members]) == (OK, [25, 25])
        assert (await groups.leave("a", group="")).error_code == INVALID_GROUP_ID


async def test_an_id_that_was_handed_out_can_leave() -> None:
    async with Groups() as groups:
        handed_out = (await groups.join()).member_id
        assert (await groups.leave(handed_out)).members[0].error_code == OK
        assert (await groups.join(handed_out)).error_code == UNKNOWN_MEMBER_ID


async def test_who_leaves_while_it_waits_is_told() -> None:
    async with Groups() as groups:
        member_id, task = await groups.arriving()
        await groups.leave(member_id)
        assert (await task).error_code == UNKNOWN_MEMBER_ID
        (_, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        waiting = groups.syncing(follower, groups["g"].generation)
        await settle()
        await groups.leave(follower)
        assert (await waiting).error_code == UNKNOWN_MEMBER_ID


async def test_a_member_that_leaves_completes_the_rebalance_that_waits_for_it() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        waiting = groups.joining(leader)
        await settle()
        await groups.leave(follower)
        assert (await waiting).generation_id == 2
