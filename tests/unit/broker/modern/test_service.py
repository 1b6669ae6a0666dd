"""Groups as a whole: descriptions, restarts, and the handlers over them."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.broker.api import APIS, Handler
from kclient.broker.groups.modern_member import MemberState
from kclient.broker.handlers import modern_groups
from kclient.errors import GroupIdNotFoundError
from kclient.wire.message import Request, Response
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from tests.unit.broker.modern.driving import Consumer, World, world

assert modern_groups.__doc__  # importing it registers the handlers


def test_a_description_shows_what_is_held_and_what_is_meant() -> None:
    with world(a=4) as where:
        where.join("m1", "a", rack_id="r", instance_id="i")
        where.pass_time(1.1)
        where.join("m2", "a")
        where.heartbeat("m1", 2)
        group = where.described()
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
        assert (group.assignor_name, group.error_code) == ("uniform", 0)
        first, second = group.members
        assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("m1", "i", "r", 2)
        assert (first.client_id, first.client_host, first.member_type) == ("tester", "/127.0.0.1", 1)
        assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["a"], "")
        assert [topic.partitions for topic in first.assignment.topic_partitions] == [[0, 1, 2, 3]]
        assert [topic.partitions for topic in first.target_assignment.topic_partitions] == [[0, 1]]
        assert first.assignment.topic_partitions[0].topic_name == "a"
        assert second.assignment.topic_partitions == []
        with pytest.raises(GroupIdNotFoundError, match=r"Group nope not found\."):
            where.described("nope")


def test_a_restart_changes_nothing_for_members() -> None:
    with world(a=4, b=2) as where:
        first, second = Consumer(where, "m1", "a", instance_id="i"), Consumer(where, "m2", regex="a|b")
        where.settle([first, second])
        where.join("m3", "b")
        where.pass_time(1.1)
        first.beat()
        again = where.restarted()
        before, after = where.described(), again.described()
        assert (after.group_state, after.group_epoch) == (before.group_state, before.group_epoch)
        assert sorted(after.members, key=_id) == sorted(before.members, key=_id)
        assert again.group().targets == where.group().targets
        assert again.group().members == where.group().members
        first.world = second.world = again
        third = Consumer(again, "m3", "b")
        again.settle([first, second, third])
        assert again.state() == "Stable"
        assert (
            sum(len(numbers) for member in (first, second, third) for numbers in member.owned.values()) == 6
        )


def _id(member: ConsumerGroupDescribeResponse.DescribedGroup.Member) -> str:
    return member.member_id


def test_topics_that_change_while_the_broker_is_down_are_noticed() -> None:
    with world(a=2) as where:
        where.join("m", "a")
        where.topics.known["a"] = (where.topics.known["a"][0], 3)
        again = where.restarted()
        assert again.told(again.heartbeat("m", 2)) == {"a": [0, 1, 2]}


def test_timeouts_go_on_after_a_restart() -> None:
    with world(a=4) as where:
        where.join("m1", "a", timeout_ms=3_000)
        where.pass_time(1.1)
        where.join("m2", "a")
        where.heartbeat("m1", 2)
        again = where.restarted()
        assert again.group().members["m1"].state is MemberState.UNREVOKED
        again.pass_time(3.1)
        assert list(again.group().members) == ["m2"]
        again.pass_time(43)
        assert again.state() == "Empty"
        assert again.restarted().described().members == []


def test_a_deleted_group_leaves_no_record() -> None:
    with world(a=4) as where:
        where.join("m1", "a")
        where.join("m2", regex="a")
        where.pass_time(1)
        kinds = {struct.unpack_from(">h", key)[0] for key in where.store.records}
        assert kinds == {3, 5, 6, 7, 8, 16}
        where.store.append("g", where.group().tombstones())
        assert where.store.records == {}


def _ask(where: World, node_id: int, request: Request[Any]) -> Any:
    broker = SimpleNamespace(consumer_groups=where.service, coordinator_of=lambda _: 1)
    context: Any = SimpleNamespace(
        broker=broker,
        node=SimpleNamespace(node_id=node_id),
        version=1,
        client_id="tester",
        client_host="/127.0.0.1",
    )
    return where.loop.run_until_complete(_answer(APIS[request.api_key].handler, context, request))


async def _answer(handler: Handler, context: Any, request: Request[Any]) -> Response | None:
    return await handler(context, request)


def test_handlers_answer_with_codes_and_nothing_else() -> None:
    join = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topic_names=["a"],
        topic_partitions=[],
    )
    with world(a=4) as where:
        refused = _ask(where, 2, join)
        assert (refused.error_code, refused.error_message, refused.member_id) == (16, None, None)
        assert _ask(where, 1, join).member_epoch == 2
        join.member_epoch = 7
        refused = _ask(where, 1, join)
        assert (refused.error_code, refused.member_id, refused.member_epoch) == (110, None, 0)


def test_a_description_has_an_answer_for_every_group_asked_for() -> None:
    with world(a=4) as where:
        where.join("m", "a")
        request = ConsumerGroupDescribeRequest(group_ids=["g", "nope"], include_authorized_operations=False)
        found, missing = _ask(where, 1, request).groups
        assert (found.error_code, found.group_state) == (0, "Stable")
        assert (missing.error_code, missing.error_message) == (69, "Group nope not found.")
        assert [group.error_code for group in _ask(where, 2, request).groups] == [16, 16]
