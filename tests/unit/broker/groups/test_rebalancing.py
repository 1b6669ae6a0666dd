"""Sessions, rebalance timeouts and syncs: how a group gets to its next generation."""

from __future__ import annotations

import asyncio

import pytest

from kclient.broker.groups.base import GroupRecord, MemoryStore
from kclient.errors import BrokerError, KafkaStorageError, NotEnoughReplicasError
from tests.unit.broker.groups.driving import (
    COORDINATOR_NOT_AVAILABLE,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    NOT_COORDINATOR,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Groups,
    settle,
)


async def test_a_member_that_sends_heartbeats_stays() -> None:
    async with Groups() as groups:
        ids = await groups.stable(2)
        await groups.stay_alive(ids, 1, 120)
        assert groups.state == "Stable"


async def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    async with Groups() as groups:
        leader, silent = await groups.stable(2)
        await groups.stay_alive([leader], 1, 9)
        assert groups.state == "Stable"
        await groups.stay_alive([leader], 1, 2)
        assert groups.state == "PreparingRebalance"
        assert await groups.heartbeat(silent, 1) == UNKNOWN_MEMBER_ID
        assert (await groups.join(leader)).generation_id == 2


async def test_a_group_without_a_living_member_is_empty_in_a_new_generation() -> None:
    async with Groups() as groups:
        await groups.stable(3)
        await asyncio.sleep(120)
        assert groups.state == "Empty"
        assert groups["g"].generation > 1


async def test_a_member_that_waits_for_an_answer_needs_no_heartbeats() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        waiting = groups.joining(leader)
        await settle()
        await groups.stay_alive([follower], 1, 40)
        assert not waiting.done()
        assert (await groups.join(follower)).generation_id == 2
        assert (await waiting).members


async def test_a_member_that_does_not_rejoin_in_time_is_out() -> None:
    async with Groups() as groups:
        leader, follower = await groups.stable(2)
        waiting = groups.joining(follower, topics=("payments",))
        await settle()
        await groups.stay_alive([leader], 1, 59)
        assert not waiting.done()
        await groups.stay_alive([leader], 1, 2)
        joined = await waiting
        assert (joined.generation_id, joined.leader) == (2, follower)
        assert [member.member_id for member in joined.members] == [follower]
        assert await groups.heartbeat(leader, 1) == UNKNOWN_MEMBER_ID


async def test_the_longest_rebalance_timeout_of_the_members_counts() -> None:
    async with Groups() as groups:
        arrivals = [await groups.arriving(rebalance_ms=ms) for ms in (20_000, 90_000)]
        (leader, first), (follower, second) = arrivals
        await first
        await second
        await groups.sync(leader, 1)
        await groups.sync(follower, 1)
        waiting = groups.joining(leader, rebalance_ms=20_000)
        await settle()
        await groups.stay_alive([follower], 1, 80)
        assert not waiting.done()
        await groups.stay_alive([follower], 1, 11)
        assert (await waiting).generation_id == 2


async def test_the_first_version_takes_its_session_timeout_for_the_rebalance_timeout() -> None:
    async with Groups() as groups:
        member_id = (await groups.join(version=0, session_ms=7_000)).member_id
        assert groups["g"].members[member_id].rebalance_timeout_ms == 7_000


async def test_everybody_gets_what_the_leader_assigned_and_nothing_where_it_forgot_them() -> None:
    async with Groups() as groups:
        arrivals = [await groups.arriving() for _ in range(3)]
        ids = [member_id for member_id, _ in arrivals]
        for _, task in arrivals:
            await task
        syncs = [groups.syncing(one, 1) for one in ids[1:]]
        await settle()
        assert not syncs[0].done()
        leader = await groups.sync(ids[0], 1, {ids[0]: b"zero", ids[1]: b"one"})
        assert (leader.assignment, leader.protocol_type, leader.protocol_name) == (
            b"zero",
            "consumer",
            "range",
        )
        assert [(await task).assignment for task in syncs] == [b"one", b""]
        assert groups.state == "Stable"


