"""Groups with members of both protocols, on virtual time, and requests of either kind to them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kclient.broker.groups.base import GroupStore
from kclient.broker.groups.embedded import read_assignment
from kclient.broker.groups.modern import ConsumerGroup, Surroundings
from kclient.broker.groups.modern_messages import Client
from kclient.broker.groups.modern_service import ConsumerGroups
from kclient.wire.messages.classic_groups import JoinGroupResponse
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.unit.broker.groups.driving import OK, FewTopics, Groups

TOPIC = "shared"
PARTITIONS = 4
PROTOCOL = "cooperative-sticky"


class View:
    """Topics as consumer groups see them."""

    def __init__(self, topics: FewTopics) -> None:
        self._topics = topics

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        return {name: (one.topic_id, len(one.partitions)) for name, one in self._topics.by_name.items()}


class Mixed(Groups):
    """A coordinator with groups of both kinds. Consumers subscribe to one topic of four partitions."""

    def __init__(self, store: GroupStore | None = None, **config: Any) -> None:
        super().__init__(store, **config)
        self.topics.add(TOPIC, PARTITIONS)
        around = Surroundings(
            self.store,
            View(self.topics),
            self.coordinator.config,
            self.clock,
            asyncio.get_running_loop(),
            assignment_interval_ms=0,
        )
        self.service = ConsumerGroups(self.coordinator, around)
        self.coordinator.add_reader(self.service)

    @property
    def kind(self) -> str:
        return self.coordinator.groups["g"].type_name

    @property
    def modern(self) -> ConsumerGroup:
        group = self.coordinator.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def seen(self) -> tuple[str, str]:
        """Type and state, as admin clients see them."""
        group = self.coordinator.groups["g"]
        return group.type_name, group.state_name

    def described(self) -> ConsumerGroupDescribeResponse.DescribedGroup:
        return self.service.describe("g")

    async def rejoin(self, member_id: str, owned: Sequence[int] = (), **options: Any) -> JoinGroupResponse:
        """A cooperative consumer joins, and says what it owns."""
        given = {"protocols": (PROTOCOL,), "metadata": subscription(owned), **options}
        return await self.join(member_id, **given)

    async def classic_group(self, members: int = 1, **options: Any) -> list[str]:
        """A stable classic group whose first member has everything."""
        given = {"protocols": (PROTOCOL,), "metadata": subscription(), **options}
        arrivals = [await self.arriving(**given) for _ in range(members)]
        answers = [await task for _, task in arrivals]
        ids = [member_id for member_id, _ in arrivals]
        followers = [self.syncing(one, answers[0].generation_id) for one in ids[1:]]
        shares = {one: assignment(()) for one in ids[1:]}
        shares[ids[0]] = assignment(range(PARTITIONS))
        await self.sync(ids[0], answers[0].generation_id, shares)
        await asyncio.gather(*followers)
        return ids

    async def held(self, member_id: str, generation: int, instance: str | None = None) -> list[int]:
        """What a classic member is told to have."""
        answer = await self.sync(member_id, generation, instance=instance)
        assert answer.error_code == OK
        topics = read_assignment(bytes(answer.assignment)).assigned_partitions
        return [partition for topic in topics for partition in topic.partitions]

    def beat(
        self, member_id: str, epoch: int, owned: Sequence[int] | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        kind = ConsumerGroupHeartbeatRequest.TopicPartitions
        topic_id = self.topics.by_name[TOPIC].topic_id
        if owned is not None:
            fields["topic_partitions"] = [kind(topic_id=topic_id, partitions=list(owned))] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **fields
        )
        return self.service.heartbeat(request, 1, Client("app", "/10.0.0.1"))

    def begin(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Join by the new protocol."""
        given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC], **fields}
        return self.beat(member_id, 0, (), **given)


def told(response: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    if response.assignment is None:
        return None
    return [number for topic in response.assignment.topic_partitions for number in topic.partitions]


def subscription(owned: Sequence[int] = ()) -> bytes:
    kind = ConsumerProtocolSubscription
    partitions = [kind.TopicPartition(topic=TOPIC, partitions=list(owned))] if owned else []
    return struct.pack(">h", 1) + kind(topics=[TOPIC], owned_partitions=partitions).encode(1)


def assignment(partitions: Sequence[int], user_data: bytes | None = None) -> bytes:
    kind = ConsumerProtocolAssignment
    given = [kind.TopicPartition(topic=TOPIC, partitions=list(partitions))]
    return struct.pack(">h", 1) + kind(assigned_partitions=given, user_data=user_data).encode(1)
