"""Every message that kclient declares, with each of its versions: what sweeping tests iterate over."""

from __future__ import annotations

from kclient.wire.api import ApiKey
from kclient.wire.message import Message
from kclient.wire.messages import request_class
from kclient.wire.messages.control_records import ControlRecordTypeSchema, EndTxnMarker, LeaderChangeMessage
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kclient.wire.messages.headers import RequestHeader, ResponseHeader

INNER_MESSAGES: tuple[type[Message], ...] = (
    RequestHeader,
    ResponseHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
    ControlRecordTypeSchema,
    EndTxnMarker,
    LeaderChangeMessage,
)


def every_message() -> list[type[Message]]:
    """Requests and responses of every API, then the messages that travel inside others."""
    requests = [request_class(key) for key in ApiKey]
    return [*requests, *(request.response for request in requests), *INNER_MESSAGES]


def versions_of(message: type[Message]) -> range:
    return range(message.versions.first, message.versions.last + 1)


def every_version() -> list[tuple[type[Message], int]]:
    return [(message, version) for message in every_message() for version in versions_of(message)]
