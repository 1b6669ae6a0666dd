"""What is said to a broker about groups and their offsets; goes with `script`."""

from __future__ import annotations

from typing import Any

from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kclient.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kclient.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kclient.wire.messages.group_offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kclient.wire.messages.metadata import FindCoordinatorRequest
from tests.broker import migration_script
from tests.broker.conversation import Talk, build
from tests.broker.script import NOBODY, make_topic

# Longer than any pause of a busy machine: no member may run out of time in the middle of the talk.
LONG = 300_000


async def ready(talk: Talk) -> None:
    """Wait for a coordinator that has read its groups."""
    request = build(FindCoordinatorRequest, key="any", key_type=0)
    await talk.until(request, 3, lambda answer: answer.error_code == 0)
    heartbeat = build(HeartbeatRequest, group_id="any", member_id="m", generation_id=1)
    for group in ("any", "g", "offsets", "static", "modern", "other"):
        heartbeat.group_id = group
        await talk.until(heartbeat, 4, lambda answer: answer.error_code not in (14, 15, 16))


async def strangers(talk: Talk) -> None:
    """Members that no group knows."""
    await ready(talk)
    for version in range(5):
        request = build(HeartbeatRequest, group_id="g", member_id="m", generation_id=1)
        await talk.ask("heartbeat of a stranger", request, version)
        empty = build(HeartbeatRequest, group_id="", member_id="m", generation_id=1)
        await talk.ask("heartbeat without a group", empty, version)
    for version in range(6):
        request = build(SyncGroupRequest, group_id="g", member_id="m", generation_id=1)
        if version == 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        await talk.ask("sync of a stranger", request, version)
        if version < 3:
            leaving = build(LeaveGroupRequest, group_id="g", member_id="m")
        else:
            leaving = build(LeaveGroupRequest, group_id="g", members=[{"member_id": "m"}])
        await talk.ask("leave of a stranger", leaving, version)

    def join(version: int, **changes: Any) -> Any:
        given = {
            "group_id": "g", "session_timeout_ms": LONG, "rebalance_timeout_ms": LONG,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
            "group_instance_id": None, **changes,
        }  # fmt: skip
        if version == 0:
            given["rebalance_timeout_ms"] = -1
        return build(JoinGroupRequest, **given)

    for version in range(10):
        await talk.ask("join: no such member", join(version, member_id="nobody"), version)
        await talk.ask("join: no group", join(version, group_id=""), version)
        await talk.ask("join: a short session", join(version, session_timeout_ms=1), version)
        await talk.ask("join: a long session", join(version, session_timeout_ms=2**30), version)
        await talk.ask("join: no protocols", join(version, protocols=[]), version)
        await talk.ask("join: no kind", join(version, protocol_type=""), version)
    await talk.ask("join: needs an id", join(9, group_id="other"), 9)


async def membership(talk: Talk) -> None:
    """A group of one, from its first join to its end."""
    await ready(talk)
    protocols = [{"name": "range", "metadata": b"mine"}]
    for version in (5, 7, 9):
        name = f"static-{version}"
        given = {
            "group_id": name, "session_timeout_ms": LONG, "rebalance_timeout_ms": LONG,
            "protocol_type": "consumer", "protocols": protocols, "group_instance_id": "one",
        }  # fmt: skip
        await talk.until(
            build(HeartbeatRequest, group_id=name, member_id="m", generation_id=1),
            4,
            lambda answer: answer.error_code not in (14, 15, 16),
        )
        joined = await talk.ask("join as one", build(JoinGroupRequest, **given), version)
        member = joined.member_id
        mine = {"group_id": name, "member_id": member, "generation_id": 1, "group_instance_id": "one"}
        sync_version = 5 if version > 5 else 3
        synced = build(
            SyncGroupRequest, **mine, assignments=[{"member_id": member, "assignment": b"all"}],
            protocol_type="consumer" if sync_version == 5 else None,
            protocol_name="range" if sync_version == 5 else None,
        )  # fmt: skip
        await talk.ask("sync as one", synced, sync_version)
        await talk.ask("heartbeat", build(HeartbeatRequest, **mine), 4)
        for label, change in (
            ("old generation", {"generation_id": 0}), ("new generation", {"generation_id": 9}),
            ("wrong member", {"member_id": "x"}), ("wrong instance", {"group_instance_id": "two"}),
        ):  # fmt: skip
            await talk.ask(f"heartbeat: {label}", build(HeartbeatRequest, **{**mine, **change}), 4)
            sync = build(SyncGroupRequest, **{**mine, **change})
            await talk.ask(f"sync: {label}", sync, 3)
        other = build(JoinGroupRequest, **{**given, "protocols": [{"name": "odd", "metadata": b""}],
                                           "group_instance_id": None})  # fmt: skip
        await talk.ask("join with another protocol", other, version)
        for described in range(7):
            await talk.ask("describe the group", build(DescribeGroupsRequest, groups=[name]), described)
        await talk.ask("delete a group with members", build(DeleteGroupsRequest, groups_names=[name]), 2)
        leaving = build(LeaveGroupRequest, group_id=name, members=[
            {"member_id": "", "group_instance_id": "one"}, {"member_id": "x", "group_instance_id": None},
        ])  # fmt: skip
        await talk.ask("leave", leaving, 4)
        empty = build(DescribeGroupsRequest, groups=[name])
        await talk.until(empty, 6, lambda answer: answer.groups[0].group_state == "Empty")
        await talk.ask("describe the empty group", empty, 6)
        await talk.ask("delete the empty group", build(DeleteGroupsRequest, groups_names=[name, "x"]), 2)


