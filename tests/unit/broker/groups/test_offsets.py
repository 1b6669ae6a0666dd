"""Committed offsets: who may commit, and what is fetched."""

from __future__ import annotations

import asyncio

import pytest

from kclient.broker.groups.base import GroupRecord, MemoryStore
from kclient.errors import NotEnoughReplicasError, StaleMemberEpochError
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.unit.broker.groups.driving import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    OFFSET_METADATA_TOO_LARGE,
    OK,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Groups,
)
from tests.unit.broker.groups.other_kind import OtherGroup

ORDERS = ("orders", 0)
WEEK = 7 * 24 * 3600
FetchGroup = OffsetFetchRequest.OffsetFetchRequestGroup
FetchTopic = FetchGroup.OffsetFetchRequestTopics


async def code(groups: Groups, **options: object) -> int:
    """The error of a commit of one partition."""
    (found,) = (await groups.commit({ORDERS: 5}, **options)).values()  # type: ignore[arg-type]
    return found


async def test_a_group_without_members_is_made_by_a_commit() -> None:
    async with Groups() as groups:
        assert await groups.commit({ORDERS: 5, ("payments", 0): 7}) == {ORDERS: OK, ("payments", 0): OK}
        assert await groups.committed() == {ORDERS: 5, ("payments", 0): 7}
        assert (groups.state, groups["g"].protocol_type) == ("Empty", "")


@pytest.mark.parametrize(("version", "told"), [(8, ILLEGAL_GENERATION), (9, GROUP_ID_NOT_FOUND)])
async def test_a_generation_of_a_group_that_does_not_exist_is_refused(version: int, told: int) -> None:
    async with Groups() as groups:
        assert await code(groups, member_id="m", generation=1, version=version) == told
        assert not groups.coordinator.groups


async def test_members_commit_in_their_generation_only() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        assert await code(groups, member_id=member_id, generation=1) == OK
        assert await code(groups, member_id=member_id, generation=0) == ILLEGAL_GENERATION
        assert await code(groups, member_id=member_id) == ILLEGAL_GENERATION
        assert await code(groups, member_id="stranger", generation=1) == UNKNOWN_MEMBER_ID
        assert await code(groups) == UNKNOWN_MEMBER_ID
        assert await groups.committed() == {ORDERS: 5}


async def test_members_commit_during_a_rebalance_until_they_join_the_next_generation() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        _, other = await groups.arriving()
        assert await code(groups, member_id=member_id, generation=1) == OK
        await groups.join(member_id)
        await other
        assert await code(groups, member_id=member_id, generation=2) == REBALANCE_IN_PROGRESS


async def test_a_commit_keeps_a_session_alive() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        for _ in range(10):
            await asyncio.sleep(5)
            assert await code(groups, member_id=member_id, generation=1) == OK
        assert groups.state == "Stable"


@pytest.mark.parametrize(("metadata", "told"), [("x" * 4096, OK), ("x" * 4097, OFFSET_METADATA_TOO_LARGE)])
async def test_metadata_has_a_limit(metadata: str, told: int) -> None:
    async with Groups() as groups:
        assert await code(groups, metadata=metadata) == told
        assert bool(await groups.committed()) == (told == OK)


async def test_partitions_that_do_not_exist_are_refused_and_the_others_committed() -> None:
    async with Groups() as groups:
        offsets = {("orders", 2): 1, ("orders", 3): 2, ("nothing", 0): 3, ("orders", -1): 4}
        assert await groups.commit(offsets) == {
            ("orders", 2): OK,
            ("orders", 3): UNKNOWN_TOPIC_OR_PARTITION,
            ("nothing", 0): UNKNOWN_TOPIC_OR_PARTITION,
            ("orders", -1): UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await groups.committed() == {("orders", 2): 1}


async def test_null_metadata_is_kept_as_empty() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5}, metadata=None)
        committed = groups.coordinator.offsets.get("g", "orders", 0)
        assert committed is not None
        assert committed.metadata == ""


async def test_topics_are_named_by_id_from_version_ten() -> None:
    async with Groups() as groups:
        topic_id = groups.topics.by_name["orders"].topic_id
        assert await groups.commit({ORDERS: 5}, version=10) == {(str(topic_id), 0): OK}
        unknown = groups.topics.by_name["payments"].topic_id
        del groups.topics.by_name["payments"]
        asked = FetchGroup(
            group_id="g",
            topics=[
                FetchTopic(topic_id=unknown, partition_indexes=[0]),
                FetchTopic(topic_id=topic_id, partition_indexes=[0, 1]),
            ],
        )
        (answer,) = (await groups.fetch(OffsetFetchRequest(groups=[asked]), version=10)).groups
        assert [topic.topic_id for topic in answer.topics] == [topic_id, unknown]
        assert [one.committed_offset for one in answer.topics[0].partitions] == [5, -1]
        assert [one.error_code for one in answer.topics[1].partitions] == [UNKNOWN_TOPIC_ID]


