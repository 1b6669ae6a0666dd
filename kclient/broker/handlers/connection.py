"""What a connection starts with. SASL on SASL listeners is `node`'s; elsewhere it is out of place."""

from __future__ import annotations

import re

from kclient.broker.api import APIS, RequestContext, handles
from kclient.errors import IllegalSaslStateError, InvalidRequestError
from kclient.wire.api import ApiKey
from kclient.wire.messages.connection import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_FIRST_NAMED = 3
_GROUPS = "group.version"
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiVersionsRequest, "0-4")
async def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.version >= _FIRST_NAMED and not (
        _NAME.fullmatch(request.client_software_name) and _NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=InvalidRequestError.code, api_keys=[])
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                # Old librdkafka turns compression off where it does not see the first versions; so does Kafka
                # tell of them, and refuses them.
                min_version=0 if key == ApiKey.PRODUCE else api.versions.first,
                max_version=api.versions.last,
            )
            for key, api in sorted(APIS.items())
        ],
        # The one of Kafka's features that clients can use here: groups that the broker assigns (KIP-848).
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=_GROUPS, min_version=0, max_version=1)
        ],
        finalized_features_epoch=0,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=_GROUPS, min_version_level=1, max_version_level=1)
        ],
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
