"""What a connection starts with. SASL on SASL listeners is `node`'s; elsewhere it is out of place."""

from __future__ import annotations

from kclient.broker.api import APIS, RequestContext, handles
from kclient.errors import IllegalSaslStateError
from kclient.wire.messages.connection import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


@handles(ApiVersionsRequest, "0-4")
async def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:  # noqa: ARG001
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key, min_version=api.versions.first, max_version=api.versions.last
            )
            for key, api in sorted(APIS.items())
        ]
    )


@handles(SaslHandshakeRequest)
async def sasl_handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:  # noqa: ARG001
    return SaslHandshakeResponse(error_code=IllegalSaslStateError.code, mechanisms=[])


@handles(SaslAuthenticateRequest)
async def sasl_authenticate(
    context: RequestContext,  # noqa: ARG001
    request: SaslAuthenticateRequest,  # noqa: ARG001
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=IllegalSaslStateError.code,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