async def committed(talk: Talk) -> None:
    """Offsets of a group without members."""
    topic_id = await make_topic(talk, "committed", 2)
    await ready(talk)

    def commit(offset: int = 5, generation: int = -1, member: str = "", note: str = "n", **more: Any) -> Any:
        inner = {"partition_index": 0, "committed_offset": offset, "committed_metadata": note}
        topic = {"name": "committed", "partitions": [inner], **more}
        return build(
            OffsetCommitRequest, group_id="offsets", generation_id_or_member_epoch=generation,
            member_id=member, group_instance_id=None, topics=[topic],
        )  # fmt: skip

    for version in range(2, 10):
        await talk.ask("commit", commit(), version)
        await talk.ask("commit with a long note", commit(note="x" * 5000), version)
        await talk.ask("commit of an unknown topic", commit(name="no-such"), version)
        unknown = [{"partition_index": 9, "committed_offset": 5, "committed_metadata": ""}]
        await talk.ask("commit of an unknown partition", commit(partitions=unknown), version)
        await talk.ask("commit of a stranger", commit(generation=3, member="m"), version)
    await talk.ask("commit by id", commit(6, name="", topic_id=topic_id), 10)
    await talk.ask("commit by unknown id", commit(6, name="", topic_id=NOBODY), 10)
    for version in range(1, 8):
        asked = [
            {"name": "committed", "partition_indexes": [0, 1, 9]},
            {"name": "no-such", "partition_indexes": [0]},
        ]
        await talk.ask("committed", build(OffsetFetchRequest, group_id="offsets", topics=asked), version)
        await talk.ask("committed by nobody", build(OffsetFetchRequest, group_id="x", topics=asked), version)
        if version > 1:
            everything = build(OffsetFetchRequest, group_id="offsets", topics=None)
            await talk.ask("committed, all", everything, version)
    for version in range(8, 11):
        which = {"topic_id": topic_id} if version == 10 else {"name": "committed"}
        groups = [
            {"group_id": "offsets", "member_id": None, "member_epoch": -1,
             "topics": [{**which, "partition_indexes": [0, 1]}]},
            {"group_id": "x", "member_id": None, "member_epoch": -1, "topics": None},
        ]  # fmt: skip
        await talk.ask("committed by several", build(OffsetFetchRequest, groups=groups), version)
    for topic, partition in (("committed", 0), ("committed", 1), ("no-such", 0)):
        topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
        for group in ("offsets", "x"):
            request = build(OffsetDeleteRequest, group_id=group, topics=topics)
            await talk.ask(f"delete offset of {topic}-{partition} in {group}", request, 0)


async def group_admin(talk: Talk) -> None:
    await ready(talk)
    for version in range(7):
        await talk.ask("describe an unknown group", build(DescribeGroupsRequest, groups=["x", ""]), version)
    for version in range(6):
        await talk.ask("list groups", build(ListGroupsRequest), version)
    for states, types in ((["Empty"], []), (["Stable"], []), ([], ["classic"]), (["nonsense"], ["nonsense"])):
        request = build(ListGroupsRequest, states_filter=states, types_filter=types)
        await talk.ask(f"list groups {states} {types}", request, 5)
    for version in range(3):
        await talk.ask("delete an unknown group", build(DeleteGroupsRequest, groups_names=["x", ""]), version)


async def modern(talk: Talk) -> None:
    await make_topic(talk, "assigned-here", 2)
    await ready(talk)

    def beat(**changes: Any) -> Any:
        given = {
            "group_id": "modern", "member_id": "Kj3nQ0iCQDyJm3xqWYyJ0w", "member_epoch": 0,
            "instance_id": None, "rack_id": None, "rebalance_timeout_ms": 10000,
            "subscribed_topic_names": ["assigned-here"],
            "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": [], **changes,
        }  # fmt: skip
        return build(ConsumerGroupHeartbeatRequest, **given)

    for version in range(2):
        for label, request in (
            ("no group", beat(group_id="")),
            ("no member", beat(member_id="", member_epoch=1)),
            ("no timeout", beat(rebalance_timeout_ms=-1)),
            ("no subscription", beat(subscribed_topic_names=None)),
            ("no partitions", beat(topic_partitions=None)),
            ("partitions of before", beat(topic_partitions=[{"topic_id": NOBODY, "partitions": [0]}])),
            ("unknown assignor", beat(server_assignor="none")),
            ("negative epoch", beat(member_epoch=-5)),
            ("static leave without instance", beat(member_epoch=-2)),
            ("empty instance", beat(instance_id="")),
            ("empty rack", beat(rack_id="")),
            ("unknown group", beat(group_id="other", member_epoch=4)),
        ):
            await talk.ask(f"beat: {label}", request, version)
        await talk.ask(
            "describe modern", build(ConsumerGroupDescribeRequest, group_ids=["x", "", "offsets"]), version
        )
    await talk.ask("beat: a bad pattern", beat(subscribed_topic_names=None, subscribed_topic_regex="("), 1)
    await talk.ask("beat: joins", beat(), 1)
    await talk.ask("beat: unknown member", beat(member_id="AAAAAAAAAAAAAAAAAAAAAA", member_epoch=2), 1)
    await talk.ask("beat: newer epoch", beat(member_epoch=77), 1)
    await talk.ask("beat: leaves", beat(member_epoch=-1), 1)


CHAPTERS = (strangers, membership, committed, group_admin, modern, *migration_script.CHAPTERS)
