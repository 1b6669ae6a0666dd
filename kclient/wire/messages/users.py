"""SCRAM users and client quotas."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    SECRET,
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Struct,
)


class DescribeUserScramCredentialsResponse(
    Response, key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    class DescribeUserScramCredentialsResult(Struct):
        class CredentialInfo(Struct):
            mechanism: Int8
            iterations: Int32

        user: String
        error_code: Int16 = 0
        error_message: NullableString
        credential_infos: Array[CredentialInfo]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString
    results: Array[DescribeUserScramCredentialsResult]


class DescribeUserScramCredentialsRequest(
    Request[DescribeUserScramCredentialsResponse],
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions="0",
    flexible="0+",
):
    class UserName(Struct):
        name: String

    users: NullableArray[UserName]


class AlterUserScramCredentialsResponse(
    Response, key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    class AlterUserScramCredentialsResult(Struct):
        user: String
        error_code: Int16 = 0
        error_message: NullableString

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult]


class AlterUserScramCredentialsRequest(
    Request[AlterUserScramCredentialsResponse],
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions="0",
    flexible="0+",
):
    class ScramCredentialDeletion(Struct):
        name: String
        mechanism: Int8

    class ScramCredentialUpsertion(Struct):
        name: String
        mechanism: Int8
        iterations: Int32
        salt: Annotated[Bytes, SECRET]
        salted_password: Annotated[Bytes, SECRET]

    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


class DescribeClientQuotasResponse(
    Response, key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    class EntryData(Struct):
        class EntityData(Struct):
            entity_type: String
            entity_name: NullableString

        class ValueData(Struct):
            key: String
            value: Float64

        entity: Array[EntityData]
        values: Array[ValueData]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString
    entries: NullableArray[EntryData]


class DescribeClientQuotasRequest(
    Request[DescribeClientQuotasResponse], key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    class ComponentData(Struct):
        entity_type: String
        match_type: Int8
        match: NullableString

    components: Array[ComponentData]
    strict: Bool


class AlterClientQuotasResponse(Response, key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    class EntryData(Struct):
        class EntityData(Struct):
            entity_type: String
            entity_name: NullableString

        error_code: Int16 = 0
        error_message: NullableString
        entity: Array[EntityData]

    throttle_time_ms: Int32 = 0
    entries: Array[EntryData]


class AlterClientQuotasRequest(
    Request[AlterClientQuotasResponse], key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    class EntryData(Struct):
        class EntityData(Struct):
            entity_type: String
            entity_name: NullableString

        class OpData(Struct):
            key: String
            value: Float64
            remove: Bool

        entity: Array[EntityData]
        ops: Array[OpData]

    entries: Array[EntryData]
    validate_only: Bool
