"""Configuration of topics, brokers, groups and client metrics."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    SECRET,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Struct,
    V,
)


class DescribeConfigsResponse(Response, key=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    class DescribeConfigsResult(Struct):
        class DescribeConfigsResourceResult(Struct):
            class DescribeConfigsSynonym(Struct):
                name: String
                value: NullableString
                source: Int8

            name: String
            value: NullableString
            read_only: Bool
            config_source: Int8 = -1
            is_sensitive: Bool
            synonyms: Array[DescribeConfigsSynonym]
            config_type: Annotated[Int8, V("3+", ignorable=True)] = 0
            documentation: Annotated[NullableString, V("3+", ignorable=True)] = ""

        error_code: Int16 = 0
        error_message: NullableString
        resource_type: Int8
        resource_name: String
        configs: Array[DescribeConfigsResourceResult]

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult]


class DescribeConfigsRequest(
    Request[DescribeConfigsResponse], key=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"
):
    class DescribeConfigsResource(Struct):
        resource_type: Int8
        resource_name: String
        configuration_keys: NullableArray[String]

    resources: Array[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, V("3+")] = False


class AlterConfigsResponse(Response, key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    class AlterConfigsResourceResponse(Struct):
        error_code: Int16 = 0
        error_message: NullableString
        resource_type: Int8
        resource_name: String

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]


class AlterConfigsRequest(
    Request[AlterConfigsResponse], key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"
):
    class AlterConfigsResource(Struct):
        class AlterableConfig(Struct):
            name: String
            value: Annotated[NullableString, SECRET]

        resource_type: Int8
        resource_name: String
        configs: Array[AlterableConfig]

    resources: Array[AlterConfigsResource]
    validate_only: Bool


class IncrementalAlterConfigsResponse(
    Response, key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    class AlterConfigsResourceResponse(Struct):
        error_code: Int16 = 0
        error_message: NullableString
        resource_type: Int8
        resource_name: String

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse]


class IncrementalAlterConfigsRequest(
    Request[IncrementalAlterConfigsResponse],
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions="0-1",
    flexible="1+",
):
    class AlterConfigsResource(Struct):
        class AlterableConfig(Struct):
            name: String
            config_operation: Int8
            value: Annotated[NullableString, SECRET]

        resource_type: Int8
        resource_name: String
        configs: Array[AlterableConfig]

    resources: Array[AlterConfigsResource]
    validate_only: Bool


class ListConfigResourcesResponse(Response, key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    class ConfigResource(Struct):
        resource_name: String
        resource_type: Annotated[Int8, V("1+", ignorable=True)] = 16

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Array[ConfigResource]


class ListConfigResourcesRequest(
    Request[ListConfigResourcesResponse], key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    resource_types: Annotated[Array[Int8], V("1+")] = []
