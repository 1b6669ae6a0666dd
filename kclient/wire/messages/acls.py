"""Access control lists."""

from __future__ import annotations

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import Array, Int8, Int16, Int32, NullableString, String, Struct


class DescribeAclsResponse(Response, key=ApiKey.DESCRIBE_ACLS, versions="1-3", flexible="2+"):
    class DescribeAclsResource(Struct):
        class AclDescription(Struct):
            principal: String
            host: String
            operation: Int8
            permission_type: Int8

        resource_type: Int8
        resource_name: String
        pattern_type: Int8 = 3
        acls: Array[AclDescription]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString
    resources: Array[DescribeAclsResource]


class DescribeAclsRequest(
    Request[DescribeAclsResponse], key=ApiKey.DESCRIBE_ACLS, versions="1-3", flexible="2+"
):
    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Int8 = 3
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


class CreateAclsResponse(Response, key=ApiKey.CREATE_ACLS, versions="1-3", flexible="2+"):
    class AclCreationResult(Struct):
        error_code: Int16 = 0
        error_message: NullableString

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult]


class CreateAclsRequest(Request[CreateAclsResponse], key=ApiKey.CREATE_ACLS, versions="1-3", flexible="2+"):
    class AclCreation(Struct):
        resource_type: Int8
        resource_name: String
        resource_pattern_type: Int8 = 3
        principal: String
        host: String
        operation: Int8
        permission_type: Int8

    creations: Array[AclCreation]


class DeleteAclsResponse(Response, key=ApiKey.DELETE_ACLS, versions="1-3", flexible="2+"):
    class DeleteAclsFilterResult(Struct):
        class DeleteAclsMatchingAcl(Struct):
            error_code: Int16 = 0
            error_message: NullableString
            resource_type: Int8
            resource_name: String
            pattern_type: Int8 = 3
            principal: String
            host: String
            operation: Int8
            permission_type: Int8

        error_code: Int16 = 0
        error_message: NullableString
        matching_acls: Array[DeleteAclsMatchingAcl]

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult]


class DeleteAclsRequest(Request[DeleteAclsResponse], key=ApiKey.DELETE_ACLS, versions="1-3", flexible="2+"):
    class DeleteAclsFilter(Struct):
        resource_type_filter: Int8
        resource_name_filter: NullableString
        pattern_type_filter: Int8 = 3
        principal_filter: NullableString
        host_filter: NullableString
        operation: Int8
        permission_type: Int8

    filters: Array[DeleteAclsFilter]
