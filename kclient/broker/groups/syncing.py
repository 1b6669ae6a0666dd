"""SyncGroup, Heartbeat and LeaveGroup on a classic group, for `coordinator`: the requests of its members."""

from __future__ import annotations

import asyncio

from kclient.broker.groups import rebalance
from kclient.broker.groups.answers import sync_refused, synced
from kclient.broker.groups.classic import ClassicGroup
from kclient.broker.groups.members import Member
from kclient.broker.groups.states import HEARTBEAT_ANSWERS, Event, State
from kclient.errors import (
    BrokerError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


def sync(group: ClassicGroup, request: SyncGroupRequest, answer: asyncio.Future[SyncGroupResponse]) -> None:
    """Answer with the assignment, once the leader has sent it. Raises what is wrong with the request."""
    group.check_generation(request.member_id, request.group_instance_id, request.generation_id)
    if _differs(request.protocol_type, group.protocol_type or None) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise InconsistentGroupProtocolError(about=f"group {group.group_id}")
    if group.state is State.PREPARING:
        raise RebalanceInProgressError(about=f"group {group.group_id}")
    member = group.members[request.member_id]
    rebalance.member_synced(group, member.member_id)
    if group.state is State.STABLE:
        answer.set_result(synced(group, member))
        return
    # A sync on a connection that the member gave up is ended.
    member.answer_sync(sync_refused(RebalanceInProgressError))
    member.syncing = answer
    if member.member_id == group.members.leader:
        _assign(group, request)


def heartbeat(group: ClassicGroup, request: HeartbeatRequest) -> None:
    """A member shows that it is alive. Raises what it should do instead of carrying on."""
    group.check_generation(request.member_id, request.group_instance_id, request.generation_id)
    rebalance.keep_alive(group, group.members[request.member_id])
    told = HEARTBEAT_ANSWERS[group.state]
    if told is not None:
        raise told(about=f"group {group.group_id}")


def leave(
    group: ClassicGroup, leaving: list[LeaveGroupRequest.MemberIdentity]
) -> list[LeaveGroupResponse.MemberResponse]:
    """Take members out, then rebalance once."""
    answers = []
    for identity in leaving:
        code = 0
        try:
            _leave(group, identity)
        except BrokerError as error:
            code = error.code
        answers.append(left(identity, code))
    if group.state is not State.EMPTY and any(answer.error_code == 0 for answer in answers):
        rebalance.changed(group)
    return answers


def not_members(
    leaving: list[LeaveGroupRequest.MemberIdentity],
) -> list[LeaveGroupResponse.MemberResponse]:
    """Where there is no such group, nobody is a member of it."""
    return [left(identity, UnknownMemberIdError.code) for identity in leaving]


def left(identity: LeaveGroupRequest.MemberIdentity, code: int) -> LeaveGroupResponse.MemberResponse:
    """The answer to one of those who leave."""
    return LeaveGroupResponse.MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
    )


def _leave(group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity) -> None:
    if identity.member_id in group.members.pending:
        rebalance.forget(group, identity.member_id)
        return
    rebalance.dismiss(group, _leaving_member(group, identity))


def _leaving_member(group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity) -> Member:
    if identity.member_id:
        group.members.check(identity.member_id, identity.group_instance_id)
        return group.members[identity.member_id]
    # An admin client removes static members by their instance id alone.
    holder = group.members.static(identity.group_instance_id)
    if holder is None:
        raise UnknownMemberIdError(about=f"group instance id {identity.group_instance_id}")
    return holder


def _assign(group: ClassicGroup, request: SyncGroupRequest) -> None:
    """The leader has decided: store it, then tell everybody."""
    sent = {one.member_id: bytes(one.assignment) for one in request.assignments}
    assignments = {member.member_id: sent.get(member.member_id, b"") for member in group.members}
    try:
        group.host.append(group.group_id, [group.record(assignments)])
    except BrokerError as error:
        rebalance.abandon_assignment(group, error)
        rebalance.changed(group)
        return
    for member in group.members:
        member.assignment = assignments[member.member_id]
        if member.answer_sync(synced(group, member)):
            rebalance.keep_alive(group, member)
    group.move(Event.ASSIGNED)


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual
