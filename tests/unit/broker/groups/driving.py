"""A coordinator on virtual time and requests to it, with what tests do not care about filled in."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self
from uuid import UUID

from kclient.broker.groups.base import GroupStore, MemoryStore
from kclient.broker.groups.classic import ClassicGroup
from kclient.broker.groups.coordinator import GroupConfig, GroupCoordinator
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kclient.wire.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from kclient.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kclient.wire.messages.group_protocol import ConsumerProtocolSubscription
from kclient.wire.schema import NO_UUID

# Errors by the names that Kafka gives them.
OK, OFFSET_METADATA_TOO_LARGE, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 0, 12, 15, 16
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 3, 100
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID = 22, 23, 24, 25
INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS = 26, 27
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED = 68, 69, 79, 81
FENCED_INSTANCE_ID, GROUP_SUBSCRIBED_TO_TOPIC, STALE_MEMBER_EPOCH = 82, 86, 113

SESSION_MS, REBALANCE_MS = 10_000, 60_000
START = 1_700_000_000


class LoopClock:
    """The time of day moves with the loop, and further where a test says so."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def wall(self) -> float:
        return START + asyncio.get_running_loop().time() + self.ahead


@dataclass
class OneTopic:
    name: str
    topic_id: UUID
    partitions: range


@dataclass
class FewTopics:
    by_name: dict[str, OneTopic] = field(default_factory=dict)

    def add(self, name: str, partitions: int) -> None:
        self.by_name[name] = OneTopic(name, UUID(int=len(self.by_name) + 1), range(partitions))

    @property
    def by_id(self) -> dict[UUID, OneTopic]:
        return {topic.topic_id: topic for topic in self.by_name.values()}


class Groups:
    """A coordinator for the length of a test. Everything that still waits is answered when it is closed."""

    def __init__(self, store: GroupStore | None = None, **config: Any) -> None:
        self.store = MemoryStore() if store is None else store
        self.clock = LoopClock()
        self.topics = FewTopics()
        self.topics.add("orders", 3)
        self.topics.add("payments", 1)
        self.coordinator = GroupCoordinator(
            self.store, self.clock, GroupConfig(**config), self.topics, Random(1)
        )
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        self.coordinator.load()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.coordinator.close()
        await asyncio.gather(*self._tasks)

    def __getitem__(self, group_id: str) -> ClassicGroup:
        group = self.coordinator.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self["g"].state_name

    async def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        topics: Sequence[str] = ("orders",),
        kind: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        metadata: bytes | None = None,
    ) -> JoinGroupResponse:
        sent = subscription(topics) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=sent) for name in protocols
            ],
        )
        response = await self.coordinator.join_group(request, version, "app", "/10.0.0.1")
        response.encode(version)
        return response

    def joining(self, member_id: str = "", **options: Any) -> asyncio.Task[JoinGroupResponse]:
        """A join that goes on while the test does."""
        return self.start(self.join(member_id, **options))

    async def arriving(self, **options: Any) -> tuple[str, asyncio.Task[JoinGroupResponse]]:
        """A new dynamic member: asks for its id, then joins with it."""
        refused = await self.join(**options)
        assert refused.error_code == MEMBER_ID_REQUIRED
        task = self.joining(refused.member_id, **options)
        await settle()
        return refused.member_id, task

    async def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol: str | None = None,
        kind: str | None = None,
    ) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=one, assignment=data)
                for one, data in (assignments or {}).items()
            ],
        )
        return await self.coordinator.sync_group(request)

    def syncing(self, member_id: str, generation: int, **options: Any) -> asyncio.Task[SyncGroupResponse]:
        return self.start(self.sync(member_id, generation, **options))

    async def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return (await self.coordinator.heartbeat(request)).error_code

    async def leave(
        self, *leaving: str | tuple[str, str], group: str = "g", version: int = 5
    ) -> LeaveGroupResponse:
        """Members leave, by their ids or by pairs of member id and instance id."""
        pairs = [(one, None) if isinstance(one, str) else one for one in leaving]
        request = LeaveGroupRequest(group_id=group)
        if version < 3:
            request.member_id = pairs[0][0]
        else:
            kind = LeaveGroupRequest.MemberIdentity
            request.members = [kind(member_id=one, group_instance_id=instance) for one, instance in pairs]
        return await self.coordinator.leave_group(request, version)

    async def stable(self, members: int = 1, **options: Any) -> list[str]:
        """A stable group: its member ids, the leader first. Members are assigned their own ids."""
        arrivals = [await self.arriving(**options) for _ in range(members)]
        answers = [await task for _, task in arrivals]
        ids = [member_id for member_id, _ in arrivals]
        generation = answers[0].generation_id
        group = options.get("group", "g")
        followers = [self.syncing(one, generation, group=group) for one in ids[1:]]
        await settle()
        await self.sync(ids[0], generation, {one: one.encode() for one in ids}, group=group)
        await asyncio.gather(*followers)
        assert self[group].state_name == "Stable"
        return ids

    async def stay_alive(self, member_ids: Sequence[str], generation: int, seconds: float) -> None:
        """Let time pass while members send heartbeats."""
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            for member_id in member_ids:
                await self.heartbeat(member_id, generation)

    async def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        version: int = 9,
    ) -> dict[tuple[str, int], int]:
        """Commit, and the codes by partition."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic if version < 10 else "",
                    topic_id=self.topics.by_name[topic].topic_id if version >= 10 else NO_UUID,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        return codes(await self.coordinator.offset_commit(request, version))

    async def fetch(self, request: OffsetFetchRequest, version: int = 9) -> OffsetFetchResponse:
        response = await self.coordinator.offset_fetch(request, version)
        response.encode(version)
        return response

    async def committed(self, group: str = "g") -> dict[tuple[str, int], int]:
        """All offsets of a group."""
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        (answer,) = (await self.fetch(OffsetFetchRequest(groups=[asked]))).groups
        assert answer.error_code == OK
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
        }

    async def describe(self, group: str = "g", version: int = 6) -> DescribeGroupsResponse.DescribedGroup:
        response = await self.coordinator.describe_groups(DescribeGroupsRequest(groups=[group]), version)
        response.encode(version)
        return response.groups[0]

    def start(self, call: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.append(task)
        return task


async def settle() -> None:
    """Let everything run that is ready; time stands still."""
    for _ in range(5):
        await asyncio.sleep(0)


def now() -> float:
    return asyncio.get_running_loop().time()


def subscription(topics: Sequence[str]) -> bytes:
    """What a Java consumer sends about itself."""
    return struct.pack(">h", 1) + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


def codes(response: OffsetCommitResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.name or str(topic.topic_id), one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }
