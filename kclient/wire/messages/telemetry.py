"""Client metrics that the broker collects (KIP-714)."""

from __future__ import annotations

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import Array, Bool, Bytes, Int8, Int16, Int32, String, Uuid


class GetTelemetrySubscriptionsResponse(
    Response, key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"
):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: Array[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: Array[String]


class GetTelemetrySubscriptionsRequest(
    Request[GetTelemetrySubscriptionsResponse],
    key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    versions="0",
    flexible="0+",
):
    client_instance_id: Uuid


class PushTelemetryResponse(Response, key=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class PushTelemetryRequest(
    Request[PushTelemetryResponse], key=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"
):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes
