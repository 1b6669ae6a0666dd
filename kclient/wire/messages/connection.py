"""What a connection starts with: versions, then authentication."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    SECRET,
    Array,
    Bool,
    Bytes,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Struct,
    Tag,
    V,
)


class ApiVersionsResponse(Response, key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    class ApiVersion(Struct):
        api_key: Int16
        min_version: Int16
        max_version: Int16

    class SupportedFeatureKey(Struct):
        name: String
        min_version: Int16
        max_version: Int16

    class FinalizedFeatureKey(Struct):
        name: String
        max_version_level: Int16
        min_version_level: Int16

    error_code: Int16 = 0
    api_keys: Array[ApiVersion]
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    supported_features: Annotated[Array[SupportedFeatureKey], V("3+", ignorable=True), Tag(0)] = []
    finalized_features_epoch: Annotated[Int64, V("3+", ignorable=True), Tag(1)] = -1
    finalized_features: Annotated[Array[FinalizedFeatureKey], V("3+", ignorable=True), Tag(2)] = []
    zk_migration_ready: Annotated[Bool, V("3+", ignorable=True), Tag(3)] = False


class ApiVersionsRequest(
    Request[ApiVersionsResponse], key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"
):
    client_software_name: Annotated[String, V("3+", ignorable=True)] = ""
    client_software_version: Annotated[String, V("3+", ignorable=True)] = ""
    cluster_id: Annotated[NullableString, V("5+", ignorable=True)] = None
    node_id: Annotated[Int32, V("5+", ignorable=True)] = -1


class SaslHandshakeResponse(Response, key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    error_code: Int16 = 0
    mechanisms: Array[String]


class SaslHandshakeRequest(
    Request[SaslHandshakeResponse], key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"
):
    mechanism: String


class SaslAuthenticateResponse(Response, key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    error_code: Int16 = 0
    error_message: NullableString
    auth_bytes: Annotated[Bytes, SECRET]
    session_lifetime_ms: Annotated[Int64, V("1+", ignorable=True)] = 0


class SaslAuthenticateRequest(
    Request[SaslAuthenticateResponse], key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"
):
    auth_bytes: Annotated[Bytes, SECRET]
