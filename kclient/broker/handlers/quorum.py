"""What only a cluster with a quorum of controllers has: answered with an error that says so."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.errors import FeatureUpdateFailedError, InvalidRequestError
from kclient.wire.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@handles(DescribeQuorumRequest)
async def describe_quorum(
    context: RequestContext,
    request: DescribeQuorumRequest,  # noqa: ARG001
) -> DescribeQuorumResponse:
    message = (
        "The embedded broker of kclient has no quorum of controllers to describe: node "
        f"{context.broker.controller_id} answers for the controller."
    )
    return DescribeQuorumResponse(
        error_code=InvalidRequestError.code, error_message=message, topics=[], nodes=[]
    )


@handles(UpdateFeaturesRequest)
async def update_features(
    context: RequestContext,  # noqa: ARG001
    request: UpdateFeaturesRequest,
) -> UpdateFeaturesResponse:
    message = "The embedded broker of kclient has its features for good: they cannot be updated."
    result = UpdateFeaturesResponse.UpdatableFeatureResult
    code = FeatureUpdateFailedError.code
    return UpdateFeaturesResponse(
        error_code=code,
        error_message=message,
        results=[
            result(feature=one.feature, error_code=code, error_message=message)
            for one in request.feature_updates
        ],
    )
