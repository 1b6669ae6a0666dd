"""The heartbeat of a member of a group that the broker assigns, without I/O, and names for topic ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.consumer.group.protocol import grouped
from kclient.consumer.seam import GroupSettings, Subscribed
from kclient.errors import IncompatibleBrokerError
from kclient.types import TopicPartition
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kclient.wire.messages.metadata import MetadataRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
_FIRST_WITH_REGEX = 1

Owned = frozenset[TopicPartition]
Target = Mapping[UUID, frozenset[int]]


@dataclass(frozen=True)
class Said:
    """What the coordinator has confirmed to have heard; None where it has to be told."""

    subscribed: Subscribed | None = None
    owned: Owned | None = None


def heartbeat(
    settings: GroupSettings, who: tuple[str, int], now: Said, before: Said, ids: Mapping[str, UUID]
) -> ConsumerGroupHeartbeatRequest:
    """Say what has changed since the last time; `who` is the member and its epoch.

    Where nothing was confirmed everything is said, to join or after something went wrong: only to such a
    request does the coordinator repeat an assignment whose first answer may have been lost.
    """
    member_id, epoch = who
    joins = epoch == JOIN_EPOCH
    request = ConsumerGroupHeartbeatRequest(
        group_id=settings.group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=settings.group_instance_id,
    )
    if joins or before == Said():
        request.rack_id = settings.client_rack
        request.rebalance_timeout_ms = settings.rebalance_timeout
        request.server_assignor = settings.group_remote_assignor
    if now.subscribed is not None and now.subscribed != before.subscribed:
        request.subscribed_topic_names = sorted(now.subscribed.topics)
        had = before.subscribed is not None and before.subscribed.server_pattern
        request.subscribed_topic_regex = now.subscribed.server_pattern or ("" if had else None)
    if joins:
        request.topic_partitions = []
    elif now.owned is not None and now.owned != before.owned:
        topic = ConsumerGroupHeartbeatRequest.TopicPartitions
        request.topic_partitions = [
            topic(topic_id=ids[name], partitions=numbers) for name, numbers in grouped(now.owned).items()
        ]
    return request


def for_version(request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatRequest:
    """The request, if the version can carry it."""
    if version < _FIRST_WITH_REGEX and request.subscribed_topic_regex is not None:
        raise IncompatibleBrokerError(
            "patterns that the broker resolves need Kafka 4.0: subscribe with a pattern of the client's"
        )
    return request


def farewell(settings: GroupSettings, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """Leave: a static member for now, its partitions are kept for it."""
    static = settings.group_instance_id is not None
    return ConsumerGroupHeartbeatRequest(
        group_id=settings.group_id,
        member_id=member_id,
        member_epoch=STATIC_LEAVE_EPOCH if static else LEAVE_EPOCH,
        instance_id=settings.group_instance_id,
    )


def target_of(response: ConsumerGroupHeartbeatResponse) -> Target | None:
    """What the member should hold, where the answer says so."""
    if response.assignment is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in response.assignment.topic_partitions}


class TopicNames:
    """Names of topic ids. A topic assigned before metadata has shown it is asked for by its id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._names: dict[UUID, str] = {}

    def ids(self) -> dict[str, UUID]:
        return {name: topic_id for topic_id, name in self._names.items()}

    async def find(self, wanted: Collection[UUID], deadline: Deadline) -> None:
        """Learn the names of these; what nobody knows yet stays unknown."""
        for topic in self._cluster.metadata.snapshot.topics.values():
            if topic.topic_id in wanted:
                self._names[topic.topic_id] = topic.name
        missing = sorted(set(wanted) - set(self._names))
        if not missing:
            return
        topic_asked = MetadataRequest.MetadataRequestTopic
        response = await self._cluster.call(
            None,
            lambda _: MetadataRequest(
                topics=[topic_asked(topic_id=each, name=None) for each in missing],
                allow_auto_topic_creation=False,
            ),
            MetadataRequest,
            deadline,
        )
        for found in response.topics:
            if found.name and not found.error_code:
                self._names[found.topic_id] = found.name

    def resolved(self, target: Target) -> Owned:
        """The partitions of a target, as far as their topics have names."""
        return frozenset(
            TopicPartition(self._names[topic_id], number)
            for topic_id, numbers in target.items()
            if topic_id in self._names
            for number in numbers
        )

    def knows(self, target: Target) -> bool:
        return all(topic_id in self._names for topic_id in target)