async def test_a_sync_after_the_leaders_is_answered_at_once() -> None:
    async with Groups() as groups:
        (_, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        leader = (await first).member_id
        await second
        await groups.sync(leader, 1, {follower: b"yours"})
        assert (await groups.sync(follower, 1)).assignment == b"yours"
        assert (await groups.sync(follower, 1)).assignment == b"yours"


async def test_a_leader_that_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    async with Groups() as groups:
        (leader, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        waiting = groups.syncing(follower, 1)
        await groups.stay_alive([leader], 1, 61)
        assert (await waiting).error_code == REBALANCE_IN_PROGRESS
        assert await groups.heartbeat(leader, 1) == UNKNOWN_MEMBER_ID
        assert (await groups.join(follower)).leader == follower


async def test_a_follower_that_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    async with Groups() as groups:
        (leader, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        await groups.sync(leader, 1, {leader: b"all"})
        await groups.stay_alive([leader, follower], 1, 61)
        assert follower not in groups["g"].members
        assert groups.state == "PreparingRebalance"


async def test_a_rebalance_while_the_leader_assigns_ends_the_syncs() -> None:
    async with Groups() as groups:
        (_, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        waiting = groups.syncing(follower, 1)
        await settle()
        await groups.arriving()
        refused = await waiting
        assert (refused.error_code, refused.assignment) == (REBALANCE_IN_PROGRESS, b"")
        assert (refused.protocol_type, refused.protocol_name) == (None, None)


async def test_a_sync_that_is_repeated_on_another_connection_replaces_the_first() -> None:
    async with Groups() as groups:
        (leader, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        given_up = groups.syncing(follower, 1)
        await settle()
        again = groups.syncing(follower, 1)
        assert (await given_up).error_code == REBALANCE_IN_PROGRESS
        await groups.sync(leader, 1, {follower: b"yours"})
        assert (await again).assignment == b"yours"


async def test_a_member_that_falls_silent_after_its_join_is_out_after_its_session_timeout() -> None:
    async with Groups() as groups:
        (leader, first), (silent, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        await groups.stay_alive([leader], 1, 11)
        assert silent not in groups["g"].members


async def test_a_member_that_falls_silent_after_a_long_sync_is_out_after_its_session_timeout() -> None:
    async with Groups() as groups:
        (leader, first), (silent, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        waiting = groups.syncing(silent, 1)
        await groups.stay_alive([leader], 1, 30)
        await groups.sync(leader, 1, {silent: b"yours"})
        assert (await waiting).assignment == b"yours"
        await groups.stay_alive([leader], 1, 11)
        assert silent not in groups["g"].members


async def test_a_member_that_falls_silent_after_a_sync_in_vain_is_out_after_its_session_timeout() -> None:
    async with Groups() as groups:
        (leader, first), (silent, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        waiting = groups.syncing(silent, 1)
        await groups.stay_alive([leader], 1, 30)
        await groups.arriving()
        assert (await waiting).error_code == REBALANCE_IN_PROGRESS
        await groups.stay_alive([leader], 1, 11)
        assert silent not in groups["g"].members


async def test_a_new_rebalance_gives_those_who_have_not_synced_another_chance() -> None:
    async with Groups() as groups:
        (leader, first), (late, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        await groups.sync(leader, 1)
        await groups.stay_alive([leader, late], 1, 50)
        await groups.arriving()
        await groups.stay_alive([leader, late], 1, 30)
        assert late in groups["g"].members
        assert groups.state == "PreparingRebalance"


async def test_a_sync_is_checked() -> None:
    async with Groups() as groups:
        assert (await groups.sync("x", 1, group="")).error_code == INVALID_GROUP_ID
        assert (await groups.sync("x", 1, group="none")).error_code == UNKNOWN_MEMBER_ID
        (member_id,) = await groups.stable()
        assert (await groups.sync("x", 1)).error_code == UNKNOWN_MEMBER_ID
        assert (await groups.sync(member_id, 2)).error_code == ILLEGAL_GENERATION
        assert (await groups.sync(member_id, 1, protocol="sticky")).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert (await groups.sync(member_id, 1, kind="connect")).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert (await groups.sync(member_id, 1, protocol="range", kind="consumer")).error_code == OK
        await groups.arriving()
        assert (await groups.sync(member_id, 1)).error_code == REBALANCE_IN_PROGRESS


async def test_a_heartbeat_is_checked() -> None:
    async with Groups() as groups:
        assert await groups.heartbeat("x", 1, group="") == INVALID_GROUP_ID
        assert await groups.heartbeat("x", 1, group="none") == UNKNOWN_MEMBER_ID
        member_id, task = await groups.arriving()
        await task
        assert await groups.heartbeat(member_id, 1) == OK
        assert await groups.heartbeat(member_id, 2) == ILLEGAL_GENERATION
        assert await groups.heartbeat("x", 1) == UNKNOWN_MEMBER_ID


async def test_closing_sends_everybody_who_waits_elsewhere() -> None:
    async with Groups() as groups:
        _, join = await groups.arriving(group="one")
        (_, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        sync = groups.syncing(follower, 1)
        other = groups.joining((await join).member_id, group="one")
        groups.joining(version=3, group="two")
        last = groups.joining(version=3, group="two")
        await settle()
        groups.coordinator.close()
        assert (await sync).error_code == NOT_COORDINATOR
        assert (await last).error_code == NOT_COORDINATOR
        assert (await other).error_code == OK
        assert await groups.heartbeat(follower, 1) == COORDINATOR_NOT_AVAILABLE


class FailingStore(MemoryStore):
    """A store that cannot be written to from some moment on."""

    error: BrokerError | None = None

    def append(self, group_id: str, records: list[GroupRecord]) -> None:
        if self.error is not None:
            raise self.error
        super().append(group_id, records)


@pytest.mark.parametrize(
    ("error", "told"),
    [(NotEnoughReplicasError(), COORDINATOR_NOT_AVAILABLE), (KafkaStorageError(), NOT_COORDINATOR)],
)
async def test_an_assignment_that_cannot_be_stored_is_not_handed_out(error: BrokerError, told: int) -> None:
    store = FailingStore()
    async with Groups(store) as groups:
        (leader, first), (follower, second) = [await groups.arriving() for _ in range(2)]
        await first
        await second
        waiting = groups.syncing(follower, 1)
        await settle()
        store.error = error
        refused = await groups.sync(leader, 1, {leader: b"all"})
        assert (refused.error_code, refused.assignment) == (told, b"")
        assert (await waiting).error_code == told
        assert groups.state == "PreparingRebalance"
        store.error = None
