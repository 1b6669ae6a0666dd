"""Listing, describing and deleting groups."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import Array, Bool, Bytes, Int16, Int32, NullableString, String, Struct, V


class ListGroupsResponse(Response, key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    class ListedGroup(Struct):
        group_id: String
        protocol_type: String
        group_state: Annotated[String, V("4+", ignorable=True)] = ""
        group_type: Annotated[String, V("5+", ignorable=True)] = ""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    groups: Array[ListedGroup]


class ListGroupsRequest(Request[ListGroupsResponse], key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    states_filter: Annotated[Array[String], V("4+")] = []
    types_filter: Annotated[Array[String], V("5+")] = []


class DescribeGroupsResponse(Response, key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    class DescribedGroup(Struct):
        class DescribedGroupMember(Struct):
            member_id: String
            group_instance_id: Annotated[NullableString, V("4+", ignorable=True)] = None
            client_id: String
            client_host: String
            member_metadata: Bytes
            member_assignment: Bytes

        error_code: Int16 = 0
        error_message: Annotated[NullableString, V("6+")] = None
        group_id: String
        group_state: String
        protocol_type: String
        protocol_data: String
        members: Array[DescribedGroupMember]
        authorized_operations: Annotated[Int32, V("3+")] = -2147483648

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    groups: Array[DescribedGroup]


class DescribeGroupsRequest(
    Request[DescribeGroupsResponse], key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"
):
    groups: Array[String]
    include_authorized_operations: Annotated[Bool, V("3+")] = False


class DeleteGroupsResponse(Response, key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    class DeletableGroupResult(Struct):
        group_id: String
        error_code: Int16 = 0
        error_message: Annotated[NullableString, V("3+", ignorable=True)] = None

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult]


class DeleteGroupsRequest(
    Request[DeleteGroupsResponse], key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"
):
    groups_names: Array[String]
