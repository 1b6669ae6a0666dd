"""The requests of a member of a classic group, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kclient.consumer.group.assignors.base import Assignment, Assignor, Member
from kclient.consumer.group.protocol import (
    PROTOCOL_TYPE,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kclient.consumer.seam import GroupSettings
from kclient.types import GroupMetadata, TopicPartition
from kclient.usercode import failure, let_out
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)

_FIRST_STATIC_JOIN = 5
_FIRST_STATIC_HEARTBEAT = 3
_FIRST_STATIC_SYNC = 3
_FIRST_LEAVING_TOGETHER = 3
_LONGEST_REASON = 255


def join_request(
    settings: GroupSettings, member_id: str, protocols: Mapping[str, Member], reason: str, version: int
) -> JoinGroupRequest:
    """Offer to take part, with what each assignor would be told."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout,
        member_id=member_id,
        group_instance_id=settings.group_instance_id if version >= _FIRST_STATIC_JOIN else None,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            protocol(name=name, metadata=encode_subscription(member)) for name, member in protocols.items()
        ],
        reason=reason[:_LONGEST_REASON],
    )


def offers(
    assignors: Sequence[Assignor],
    topics: frozenset[str],
    owned: frozenset[TopicPartition],
    generation: int,
    rack: str | None,
) -> dict[str, Member]:
    """What this member says of itself to each assignor it knows. Raises what an assignor does not say."""
    return {
        assignor.name: Member(
            topics=tuple(sorted(topics)),
            user_data=_user_data(assignor),
            owned=tuple(sorted(owned)),
            generation=generation if generation >= 0 else None,
            rack=rack,
        )
        for assignor in assignors
    }


def _user_data(assignor: Assignor) -> bytes | None:
    try:
        return as_bytes(assignor.user_data())
    except BaseException as error:
        let_out(error)
        raise failure("the assignor's", assignor.user_data, error) from error


def as_bytes(data: object) -> bytes | None:
    """User data as it can be sent."""
    if data is None:
        return None
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"it returned {data!r}: return bytes or None")
    return bytes(data)


def members_of(response: JoinGroupResponse) -> dict[str, Member]:
    """What the leader is told of everyone, in the order of the answer."""
    return {
        member.member_id: decode_subscription(bytes(member.metadata), member.group_instance_id)
        for member in response.members
    }


def sync_request(
    identity: GroupMetadata, protocol_name: str | None, assignment: Assignment, version: int
) -> SyncGroupRequest:
    one = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=identity.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id if version >= _FIRST_STATIC_SYNC else None,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            one(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assignment.items()
        ],
    )


def heartbeat_request(identity: GroupMetadata, version: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=identity.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id if version >= _FIRST_STATIC_HEARTBEAT else None,
    )


def leave_request(identity: GroupMetadata, reason: str, version: int) -> LeaveGroupRequest:
    if version < _FIRST_LEAVING_TOGETHER:
        return LeaveGroupRequest(group_id=identity.group_id, member_id=identity.member_id)
    member = LeaveGroupRequest.MemberIdentity(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, reason=reason
    )
    return LeaveGroupRequest(group_id=identity.group_id, members=[member])
