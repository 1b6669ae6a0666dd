"""What groups and offsets are after a restart, and the records that carry them over it."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

import pytest

from kclient.broker.groups.base import MemoryStore
from kclient.broker.groups.offsets_topic import partition_for
from kclient.broker.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read,
    version_of,
    write,
)
from kclient.errors import ProtocolError
from kclient.wire.message import Data
from kclient.wire.schema import fields_of
from tests.unit.broker.groups.driving import (
    REBALANCE_IN_PROGRESS,
    REBALANCE_MS,
    SESSION_MS,
    START,
    Groups,
    subscription,
)

ORDERS = ("orders", 0)
JAR = Path("~/.cache/kclient/kafka/4.3.1/kafka-group-coordinator-4.3.1.jar").expanduser()


async def test_a_stable_group_goes_on_where_it_was() -> None:
    async with Groups() as groups:
        ids = await groups.stable(2)
        async with Groups(groups.store) as later:
            assert later.state == "Stable"
            assert await later.describe() == await groups.describe()
            assert [await later.heartbeat(one, 1) for one in ids] == [0, 0]
            assert (await later.sync(ids[1], 1)).assignment == ids[1].encode()
            assert later["g"].is_subscribed_to("orders")


async def test_the_leader_need_not_be_the_oldest_member() -> None:
    async with Groups() as groups:
        oldest, second = await groups.stable(2)
        groups["g"].members.leader = second
        async with Groups(MemoryStore()) as later:
            later.store.append("g", [groups["g"].record()])
            later.coordinator.load()
            assert oldest in later["g"].members
            assert later["g"].members.leader == second


async def test_members_that_do_not_come_back_after_a_restart_are_out() -> None:
    async with Groups() as groups:
        leader, gone = await groups.stable(2)
        async with Groups(groups.store) as later:
            await later.stay_alive([leader], 1, 11)
            assert gone not in later["g"].members
            assert await later.heartbeat(leader, 1) == REBALANCE_IN_PROGRESS


async def test_a_group_above_the_limit_rebalances_when_it_is_loaded() -> None:
    async with Groups() as groups:
        await groups.stable(3)
        async with Groups(groups.store, group_max_size=2) as later:
            assert later.state == "PreparingRebalance"


async def test_offsets_and_groups_without_members_are_loaded() -> None:
    async with Groups() as groups:
        await groups.commit({ORDERS: 5}, metadata="half way", version=10)
        await groups.commit({ORDERS: 9}, group="old", version=4, retention_ms=60_000)
        async with Groups(groups.store) as later:
            assert await later.committed() == {ORDERS: 5}
            assert later.coordinator.offsets.get("g", *ORDERS) == groups.coordinator.offsets.get("g", *ORDERS)
            assert later.coordinator.offsets.get("old", *ORDERS) == groups.coordinator.offsets.get(
                "old", *ORDERS
            )
            assert later["g"].state_name == "Empty"


async def test_an_empty_group_keeps_its_generation_and_the_time_since_when() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        await asyncio.sleep(5)
        await groups.leave(member_id)
        await asyncio.sleep(5)
        async with Groups(groups.store) as later:
            assert later["g"].generation == 2
            assert later["g"].since_ms == groups["g"].since_ms == int((START + 8) * 1000)


async def test_records_of_other_kinds_go_to_their_reader() -> None:
    class Reader:
        key_versions = frozenset({3, 5})

        def __init__(self) -> None:
            self.seen: list[tuple[bytes, bytes | None]] = []

        def replay(self, key: bytes, value: bytes | None) -> None:
            self.seen.append((key, value))

    store = MemoryStore()
    store.append("g", [(b"\x00\x03one", b"1"), (b"\x00\x05two", b"2"), (b"\x00\x63unknown", b"3")])
    groups, reader = Groups(store), Reader()
    groups.coordinator.add_reader(reader)
    async with groups:
        assert reader.seen == [(b"\x00\x03one", b"1"), (b"\x00\x05two", b"2")]


async def test_the_record_of_a_group_is_kafkas() -> None:
    async with Groups() as groups:
        (member_id,) = await groups.stable()
        assert isinstance(groups.store, MemoryStore)
        value = groups.store.records[b"\x00\x02\x00\x01g"]
        assert value is not None
        assert version_of(value) == 3
        said = read(GroupMetadataValue, value)
        assert (said.protocol_type, said.generation, said.protocol) == ("consumer", 1, "range")
        assert said.leader == member_id
        (member,) = said.members
        assert (member.rebalance_timeout, member.session_timeout) == (REBALANCE_MS, SESSION_MS)
        assert (member.subscription, member.assignment) == (subscription(["orders"]), member_id.encode())


def test_the_bytes_of_an_offset_are_kafkas() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    assert write(key, 1) == bytes.fromhex("0001 0001 67 0001 74 00000002")
    value = OffsetCommitValue(offset=7, leader_epoch=3, metadata="m", commit_timestamp=9)
    assert write(value, 3) == bytes.fromhex("0003 0000000000000007 00000003 0001 6d 0000000000000009")
    assert write(value, 4) == bytes.fromhex("0004 0000000000000007 00000003 02 6d 0000000000000009 00")
    assert read(OffsetCommitValue, write(value, 4)) == value


async def test_offsets_of_the_first_format_are_read() -> None:
    store = MemoryStore()
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)
    store.append("g", [(write(OffsetCommitKey(group="g", topic="orders", partition=0), 0), write(value, 0))])
    async with Groups(store) as groups:
        assert await groups.committed() == {ORDERS: 7}


def test_a_record_without_a_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="too few for its version"):
        read(OffsetCommitValue, b"\x00")


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("g", 3),
        ("my-group", 12),
        ("console-consumer-12345", 6),
        ("polygenelubricants", 0),  # its hash code is the smallest int
        ("größe", 7),
        ("\U0001f600", 49),  # two characters in Java
    ],
)
def test_a_group_is_in_the_partition_that_java_says(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


@pytest.mark.skipif(not JAR.exists(), reason="needs the jar of Kafka's group coordinator")
@pytest.mark.parametrize("kind", [OffsetCommitKey, OffsetCommitValue, GroupMetadataKey, GroupMetadataValue])
def test_the_declarations_have_the_fields_of_kafkas_definitions(kind: type[Data]) -> None:
    with zipfile.ZipFile(JAR) as jar:
        text = jar.read(f"common/message/{kind.__name__}.json").decode()
    definition = json.loads(
        "\n".join(line for line in text.splitlines() if not line.strip().startswith("//"))
    )
    ours = [(field.name.replace("_", ""), str(field.tag)) for field in fields_of(kind)]
    theirs = [(one["name"].lower(), str(one.get("tag"))) for one in definition["fields"]]
    assert ours == theirs
