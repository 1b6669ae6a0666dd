"""Consumer groups that the broker assigns (KIP-848): heartbeats and descriptions."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.groups.modern_messages import Client
from kclient.broker.groups.modern_service import refused
from kclient.errors import BrokerError, NotCoordinatorError
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(ConsumerGroupHeartbeatRequest)
async def consumer_group_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    try:
        _check_coordinator(context, request.group_id)
        client = Client(context.client_id, context.client_host)
        return context.broker.consumer_groups.heartbeat(request, context.version, client)
    except BrokerError as error:
        # Kafka names neither the member nor its epoch where it refuses them.
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message, member_epoch=0, heartbeat_interval_ms=0
        )


@handles(ConsumerGroupDescribeRequest)
async def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    described = []
    for group_id in request.group_ids:
        try:
            _check_coordinator(context, group_id)
            described.append(context.broker.consumer_groups.describe(group_id))
        except BrokerError as error:
            described.append(refused(group_id, error))
    return ConsumerGroupDescribeResponse(groups=described)


def _check_coordinator(context: RequestContext, group_id: str) -> None:
    if context.broker.coordinator_of(group_id) != context.node.node_id:
        raise NotCoordinatorError
