"""What is said to a broker while a group moves between the protocols and back; goes with `group_script`.

New targets are at least a second apart, so where one is due the script asks until it is there, unnoted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kclient.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kclient.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from kclient.wire.messages.group_offsets import OffsetCommitRequest
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kclient.wire.messages.metadata import FindCoordinatorRequest
from tests.broker.conversation import Talk, build
from tests.broker.script import make_topic

TOPIC = "migrated"
NEWCOMER = "Kj3nQ0iCQDyJm3xqWYyJ0w"
STRANGER = "AAAAAAAAAAAAAAAAAAAAAA"
_NOT_READY = (14, 15, 16)


def subscription(owned: Sequence[int] = (), user_data: bytes | None = None) -> bytes:
    """What a cooperative consumer says of itself."""
    partitions = [{"topic": TOPIC, "partitions": list(owned)}] if owned else []
    said = build(
        ConsumerProtocolSubscription, topics=[TOPIC], owned_partitions=partitions, user_data=user_data
    )
    return struct.pack(">h", 1) + bytes(said.encode(1))


def assignment(partitions: Sequence[int], user_data: bytes | None = None) -> bytes:
    given = [{"topic": TOPIC, "partitions": list(partitions)}]
    told = build(ConsumerProtocolAssignment, assigned_partitions=given, user_data=user_data)
    return struct.pack(">h", 1) + bytes(told.encode(1))


class Migrating:
    """One group, and the requests of its members."""

    def __init__(self, talk: Talk, group: str) -> None:
        self.talk = talk
        self.group = group

    async def ready(self) -> None:
        """Wait for a coordinator that has read the group."""
        found = build(FindCoordinatorRequest, key=self.group, key_type=0)
        await self.talk.until(found, 3, lambda answer: answer.error_code == 0)
        request = build(HeartbeatRequest, group_id=self.group, member_id="m", generation_id=1)
        await self.talk.until(request, 4, lambda answer: answer.error_code not in _NOT_READY)

    async def join(self, label: str, member: str = "", owned: Sequence[int] = (), **changes: Any) -> Any:
        given = {
            "group_id": self.group, "session_timeout_ms": 30000, "rebalance_timeout_ms": 30000,
            "member_id": member, "group_instance_id": None, "protocol_type": "consumer",
            "protocols": [{"name": "cooperative-sticky", "metadata": subscription(owned)}], **changes,
        }  # fmt: skip
        return await self.talk.ask(f"{label}: join", build(JoinGroupRequest, **given), 9)

    async def arrive(self, label: str, **changes: Any) -> str:
        """A new dynamic member asks for its id and joins with it."""
        refused = await self.join(label, **changes)
        await self.join(label, refused.member_id, **changes)
        return str(refused.member_id)

    async def sync(self, label: str, member: str, generation: int, **changes: Any) -> Any:
        given = {
            "group_id": self.group, "member_id": member, "generation_id": generation,
            "group_instance_id": None, "protocol_type": "consumer", "protocol_name": "cooperative-sticky",
            **changes,
        }  # fmt: skip
        return await self.talk.ask(f"{label}: sync", build(SyncGroupRequest, **given), 5)

    async def lead(self, label: str, member: str, generation: int, **changes: Any) -> None:
        """Sync as the leader of a classic group that takes everything."""
        given = [{"member_id": member, "assignment": assignment([0, 1, 2, 3])}]
        await self.sync(label, member, generation, **{"assignments": given, **changes})

    async def alive(self, label: str, member: str, generation: int, instance: str | None = None) -> None:
        request = build(
            HeartbeatRequest, group_id=self.group, member_id=member, generation_id=generation,
            group_instance_id=instance,
        )  # fmt: skip
        await self.talk.ask(f"{label}: heartbeat", request, 4)

    async def leave(self, label: str, *members: tuple[str, str | None]) -> None:
        leaving = [{"member_id": member, "group_instance_id": instance} for member, instance in members]
        request = build(LeaveGroupRequest, group_id=self.group, members=leaving)
        await self.talk.ask(f"{label}: leave", request, 5)

    def beaten(self, member: str, epoch: int, **changes: Any) -> Any:
        given = {"group_id": self.group, "member_id": member, "member_epoch": epoch, **changes}
        return build(ConsumerGroupHeartbeatRequest, **given)

    async def beat(self, label: str, member: str, epoch: int, **changes: Any) -> Any:
        return await self.talk.ask(f"{label}: beat", self.beaten(member, epoch, **changes), 1)

    async def begin(self, label: str, member: str = NEWCOMER, **changes: Any) -> Any:
        """Join by the new protocol."""
        first = {
            "rebalance_timeout_ms": 30000, "subscribed_topic_names": [TOPIC], "topic_partitions": [],
        }  # fmt: skip
        return await self.beat(label, member, 0, **{**first, **changes})

    async def commit(
        self, label: str, member: str, epoch: int, version: int = 9, partitions: Sequence[int] = (0,)
    ) -> None:
        offsets = [
            {"partition_index": number, "committed_offset": 5, "committed_metadata": ""}
            for number in partitions
        ]
        request = build(
            OffsetCommitRequest, group_id=self.group, generation_id_or_member_epoch=epoch, member_id=member,
            group_instance_id=None, topics=[{"name": TOPIC, "partitions": offsets}],
        )  # fmt: skip
        await self.talk.ask(f"{label}: commit", request, version)

    async def look(self, label: str) -> None:
        """The group as admin clients see it."""
        for version in range(2):
            modern = build(ConsumerGroupDescribeRequest, group_ids=[self.group])
            await self.talk.ask(f"{label}: describe", modern, version)
            for group in self.talk.exchanges[-1].answer["groups"]:
                # Kafka shows them in the order of a hash map.
                group["members"].sort(key=lambda member: str(member["member_id"]))
        await self.talk.ask(f"{label}: describe", build(DescribeGroupsRequest, groups=[self.group]), 6)
        for kind in ("classic", "consumer"):
            await self.talk.ask(f"{label}: list", build(ListGroupsRequest, types_filter=[kind]), 5)


def owning(topic_id: UUID, *partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partitions": list(partitions)}]


async def there_and_back(talk: Talk) -> None:
    """A classic member is joined by one of the new protocol, which goes again."""
    topic_id = await make_topic(talk, TOPIC, 4)
    group = Migrating(talk, "migrating")
    await group.ready()
    member = await group.arrive("a classic group")
    await group.lead("a classic group", member, 1)
    await group.look("a classic group")

    await group.begin("the first of the others")
    await group.look("upgraded")
    for generation in (0, 1, 2):
        await group.alive(f"upgraded, generation {generation}", member, generation)
        await group.sync(f"upgraded, generation {generation}", member, generation)
        for version in (8, 9):
            await group.commit(f"upgraded, generation {generation}", member, generation, version)
    await odd_ones(group, member)

    await group.join("has to let go", member, [0, 1, 2, 3])
    await group.alive("has to let go", member, 1)
    await group.sync("has to let go", member, 1)
    await group.beat("waits", NEWCOMER, 2)
    await group.look("has to let go")
    await group.join("has let go", member, [0, 1])
    await group.sync("has let go", member, 2)
    await group.alive("has let go", member, 2)
    await group.beat("gets the rest", NEWCOMER, 2)
    await group.beat("has the rest", NEWCOMER, 2, topic_partitions=owning(topic_id, 2, 3))
    for epoch in (0, 1, 2, 3):
        for who in (member, NEWCOMER):
            await group.commit(f"epoch {epoch} of what it keeps", who, epoch)
            await group.commit(f"epoch {epoch} of what it gained", who, epoch, partitions=[2])
            await group.commit(f"epoch {epoch} of both", who, epoch, partitions=[0, 2])
    await group.look("both")

    await group.beat("the other goes", NEWCOMER, -1)
    await group.look("downgraded")
    await group.alive("downgraded", member, 2)
    await group.sync("downgraded", member, 2)
    await group.beat("came too late", NEWCOMER, 2)
    await group.join("alone again", member, [0, 1])
    await group.lead("alone again", member, 3)
    await group.alive("alone again", member, 3)
    await group.look("alone again")
    await group.leave("alone again", (member, None))


async def odd_ones(group: Migrating, member: str) -> None:
    """What a group of both kinds does not let through."""
    await group.sync("odd type", member, 1, protocol_type="connect")
    await group.sync("odd protocol", member, 1, protocol_name="range")
    await group.sync("stranger", "nobody", 1)
    await group.sync("of the others", NEWCOMER, 2)
    await group.sync("unknown instance", member, 1, group_instance_id="nobody")
    await group.alive("stranger", "nobody", 1)
    await group.alive("of the others", NEWCOMER, 2)
    await group.alive("unknown instance", member, 1, "nobody")
    await group.leave("strangers", ("nobody", None), ("", "nobody"), (member, "nobody"))
    await group.join("odd type", member, protocol_type="connect")
    await group.join("odd protocol", "x", protocols=[{"name": "range", "metadata": subscription()}])
    await group.join("odd bytes", member, protocols=[{"name": "cooperative-sticky", "metadata": b""}])
    await group.join("no protocols", member, protocols=[])
    await group.join("no id", "")
    await group.join("unknown instance", "x", group_instance_id="nobody")


async def taking_over(talk: Talk) -> None:
    """A static member changes the protocol with each restart."""
    await make_topic(talk, TOPIC + "-too", 1)
    group = Migrating(talk, "static-migrating")
    await group.ready()
    static: dict[str, Any] = {"group_instance_id": "one"}
    joined = await group.join("static", **static)
    first = joined.member_id
    await group.lead("static", first, 1, **static)

    await group.begin("static, by the others", NEWCOMER, instance_id="one")
    await group.look("static, by the others")
    await group.alive("who was replaced", first, 1, "one")
    await group.begin("static, not released", STRANGER, instance_id="one")

    joined = await group.join("static, back", **static)
    second = joined.member_id
    await group.look("static, back")
    await group.sync("static, back", second, joined.generation_id, **static)
    await group.alive("static, back", second, joined.generation_id, "one")
    await group.beat("who was replaced", NEWCOMER, joined.generation_id, instance_id="one")
    await group.leave("static, back", ("", "one"))
    await group.look("static, gone")


async def both_leave(talk: Talk) -> None:
    """Members of both protocols are removed by one LeaveGroup; what remains decides on the kind of group."""
    await make_topic(talk, TOPIC + "-again", 1)
    group = Migrating(talk, "leaving")
    await group.ready()
    joined = await group.join("first", group_instance_id="one")
    member = joined.member_id
    await group.lead("first", member, 1, group_instance_id="one")
    await group.begin("second", NEWCOMER, instance_id="two")
    await group.leave("removed", ("", "two"), ("", "three"))
    await group.look("removed")
    joined = await group.join("first", member, [0, 1, 2, 3], group_instance_id="one")
    await group.lead("first", member, joined.generation_id, group_instance_id="one")
    await group.begin("second", NEWCOMER)
    await group.leave("all removed", ("", "one"), (NEWCOMER, None))
    await group.look("all removed")


async def not_upgraded(talk: Talk) -> None:
    """Classic groups that stay so."""
    odd = [{"name": "odd", "metadata": b""}]
    for name, kind, protocols, given in (
        ("connecting", "connect", odd, b""),
        ("malformed", "consumer", odd, b""),
        ("custom", "consumer", [{"name": "odd", "metadata": subscription()}], assignment([0], b"mine")),
    ):
        group = Migrating(talk, name)
        await group.ready()
        static: dict[str, Any] = {"group_instance_id": "one"}
        joined = await group.join(name, protocol_type=kind, protocols=protocols, **static)
        told = [{"member_id": joined.member_id, "assignment": given}]
        await group.lead(
            name, joined.member_id, 1, assignments=told, protocol_type=kind, protocol_name="odd", **static
        )
        await group.begin(name)
        await group.alive(name, joined.member_id, 1, "one")
        await group.leave(name, ("", "one"))


CHAPTERS = (there_and_back, taking_over, both_leave, not_upgraded)
