"""A node answers for the groups that it coordinates, and refuses the others in each request's own way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kclient.broker.api import APIS, RequestContext
from kclient.broker.handlers import groups as handlers
from kclient.wire.message import Request
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kclient.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kclient.wire.messages.group_offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from tests.unit.broker.groups.driving import GROUP_ID_NOT_FOUND, NOT_COORDINATOR, OK, Groups

ORDERS = ("orders", 0)
HANDLED: dict[type[Request[Any]], Any] = {
    JoinGroupRequest: handlers.join_group,
    SyncGroupRequest: handlers.sync_group,
    HeartbeatRequest: handlers.heartbeat,
    LeaveGroupRequest: handlers.leave_group,
    OffsetCommitRequest: handlers.offset_commit,
    OffsetFetchRequest: handlers.offset_fetch,
    OffsetDeleteRequest: handlers.offset_delete,
    ListGroupsRequest: handlers.list_groups,
    DescribeGroupsRequest: handlers.describe_groups,
    DeleteGroupsRequest: handlers.delete_groups,
}


async def ask(groups: Groups, request: Request[Any], version: int) -> Any:
    """Ask node 1, which coordinates all groups but those "elsewhere"; the answer fits its version."""
    broker: Any = SimpleNamespace(
        groups=groups.coordinator, coordinator_of=lambda name: 2 if name == "elsewhere" else 1
    )
    node: Any = SimpleNamespace(node_id=1)
    context = RequestContext(broker, node, version, "app", "/10.0.0.1", "User:ANONYMOUS", "PLAINTEXT")
    response = await APIS[request.api_key].handler(context, request)
    assert response is not None
    response.encode(version)
    return response


def joining(group: str) -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="m",
        protocol_type="consumer",
        protocols=[protocol],
    )


def committing(group: str) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = kind.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group, member_id="", topics=[kind(name="orders", partitions=[partition])]
    )


def test_every_request_about_classic_groups_and_offsets_has_its_handler() -> None:
    assert {kind: APIS[kind.api_key].handler for kind in HANDLED} == HANDLED
    assert str(APIS[DeleteGroupsRequest.api_key].versions) == "0-2"


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        *((joining("elsewhere"), version) for version in range(10)),
        (SyncGroupRequest(group_id="elsewhere", generation_id=1, member_id="m", assignments=[]), 5),
        (HeartbeatRequest(group_id="elsewhere", generation_id=1, member_id="m"), 4),
        (LeaveGroupRequest(group_id="elsewhere"), 5),
        (LeaveGroupRequest(group_id="elsewhere", member_id="m"), 0),
        (OffsetDeleteRequest(group_id="elsewhere", topics=[]), 0),
        (OffsetFetchRequest(group_id="elsewhere", topics=None), 7),
    ],
)
async def test_groups_of_another_node_are_refused(request_: Request[Any], version: int) -> None:
    async with Groups() as groups:
        assert (await ask(groups, request_, version)).error_code == NOT_COORDINATOR
        assert not groups.coordinator.groups


@pytest.mark.parametrize(("group", "code"), [("elsewhere", NOT_COORDINATOR), ("g", OK)])
async def test_a_commit_is_refused_partition_by_partition(group: str, code: int) -> None:
    async with Groups() as groups:
        (topic,) = (await ask(groups, committing(group), 9)).topics
        assert [(topic.name, one.error_code) for one in topic.partitions] == [("orders", code)]


async def test_a_fetch_of_several_groups_answers_each_for_itself() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5})
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        names = ["elsewhere", "g"]
        request = OffsetFetchRequest(groups=[kind(group_id=name, topics=None) for name in names])
        elsewhere, here = (await ask(groups, request, 9)).groups
        assert (elsewhere.group_id, elsewhere.error_code) == ("elsewhere", NOT_COORDINATOR)
        assert here.topics[0].partitions[0].committed_offset == 5


async def test_a_node_lists_its_own_groups() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5})
        await groups.commit({ORDERS: 5}, group="elsewhere")
        listed = await ask(groups, ListGroupsRequest(), 5)
        assert [group.group_id for group in listed.groups] == ["g"]


@pytest.mark.parametrize("version", [0, 5, 6])
async def test_descriptions_and_deletions_refuse_the_groups_of_another_node(version: int) -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5})
        await groups.commit({ORDERS: 5}, group="elsewhere")
        described = await ask(groups, DescribeGroupsRequest(groups=["g", "elsewhere"]), version)
        assert [group.error_code for group in described.groups] == [OK, NOT_COORDINATOR]
        request = DeleteGroupsRequest(groups_names=["elsewhere", "g", "none"])
        deleted = await ask(groups, request, 2)
        codes = {result.group_id: result.error_code for result in deleted.results}
        assert codes == {"elsewhere": NOT_COORDINATOR, "g": OK, "none": GROUP_ID_NOT_FOUND}
        assert "elsewhere" in groups.coordinator.groups


async def test_a_member_goes_through_its_life() -> None:
    async with Groups() as groups:
        refused = await ask(groups, joining("g"), 2)
        assert refused.error_code == 25
        request = joining("g")
        request.member_id = ""
        member_id = (await ask(groups, request, 2)).member_id
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, assignments=[assignment])
        assert (await ask(groups, sync, 1)).assignment == b"all"
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await ask(groups, heartbeat, 1)).error_code == OK
        leave = LeaveGroupRequest(group_id="g", member_id=member_id)
        assert (await ask(groups, leave, 2)).error_code == OK
        delete = OffsetDeleteRequest(group_id="g", topics=[])
        assert (await ask(groups, delete, 0)).error_code == OK
