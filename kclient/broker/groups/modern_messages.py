"""ConsumerGroupHeartbeat: what is wrong with a request by itself, what it says of a member, and its answer.

Functions from messages to values and back; `modern_service` and `modern` call them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from random import Random

from kclient.broker.groups.modern_assignors import ASSIGNORS, Partitions, by_topic
from kclient.broker.groups.modern_member import LEFT_FOR_GOOD, LEFT_FOR_NOW, Member
from kclient.errors import InvalidRequestError, UnsupportedAssignorError
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

_CLIENTS_MAKE_THEIR_IDS = 1


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends a heartbeat, as descriptions of the group show it."""

    client_id: str
    client_host: str


def check_request(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """What is wrong with a heartbeat by itself, in the order in which Kafka looks."""
    epoch, known = request.member_epoch, request.member_epoch > 0 or request.member_epoch == LEFT_FOR_GOOD
    joins = epoch == 0
    unsubscribed = request.subscribed_topic_names is None and request.subscribed_topic_regex is None
    faults = (
        (
            (version >= _CLIENTS_MAKE_THEIR_IDS or known) and _blank(request.member_id),
            "MemberId can't be empty.",
        ),
        (_blank(request.group_id), "GroupId can't be empty."),
        (_blank(request.instance_id), "InstanceId can't be empty."),
        (_blank(request.rack_id), "RackId can't be empty."),
        (
            joins and request.rebalance_timeout_ms == -1,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (joins and request.topic_partitions != [], "TopicPartitions must be empty when (re-)joining."),
        (
            joins and unsubscribed,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (epoch == LEFT_FOR_NOW and request.instance_id is None, "InstanceId can't be null."),
        (epoch < LEFT_FOR_NOW, "MemberEpoch is invalid."),
    )
    for wrong, message in faults:
        if wrong:
            raise InvalidRequestError(message)
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(ASSIGNORS)}."
        )


def new_member_id(random: Random) -> str:
    """A member id as Kafka makes it: 16 random bytes in URL-safe base64 that do not begin with a dash."""
    made = base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
    return made if made[0] != "-" else new_member_id(random)


def _blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def assignment_of(member: Member) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(member.assigned).items()
        ]
    )


def owned_in(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    topics = request.topic_partitions
    if topics is None:
        return None
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def updated(member: Member, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
    """The member with what the request says anew; what it leaves out stays."""
    names, regex, timeout = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.rebalance_timeout_ms,
    )
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def answer(
    request: ConsumerGroupHeartbeatRequest, before: Member, after: Member, interval_ms: int
) -> ConsumerGroupHeartbeatResponse:
    """The assignment is told where it changed, and to whoever tells all about itself."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    full = request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None
    told = request.member_epoch == 0 or full or before.assigned.keys() != after.assigned.keys()
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment_of(after) if told else None,
    )
