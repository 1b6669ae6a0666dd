"""The answers to joins and syncs. `joining`, `syncing` and `rebalance` give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.errors import BrokerError
from kclient.wire.messages.classic_groups import JoinGroupResponse, SyncGroupResponse

if TYPE_CHECKING:
    from kclient.broker.groups.classic import ClassicGroup
    from kclient.broker.groups.members import Member


def join_refused(error: type[BrokerError] | BrokerError, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def joined(
    group: ClassicGroup, member_id: str, *, show_members: bool, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Welcome to the generation. The leader is shown all members, with what they sent for the protocol."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=group.members.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols[group.protocol_name or ""],
            )
            for member in group.members
        ]
        if show_members
        else [],
    )


def sync_refused(error: type[BrokerError] | BrokerError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code, assignment=b"")


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
