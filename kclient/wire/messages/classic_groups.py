"""Membership of a classic consumer group: join, sync, heartbeat, leave."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import Array, Bool, Bytes, Int16, Int32, NullableString, String, Struct, V


class JoinGroupResponse(Response, key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    class JoinGroupResponseMember(Struct):
        member_id: String
        group_instance_id: Annotated[NullableString, V("5+", ignorable=True)] = None
        metadata: Bytes

    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[NullableString, V("7+", ignorable=True)] = None
    protocol_name: Annotated[NullableString, V(nullable="7+")]
    leader: String
    skip_assignment: Annotated[Bool, V("9+")] = False
    member_id: String
    members: Array[JoinGroupResponseMember]


class JoinGroupRequest(Request[JoinGroupResponse], key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    class JoinGroupRequestProtocol(Struct):
        name: String
        metadata: Bytes

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
    member_id: String
    group_instance_id: Annotated[NullableString, V("5+")] = None
    protocol_type: String
    protocols: Array[JoinGroupRequestProtocol]
    reason: Annotated[NullableString, V("8+", ignorable=True)] = None


class SyncGroupResponse(Response, key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[NullableString, V("5+", ignorable=True)] = None
    protocol_name: Annotated[NullableString, V("5+", ignorable=True)] = None
    assignment: Bytes


class SyncGroupRequest(Request[SyncGroupResponse], key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    class SyncGroupRequestAssignment(Struct):
        member_id: String
        assignment: Bytes

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, V("3+")] = None
    protocol_type: Annotated[NullableString, V("5+", ignorable=True)] = None
    protocol_name: Annotated[NullableString, V("5+", ignorable=True)] = None
    assignments: Array[SyncGroupRequestAssignment]


class HeartbeatResponse(Response, key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0


class HeartbeatRequest(Request[HeartbeatResponse], key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, V("3+")] = None


class LeaveGroupResponse(Response, key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    class MemberResponse(Struct):
        member_id: String
        group_instance_id: NullableString
        error_code: Int16 = 0

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    members: Annotated[Array[MemberResponse], V("3+")] = []


class LeaveGroupRequest(Request[LeaveGroupResponse], key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    class MemberIdentity(Struct):
        member_id: String
        group_instance_id: NullableString = None
        reason: Annotated[NullableString, V("5+", ignorable=True)] = None

    group_id: String
    member_id: Annotated[String, V("0-2")] = ""
    members: Annotated[Array[MemberIdentity], V("3+")] = []
