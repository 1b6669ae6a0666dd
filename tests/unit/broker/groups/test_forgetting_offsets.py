"""Committed offsets that are deleted, and those that grow too old."""

from __future__ import annotations

from kclient.wire.messages.group_offsets import OffsetDeleteRequest, OffsetDeleteResponse
from tests.unit.broker.groups.driving import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    OK,
    UNKNOWN_TOPIC_OR_PARTITION,
    Groups,
    settle,
)

ORDERS = ("orders", 0)
WEEK = 7 * 24 * 3600


async def delete(groups: Groups, *partitions: tuple[str, int], group: str = "g") -> OffsetDeleteResponse:
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics = [
        kind(name=name, partitions=[kind.OffsetDeleteRequestPartition(partition_index=index)])
        for name, index in partitions
    ]
    response = await groups.coordinator.offset_delete(OffsetDeleteRequest(group_id=group, topics=topics))
    response.encode(0)
    return response


def delete_codes(response: OffsetDeleteResponse) -> list[int]:
    return [one.error_code for topic in response.topics for one in topic.partitions]


async def test_offsets_of_topics_that_nobody_consumes_are_deleted() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await groups.commit({ORDERS: 5, ("payments", 0): 6}, member_id=member_id, generation=1)
        response = await delete(groups, ORDERS, ("payments", 0), ("nothing", 0), ("payments", 1))
        assert delete_codes(response) == [
            GROUP_SUBSCRIBED_TO_TOPIC,
            OK,
            UNKNOWN_TOPIC_OR_PARTITION,
            UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await groups.committed() == {ORDERS: 5}


async def test_offsets_of_members_that_are_no_consumers_are_not_deleted_while_they_are_there() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable(kind="connect")
        assert (await delete(groups, ORDERS)).error_code == NON_EMPTY_GROUP
        await groups.leave(member_id)
        assert (await delete(groups, ORDERS)).error_code == OK


async def test_consumers_with_subscriptions_that_cannot_be_read_may_consume_anything() -> None:
    async with Groups() as groups:
        await groups.stable(metadata=b"\x00")
        assert delete_codes(await delete(groups, ORDERS)) == [GROUP_SUBSCRIBED_TO_TOPIC]


async def test_offsets_of_no_group_cannot_be_deleted() -> None:
    async with Groups() as groups:
        assert (await delete(groups, ORDERS)).error_code == GROUP_ID_NOT_FOUND
        assert (await delete(groups, ORDERS, group="")).error_code == INVALID_GROUP_ID


async def test_offsets_expire_after_the_group_was_empty_for_the_retention() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await groups.commit({ORDERS: 5}, member_id=member_id, generation=1)
        groups.clock.ahead += 2 * WEEK
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {ORDERS: 5}
        await groups.leave(member_id)
        groups.clock.ahead += WEEK - 1
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {ORDERS: 5}
        groups.clock.ahead += 1
        groups.coordinator.expire_offsets()
        assert "g" not in groups.coordinator.groups
        assert groups.store.records == {}  # type: ignore[attr-defined]


async def test_offsets_of_a_group_without_members_expire_after_their_commit() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5})
        groups.clock.ahead += WEEK / 2
        await groups.commit({("payments", 0): 6})
        groups.clock.ahead += WEEK / 2
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {("payments", 0): 6}


async def test_offsets_of_topics_that_a_stable_group_left_expire() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await groups.commit({ORDERS: 5, ("payments", 0): 6}, member_id=member_id, generation=1)
        groups.clock.ahead += WEEK
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {ORDERS: 5}


async def test_nothing_expires_during_a_rebalance() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await groups.commit({("payments", 0): 6}, member_id=member_id, generation=1)
        groups.joining(member_id, topics=("payments",))
        await groups.arriving()
        await settle()
        groups.clock.ahead += WEEK
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {("payments", 0): 6}


async def test_old_clients_say_themselves_how_long_an_offset_is_kept() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5}, version=4, retention_ms=60_000)
        groups.clock.ahead += 59
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {ORDERS: 5}
        groups.clock.ahead += 1
        groups.coordinator.expire_offsets()
        assert await groups.committed() == {}


async def test_offsets_of_a_deleted_topic_are_forgotten() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5, ("payments", 0): 6})
        del groups.topics.by_name["payments"]
        groups.coordinator.topics_changed()
        assert await groups.committed() == {ORDERS: 5}
