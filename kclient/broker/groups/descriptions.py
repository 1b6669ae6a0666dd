"""ListGroups and DescribeGroups: what the coordinator shows of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.broker.groups.base import Group
from kclient.errors import BrokerError, GroupIdNotFoundError
from kclient.wire.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

DescribedGroup = DescribeGroupsResponse.DescribedGroup

_SAYS_NOT_FOUND = 6
# Read, delete, describe, describe configs and alter configs: everything that there is to do with a group.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def listed(groups: Iterable[Group], request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups in one of the states and of one of the types asked for, where any are."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type_name,
            )
            for group in groups
            if (not states or group.state_name.lower() in states) and (not types or group.type_name in types)
        ]
    )


def described(
    groups: Mapping[str, Group], request: DescribeGroupsRequest, version: int
) -> DescribeGroupsResponse:
    """Each group asked for. What is not there, or not a classic group, is shown as a dead one."""
    answers = []
    for group_id in request.groups:
        group = groups.get(group_id)
        answer = None if group is None else group.describe()
        if answer is None:
            kind = "not found." if group is None else "is not a classic group."
            answer = not_described(group_id, GroupIdNotFoundError(f"Group {group_id} {kind}"))
            answer.group_state = "Dead"
            if version < _SAYS_NOT_FOUND:
                answer.error_code, answer.error_message = 0, None
        if request.include_authorized_operations and not answer.error_code:
            answer.authorized_operations = ALL_OPERATIONS
        answers.append(answer)
    return DescribeGroupsResponse(groups=answers)


def not_described(group_id: str, error: BrokerError) -> DescribedGroup:
    """A group of which nothing can be shown."""
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
