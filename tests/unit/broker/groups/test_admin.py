"""Listing, describing and deleting groups, of either kind."""

from __future__ import annotations

import pytest

from kclient.broker.groups.base import MemoryStore
from kclient.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from tests.unit.broker.groups.driving import (
    GROUP_ID_NOT_FOUND,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    OK,
    UNKNOWN_MEMBER_ID,
    Groups,
    settle,
    subscription,
)
from tests.unit.broker.groups.other_kind import OtherGroup

ORDERS = ("orders", 0)


async def listed(groups: Groups, states: list[str], types: list[str]) -> list[tuple[str, str, str, str]]:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    response = await groups.coordinator.list_groups(request)
    response.encode(5)
    return [
        (group.group_id, group.protocol_type, group.group_state, group.group_type)
        for group in response.groups
    ]


STABLE = ("busy", "consumer", "Stable", "classic")
SIMPLE = ("simple", "", "Empty", "classic")
OTHER = ("other", "consumer", "Assigning", "consumer")


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], [STABLE, SIMPLE, OTHER]),
        (["stable"], [], [STABLE]),
        (["Empty", "ASSIGNING"], [], [SIMPLE, OTHER]),
        ([], ["Classic"], [STABLE, SIMPLE]),
        ([], ["consumer"], [OTHER]),
        (["Stable"], ["consumer"], []),
        (["no such state"], [], []),
    ],
)
async def test_groups_are_listed_by_state_and_type(
    states: list[str], types: list[str], found: list[tuple[str, str, str, str]]
) -> None:
    async with Groups() as groups:
        await groups.stable(group="busy")
        await groups.commit({ORDERS: 1}, group="simple")
        groups.coordinator.groups["other"] = OtherGroup("other")
        assert await listed(groups, states, types) == found


async def test_a_stable_group_is_described_with_what_its_members_sent_and_got() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        group = await groups.describe()
        assert (group.error_code, group.group_state) == (OK, "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        (member,) = group.members
        assert (member.client_id, member.client_host) == ("app", "/10.0.0.1")
        assert member.member_metadata == subscription(["orders"])
        assert member.member_assignment == member_id.encode()


async def test_while_it_rebalances_a_group_shows_no_protocol() -> None:
    async with Groups() as groups:
        await groups.stable()
        await groups.arriving()
        group = await groups.describe()
        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert [member.member_metadata for member in group.members] == [b"", b""]


async def test_each_state_is_shown_under_its_name() -> None:
    async with Groups() as groups:
        seen = [(await groups.describe(version=5)).group_state]
        handed_out = (await groups.join()).member_id
        seen.append((await groups.describe()).group_state)
        task = groups.joining(handed_out)
        await settle()
        seen.append((await groups.describe()).group_state)
        await task
        seen.append((await groups.describe()).group_state)
        await groups.sync(handed_out, 1)
        seen.append((await groups.describe()).group_state)
        assert seen == ["Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


@pytest.mark.parametrize(
    ("version", "told", "message"),
    [(5, OK, None), (6, GROUP_ID_NOT_FOUND, "Group none not found.")],
)
async def test_a_group_that_does_not_exist_is_dead(version: int, told: int, message: str | None) -> None:
    async with Groups() as groups:
        group = await groups.describe("none", version)
        assert (group.error_code, group.error_message, group.group_state) == (told, message, "Dead")


async def test_a_group_of_another_kind_is_not_described() -> None:
    async with Groups() as groups:
        groups.coordinator.groups["other"] = OtherGroup("other")
        group = await groups.describe("other")
        assert (group.error_code, group.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
        assert group.error_message == "Group other is not a classic group."


async def test_what_may_be_done_with_a_group_is_said_to_those_who_ask() -> None:
    async with Groups() as groups:
        await groups.stable()
        assert (await groups.describe()).authorized_operations == -(2**31)
        request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
        response = await groups.coordinator.describe_groups(request, 6)
        operations = response.groups[0].authorized_operations
        assert [bit for bit in range(32) if operations >> bit & 1] == [3, 6, 8, 10, 11]


async def delete(groups: Groups, *names: str) -> list[int]:
    response = await groups.coordinator.delete_groups(DeleteGroupsRequest(groups_names=list(names)))
    response.encode(2)
    return [result.error_code for result in response.results]


async def test_empty_groups_are_deleted_with_their_offsets() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 1}, group="simple")
        await groups.stable(group="busy")
        groups.coordinator.groups["other"] = OtherGroup("other", empty=True)
        codes = await delete(groups, "simple", "busy", "none", "other")
        assert codes == [OK, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, OK]
        assert list(groups.coordinator.groups) == ["busy"]
        assert groups.coordinator.offsets.groups() == []
        async with Groups(groups.store) as later:
            assert list(later.coordinator.groups) == ["busy"]


async def test_an_id_that_was_handed_out_does_not_outlive_its_group() -> None:
    async with Groups() as groups:
        handed_out = (await groups.join()).member_id
        assert await delete(groups, "g") == [OK]
        assert (await groups.join(handed_out)).error_code == UNKNOWN_MEMBER_ID


async def test_an_empty_group_of_another_kind_is_taken_over_with_its_offsets() -> None:
    async with Groups() as groups:
        other = OtherGroup("g", empty=True)
        groups.coordinator.groups["g"] = other
        ((key, _),) = other.tombstones()
        assert isinstance(groups.store, MemoryStore)
        groups.store.append("g", [(key, b"")])
        await groups.commit({ORDERS: 5})
        await groups.stable()
        assert other.closed
        assert key not in groups.store.records
        assert await groups.committed() == {ORDERS: 5}


async def test_a_group_of_another_kind_with_members_cannot_be_joined() -> None:
    async with Groups() as groups:
        groups.coordinator.groups["g"] = OtherGroup("g")
        assert (await groups.join()).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert await groups.heartbeat("m", 1) == UNKNOWN_MEMBER_ID
        assert (await groups.sync("m", 1)).error_code == UNKNOWN_MEMBER_ID
        assert (await groups.leave("m")).members[0].error_code == UNKNOWN_MEMBER_ID


async def test_a_group_that_was_deleted_can_be_joined_anew() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await groups.leave(member_id)
        assert await delete(groups, "g") == [OK]
        assert (await groups.join()).error_code == MEMBER_ID_REQUIRED
        assert groups["g"].generation == 0