async def test_a_commit_to_an_unknown_id_is_refused() -> None:
    async with Groups() as groups:
        topic_id = groups.topics.by_name["orders"].topic_id
        commit = groups.coordinator.offset_commit
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = kind.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id="g", member_id="", topics=[kind(topic_id=topic_id, partitions=[partition])]
        )
        del groups.topics.by_name["orders"]
        (topic,) = (await commit(request, 10)).topics
        assert (topic.topic_id, topic.partitions[0].error_code) == (topic_id, UNKNOWN_TOPIC_ID)


async def test_an_offset_of_a_topic_that_was_made_anew_is_not_shown_for_the_new_one() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5}, version=10)
        del groups.topics.by_name["orders"]
        groups.topics.add("another", 1)
        groups.topics.add("orders", 3)
        asked = FetchGroup(
            group_id="g",
            topics=[FetchTopic(topic_id=groups.topics.by_name["orders"].topic_id, partition_indexes=[0])],
        )
        (answer,) = (await groups.fetch(OffsetFetchRequest(groups=[asked]), version=10)).groups
        assert answer.topics[0].partitions[0].committed_offset == -1


async def test_all_topics_are_fetched_by_id_except_those_that_are_gone() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5, ("payments", 0): 6})
        del groups.topics.by_name["payments"]
        asked = FetchGroup(group_id="g", topics=None)
        (answer,) = (await groups.fetch(OffsetFetchRequest(groups=[asked]), version=10)).groups
        assert [topic.topic_id for topic in answer.topics] == [groups.topics.by_name["orders"].topic_id]


async def test_several_groups_are_fetched_at_once() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 1}, group="one")
        await groups.commit({ORDERS: 2}, group="two")
        asked = [
            FetchGroup(group_id="one", topics=None),
            FetchGroup(group_id="two", topics=[FetchTopic(name="orders", partition_indexes=[0, 7])]),
            FetchGroup(group_id="none", topics=[FetchTopic(name="orders", partition_indexes=[0])]),
        ]
        one, two, none = (await groups.fetch(OffsetFetchRequest(groups=asked))).groups
        assert [part.committed_offset for part in one.topics[0].partitions] == [1]
        assert [part.committed_offset for part in two.topics[0].partitions] == [2, -1]
        assert (none.error_code, none.topics[0].partitions[0].committed_offset) == (OK, -1)
        assert none.topics[0].partitions[0].metadata == ""


def old_fetch(group: str, partitions: list[int] | None) -> OffsetFetchRequest:
    kind = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if partitions is None else [kind(name="orders", partition_indexes=partitions)]
    return OffsetFetchRequest(group_id=group, topics=topics)


def old_offsets(response: OffsetFetchResponse) -> list[tuple[str, int, int]]:
    return [
        (topic.name, one.partition_index, one.committed_offset)
        for topic in response.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
async def test_old_versions_fetch_one_group(version: int) -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5})
        response = await groups.fetch(old_fetch("g", [0, 1]), version)
        assert old_offsets(response) == [("orders", 0, 5), ("orders", 1, -1)]
        if version >= 2:
            assert old_offsets(await groups.fetch(old_fetch("g", None), version)) == [("orders", 0, 5)]
            assert old_offsets(await groups.fetch(old_fetch("none", None), version)) == []


@pytest.mark.parametrize("version", [1, 7, 9])
async def test_what_is_wrong_with_a_group_is_told_where_the_version_has_a_place_for_it(version: int) -> None:
    async with Groups() as groups:
        groups.coordinator.groups["g"] = OtherGroup("g", fetch_error=StaleMemberEpochError())
        if version >= 8:
            asked = FetchGroup(group_id="g", member_id="m", member_epoch=3, topics=None)
            (answer,) = (await groups.fetch(OffsetFetchRequest(groups=[asked]), version)).groups
            assert (answer.error_code, answer.topics) == (STALE_MEMBER_EPOCH, [])
            return
        response = await groups.fetch(old_fetch("g", [0]), version)
        if version >= 2:
            assert (response.error_code, response.topics) == (STALE_MEMBER_EPOCH, [])
        else:
            assert response.topics[0].partitions[0].error_code == STALE_MEMBER_EPOCH


async def test_a_group_of_another_kind_decides_itself_who_may_commit() -> None:
    async with Groups() as groups:
        other = OtherGroup("g")
        groups.coordinator.groups["g"] = other
        assert await code(groups, member_id="m", generation=3, instance="i") == OK
        assert other.commits == [("m", 3, "i", 9)]
        other.commit_error = StaleMemberEpochError()
        assert await code(groups, member_id="m", generation=2) == STALE_MEMBER_EPOCH


class FullStore(MemoryStore):
    def append(self, group_id: str, records: list[GroupRecord]) -> None:  # noqa: ARG002
        raise NotEnoughReplicasError(about=group_id)


async def test_an_offset_that_cannot_be_stored_is_not_committed() -> None:
    async with Groups(FullStore()) as groups:
        assert await code(groups) == COORDINATOR_NOT_AVAILABLE
        assert not groups.coordinator.offsets.groups()
        assert not groups.coordinator.groups
