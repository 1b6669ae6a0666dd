"""Classic groups, committed offsets, and what admin clients do with groups of either kind.

All nodes share one coordinator; a node answers for the groups that it is said to coordinate and refuses the
others, as in a cluster in which each has its own.
"""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.groups.answers import join_refused, sync_refused
from kclient.broker.groups.descriptions import not_described
from kclient.broker.groups.offset_requests import (
    commit_refused,
    fetch_refused,
    fetch_response,
    requested_groups,
)
from kclient.errors import NotCoordinatorError
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kclient.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)


@handles(JoinGroupRequest)
async def join_group(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    if not _coordinates(context, request.group_id):
        response = join_refused(NotCoordinatorError)
        response.protocol_name = None if context.version >= 7 else ""
        return response
    return await context.broker.groups.join_group(
        request, context.version, context.client_id, context.client_host
    )


@handles(SyncGroupRequest)
async def sync_group(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    if not _coordinates(context, request.group_id):
        return sync_refused(NotCoordinatorError)
    return await context.broker.groups.sync_group(request)


@handles(HeartbeatRequest)
async def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    if not _coordinates(context, request.group_id):
        return HeartbeatResponse(error_code=NotCoordinatorError.code)
    return await context.broker.groups.heartbeat(request)


@handles(LeaveGroupRequest)
async def leave_group(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if not _coordinates(context, request.group_id):
        return LeaveGroupResponse(error_code=NotCoordinatorError.code)
    return await context.broker.groups.leave_group(request, context.version)


@handles(OffsetCommitRequest)
async def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    if not _coordinates(context, request.group_id):
        return commit_refused(request, NotCoordinatorError(about=f"group {request.group_id}"))
    return await context.broker.groups.offset_commit(request, context.version)


@handles(OffsetFetchRequest)
async def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = []
    for asked in requested_groups(request, context.version):
        if _coordinates(context, asked.group_id):
            groups.append(context.broker.groups.fetch_group(asked, context.version))
        else:
            error = NotCoordinatorError(about=f"group {asked.group_id}")
            groups.append(fetch_refused(asked, context.version, error))
    return fetch_response(groups, context.version)


@handles(OffsetDeleteRequest)
async def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    if not _coordinates(context, request.group_id):
        return OffsetDeleteResponse(error_code=NotCoordinatorError.code, topics=[])
    return await context.broker.groups.offset_delete(request)


@handles(ListGroupsRequest)
async def list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Only its own, because clients ask every node."""
    response = await context.broker.groups.list_groups(request)
    response.groups = [group for group in response.groups if _coordinates(context, group.group_id)]
    return response


@handles(DescribeGroupsRequest)
async def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    response = await context.broker.groups.describe_groups(request, context.version)
    response.groups = [
        group
        if _coordinates(context, group.group_id)
        else not_described(group.group_id, NotCoordinatorError(about=f"group {group.group_id}"))
        for group in response.groups
    ]
    return response


# Kafka 4.3 does not know the version that came after.
@handles(DeleteGroupsRequest, versions="0-2")
async def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    elsewhere = [name for name in request.groups_names if not _coordinates(context, name)]
    here = [name for name in request.groups_names if name not in elsewhere]
    response = await context.broker.groups.delete_groups(DeleteGroupsRequest(groups_names=here))
    response.results += [
        DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=NotCoordinatorError.code)
        for name in elsewhere
    ]
    return response


def _coordinates(context: RequestContext, group_id: str) -> bool:
    return context.broker.coordinator_of(group_id) == context.node.node_id
