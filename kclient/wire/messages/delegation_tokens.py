"""Delegation tokens."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    SECRET,
    Array,
    Bytes,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Struct,
    V,
)


class CreateDelegationTokenResponse(
    Response, key=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    error_code: Int16 = 0
    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, V("3+")] = ""
    token_requester_principal_name: Annotated[String, V("3+")] = ""
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Annotated[Bytes, SECRET]
    throttle_time_ms: Int32 = 0


class CreateDelegationTokenRequest(
    Request[CreateDelegationTokenResponse], key=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    class CreatableRenewers(Struct):
        principal_type: String
        principal_name: String

    owner_principal_type: Annotated[NullableString, V("3+")] = ""
    owner_principal_name: Annotated[NullableString, V("3+")] = ""
    renewers: Array[CreatableRenewers]
    max_lifetime_ms: Int64


class RenewDelegationTokenResponse(
    Response, key=ApiKey.RENEW_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(
    Request[RenewDelegationTokenResponse], key=ApiKey.RENEW_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    hmac: Annotated[Bytes, SECRET]
    renew_period_ms: Int64


class ExpireDelegationTokenResponse(
    Response, key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0


class ExpireDelegationTokenRequest(
    Request[ExpireDelegationTokenResponse], key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    hmac: Annotated[Bytes, SECRET]
    expiry_time_period_ms: Int64


class DescribeDelegationTokenResponse(
    Response, key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    class DescribedDelegationToken(Struct):
        class DescribedDelegationTokenRenewer(Struct):
            principal_type: String
            principal_name: String

        principal_type: String
        principal_name: String
        token_requester_principal_type: Annotated[String, V("3+")] = ""
        token_requester_principal_name: Annotated[String, V("3+")] = ""
        issue_timestamp: Int64
        expiry_timestamp: Int64
        max_timestamp: Int64
        token_id: String
        hmac: Annotated[Bytes, SECRET]
        renewers: Array[DescribedDelegationTokenRenewer]

    error_code: Int16 = 0
    tokens: Array[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0


class DescribeDelegationTokenRequest(
    Request[DescribeDelegationTokenResponse],
    key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    versions="1-3",
    flexible="2+",
):
    class DescribeDelegationTokenOwner(Struct):
        principal_type: String
        principal_name: String

    owners: NullableArray[DescribeDelegationTokenOwner]
