"""Consumer groups on virtual time: a broker's worth of groups, and members that heartbeat as clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from kclient.broker.groups.base import Group, GroupConfig, GroupRecord, MemoryStore
from kclient.broker.groups.modern import ConsumerGroup, Surroundings
from kclient.broker.groups.modern_messages import Client
from kclient.broker.groups.modern_service import ConsumerGroups
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.support.virtual_loop import VirtualLoop

Owned = dict[str, list[int]]
CLIENT = Client("tester", "/127.0.0.1")
INTERVAL = 1.0


@dataclass
class Topics:
    """Topics that a test makes, grows and deletes."""

    known: dict[str, tuple[UUID, int]] = field(default_factory=dict)
    made: int = 0

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        return self.known

    def make(self, name: str, partitions: int) -> UUID:
        self.made += 1
        self.known[name] = (UUID(int=self.made), partitions)
        return self.known[name][0]


class Log(MemoryStore):
    """A store that remembers what was appended, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.appended: list[list[GroupRecord]] = []

    def append(self, group_id: str, records: list[GroupRecord]) -> None:
        self.appended.append(records)
        super().append(group_id, records)


class WallClock:
    def wall(self) -> float:
        return 1_700_000_000.0


class World:
    """Groups of one broker, its topics, and the loop that their time is on."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        store: Log | None = None,
        topics: Topics | None = None,
    ) -> None:
        self.loop = VirtualLoop()
        self.topics = topics or Topics()
        self.store = store or Log()
        self.successors: list[World] = []
        self.groups: dict[str, Group] = {}
        self.around = Surroundings(
            self.store, self.topics, config or GroupConfig(), WallClock(), self.loop, int(INTERVAL * 1000)
        )
        self.config, self.clock, self.random = self.around.config, self.around.clock, Random(1)
        self.service = ConsumerGroups(self, self.around)

    def append(self, group_id: str, records: list[GroupRecord]) -> None:
        self.store.append(group_id, records)

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def heartbeat(
        self, member_id: str, epoch: int, *, group: str = "g", version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, **fields
        )
        return self.service.heartbeat(request, version, CLIENT)

    def join(
        self, member_id: str, *topics: str, regex: str | None = None, timeout_ms: int = 5_000, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(
            member_id,
            0,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=None if regex is not None else list(topics),
            subscribed_topic_regex=regex,
            topic_partitions=[],
            **fields,
        )

    def owning(self, owned: Owned) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
        """What a member says it owns."""
        return [
            ConsumerGroupHeartbeatRequest.TopicPartitions(
                topic_id=self.topics.known[name][0], partitions=partitions
            )
            for name, partitions in owned.items()
        ]

    def told(self, response: ConsumerGroupHeartbeatResponse) -> Owned | None:
        """The assignment of an answer, by name of topic; None where there is none."""
        if response.assignment is None:
            return None
        names = {topic_id: name for name, (topic_id, _) in self.topics.known.items()}
        return {
            names[topic.topic_id]: list(topic.partitions) for topic in response.assignment.topic_partitions
        }

    def group(self, group_id: str = "g") -> ConsumerGroup:
        found = self.groups[group_id]
        assert isinstance(found, ConsumerGroup)
        return found

    def described(self, group_id: str = "g") -> ConsumerGroupDescribeResponse.DescribedGroup:
        return self.service.describe(group_id)

    def state(self, group_id: str = "g") -> str:
        return self.described(group_id).group_state

    def settle(self, members: Iterable[Consumer]) -> None:
        """Heartbeats of good clients until nothing changes any more."""
        for _ in range(20):
            self.pass_time(INTERVAL)
            for member in members:
                member.beat()

    def restarted(self) -> World:
        """A broker that begins with what this one has stored."""
        again = World(self.around.config, self.store, self.topics)
        self.successors.append(again)
        for key, value in list(self.store.load()):
            again.service.replay(key, value)
        for group in again.groups.values():
            group.loaded()
        return again

    def close(self) -> None:
        for successor in self.successors:
            successor.close()
        for group in self.groups.values():
            group.close()
        self.loop.close()


@contextmanager
def world(config: GroupConfig | None = None, **topics: int) -> Iterator[World]:
    made = World(config)
    for name, partitions in topics.items():
        made.topics.make(name, partitions)
    try:
        yield made
    finally:
        made.close()


class Consumer:
    """A client of the protocol that does as it is told, at once."""

    def __init__(self, world: World, member_id: str, *topics: str, **fields: Any) -> None:
        self.world = world
        self.member_id = member_id
        self.owned: Owned = {}
        self.instance: dict[str, Any] = {k: v for k, v in fields.items() if k == "instance_id"}
        self._take(world.join(member_id, *topics, **fields))

    def beat(self) -> None:
        owning = self.world.owning(self.owned)
        self._take(self.world.heartbeat(self.member_id, self.epoch, topic_partitions=owning, **self.instance))

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        told = self.world.told(response)
        if told is not None:
            self.owned = told
