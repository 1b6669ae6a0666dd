"""What is said to a broker about records and offsets, and who leads and coordinates; goes with `script`."""

from __future__ import annotations

import uuid
from typing import Any

from kclient.records.encode import Stamp, encode_batch
from kclient.wire.messages.fetch import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kclient.wire.messages.metadata import (
    FindCoordinatorRequest,
)
from kclient.wire.messages.produce import ProduceRequest
from kclient.wire.messages.replicas import DescribeLogDirsRequest, ElectLeadersRequest
from kclient.wire.messages.topics import (
    DeleteRecordsRequest,
)
from kclient.wire.messages.transactions import InitProducerIdRequest
from kclient.wire.schema import NO_UUID
from tests.broker.conversation import Talk, build
from tests.broker.script import NOBODY, make_topic, settled

START = 1_700_000_000_000


def records(*values: bytes, key: bytes | None = b"k", time: int = START, stamp: Stamp | None = None) -> bytes:
    rows = [(key, value, time + index, ()) for index, value in enumerate(values)]
    return encode_batch(rows, stamp=stamp or Stamp())


def produce(topic: str | uuid.UUID, data: bytes | None, partition: int = 0, acks: int = -1) -> Any:
    which = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}
    item = {**which, "partition_data": [{"index": partition, "records": data}]}
    return build(ProduceRequest, acks=acks, timeout_ms=10000, topic_data=[item])


async def producing(talk: Talk) -> None:
    topic_id = await make_topic(talk, "written", 2)
    for version in range(3, 13):
        await talk.ask("produce", produce("written", records(b"one", b"two")), version)
        await talk.ask("produce: acks 1", produce("written", records(b"one"), acks=1), version)
        await talk.ask("produce: unknown topic", produce("no-such", records(b"one")), version)
        await talk.ask("produce: unknown partition", produce("written", records(b"one"), 9), version)
        await talk.ask("produce: acks 7", produce("written", records(b"one"), acks=7), version)
    await talk.ask("produce by id", produce(topic_id, records(b"three")), 13)
    await talk.ask("produce by unknown id", produce(NOBODY, records(b"three")), 13)
    await talk.ask("produce by id: unknown partition", produce(topic_id, records(b"three"), 5), 13)
    await broken_batches(talk)
    await sequences(talk)
    await limits(talk)
    plain = build(InitProducerIdRequest, transactional_id=None, transaction_timeout_ms=1000)
    await talk.until(plain, 5, lambda answer: answer.error_code == 0 and answer.producer_id > 0)
    for version in (0, 1, 2, 3, 4, 5):
        for name in (None, ""):
            request = build(InitProducerIdRequest, transactional_id=name, transaction_timeout_ms=1000)
            await talk.ask(f"the id of a producer named {name}", request, version)


async def broken_batches(talk: Talk) -> None:
    good = records(b"one", b"two")
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    for version in (7, 8, 12):
        for label, data in (
            ("a wrong checksum", flipped),
            ("a cut batch", good[:-4]),
            ("zero bytes", b""),
            ("two batches", good + good),
            ("an old format", good[:16] + b"\x01" + good[17:]),
            ("a format that is none", good[:16] + b"\x07" + good[17:]),
            ("a base offset", records(b"one", stamp=Stamp(base_offset=50))),
            ("a time far ahead", records(b"one", time=START * 3)),
            ("no time", records(b"one", time=-1)),
        ):
            await talk.ask(f"produce: {label}", produce("written", data), version)


async def sequences(talk: Talk) -> None:
    def numbered(first: int, epoch: int = 0, count: int = 2, producer: int = 4000) -> Any:
        stamp = Stamp(producer_id=producer, producer_epoch=epoch, base_sequence=first)
        return produce("written", records(*[b"numbered"] * count, stamp=stamp), 1)

    await talk.ask("sequence: an unknown producer in the middle", numbered(5, producer=4001), 12)
    await talk.ask("sequence: begins", numbered(0), 12)
    await talk.ask("sequence: again", numbered(0), 12)
    await talk.ask("sequence: goes on", numbered(2), 12)
    await talk.ask("sequence: a gap", numbered(7), 12)
    await talk.ask("sequence: half of one", numbered(2, count=1), 12)
    await talk.ask("sequence: overlap", numbered(3), 12)
    for first in range(4, 14, 2):
        await talk.ask("sequence: goes on", numbered(first), 12)
    await talk.ask("sequence: long ago", numbered(0), 12)
    await talk.ask("sequence: five back", numbered(4), 12)
    await talk.ask("sequence: new epoch in the middle", numbered(3, epoch=1), 12)
    await talk.ask("sequence: new epoch", numbered(0, epoch=1), 12)
    await talk.ask("sequence: old epoch", numbered(14), 12)


async def limits(talk: Talk) -> None:
    await make_topic(talk, "small", max_message_bytes="200")
    await talk.ask("produce: too large", produce("small", records(b"x" * 300)), 12)
    await talk.ask("produce: small enough", produce("small", records(b"x" * 50)), 12)
    await make_topic(talk, "keyed", cleanup_policy="compact")
    for version in (7, 8, 12):
        await talk.ask("produce: no key", produce("keyed", records(b"one", b"two", key=None)), version)
    await talk.ask("produce: a key", produce("keyed", records(b"one")), 12)
    await make_topic(talk, "stamped", message_timestamp_type="LogAppendTime")
    await talk.ask("produce: stamped", produce("stamped", records(b"one")), 12)
    await make_topic(talk, "needy", min_insync_replicas="2")
    await talk.ask("produce: too few replicas", produce("needy", records(b"one")), 12)
    await talk.ask("produce: too few replicas, acks 1", produce("needy", records(b"one"), acks=1), 12)
    await make_topic(talk, "punctual", message_timestamp_before_max_ms="1000")
    await talk.ask("produce: too old", produce("punctual", records(b"one")), 12)


def fetch(topic: str | uuid.UUID, offset: int = 0, **more: Any) -> Any:
    """A fetch of one partition; `partition` holds changes to what is asked of it."""
    which = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"topic": topic}
    inner = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    inner.update(more.pop("partition", {}))
    topics = more.pop("topics", [{**which, "partitions": [inner]}])
    given = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return build(FetchRequest, topics=topics, **given)


async def fetching(talk: Talk) -> None:
    topic_id = await make_topic(talk, "read", 2)
    for index in range(5):
        await talk.ask("produce to read", produce("read", records(b"v" * 100, time=START + index * 1000)), 12)
    for version in range(4, 13):
        await talk.ask("fetch", fetch("read"), version)
        await talk.ask("fetch the last", fetch("read", 4), version)
        await talk.ask("fetch the end", fetch("read", 5), version)
        await talk.ask("fetch past the end", fetch("read", 6), version)
        await talk.ask("fetch before the start", fetch("read", -1), version)
        await talk.ask("fetch an unknown topic", fetch("no-such"), version)
        await talk.ask("fetch an unknown partition", fetch("read", partition={"partition": 7}), version)
        await talk.ask("fetch little", fetch("read", partition={"partition_max_bytes": 200}), version)
        await talk.ask("fetch next to nothing", fetch("read", max_bytes=1), version)
        await talk.ask("fetch what is committed", fetch("read", isolation_level=1), version)
    for version in range(13, 19):
        await talk.ask("fetch by id", fetch(topic_id), version)
        await talk.ask("fetch by unknown id", fetch(NOBODY), version)
        await talk.ask("fetch by no id", fetch(NO_UUID), version)
        await talk.ask("fetch past the end by id", fetch(topic_id, 9), version)
        await talk.ask(
            "fetch an unknown partition by id", fetch(topic_id, partition={"partition": 7}), version
        )
    for version in (9, 12):
        for epoch in (0, 5):
            request = fetch("read", partition={"current_leader_epoch": epoch})
            await talk.ask(f"fetch as of epoch {epoch}", request, version)
    for offset, epoch in ((2, 0), (9, 0), (2, 3)):
        request = fetch("read", offset, partition={"last_fetched_epoch": epoch})
        await talk.ask(f"fetch {offset} after epoch {epoch}", request, 12)
    await talk.ask("fetch and wait for more", fetch("read", 4, min_bytes=100_000), 12)
    await talk.ask("fetch and do not wait", fetch("read", 5, max_wait_ms=0), 12)
    await fetch_sessions(talk, topic_id)


async def fetch_sessions(talk: Talk, topic_id: uuid.UUID) -> None:
    for version, name in ((7, "read"), (12, "read"), (13, topic_id), (18, topic_id)):
        key = "topic" if version < 13 else "topic_id"
        opened = await talk.ask("session: opened", fetch(name, session_epoch=0), version)
        session = opened.session_id

        def go_on(epoch: int, topics: list[Any], session: int = session, **more: Any) -> Any:
            return fetch("", topics=topics, session_id=session, session_epoch=epoch, **more)

        def wanted(partition: int, offset: int, key: str = key, name: Any = name) -> list[Any]:
            inner = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            return [{key: name, "partitions": [inner]}]

        await talk.ask("session: as before", go_on(1, []), version)
        await talk.ask("session: at the end", go_on(2, wanted(0, 5)), version)
        await talk.ask("session: another partition", go_on(3, wanted(1, 0)), version)
        await talk.ask("session: nothing new", go_on(4, []), version)
        await talk.ask("session: wrong epoch", go_on(9, []), version)
        await talk.ask("session: out of range", go_on(5, wanted(0, 50)), version)
        await talk.ask("session: still out of range", go_on(6, []), version)
        await talk.ask("session: unknown partition", go_on(7, wanted(6, 0)), version)
        forgotten = [{key: name, "partitions": [0, 6]}]
        await talk.ask("session: forgets", go_on(8, [], forgotten_topics_data=forgotten), version)
        await talk.ask("session: unknown", go_on(1, [], session=session ^ 1), version)
        await talk.ask("session: ended", go_on(-1, wanted(0, 4)), version)
        await talk.ask("session: after its end", go_on(9, []), version)
        unknown = "no-such" if version < 13 else NOBODY
        opened = await talk.ask("session: on an unknown topic", fetch(unknown, session_epoch=0), version)
        later = fetch("", topics=[], session_id=opened.session_id, session_epoch=1)
        await talk.ask("session: still on an unknown topic", later, version)
    for first, name, then in ((12, "read", 13), (13, topic_id, 12)):
        opened = await talk.ask("session: opened", fetch(name, session_epoch=0), first)
        later = fetch("", topics=[], session_id=opened.session_id, session_epoch=1)
        await talk.ask("session: names topics in another way", later, then)


async def offsets(talk: Talk) -> None:
    await make_topic(talk, "timed")
    for index in range(5):
        data = records(b"a", b"b", time=START + 1000 * (index if index < 4 else 0))
        await talk.ask("produce to timed", produce("timed", data), 12)
    await make_topic(talk, "empty")

    def at(time: int, name: str = "timed", partition: int = 0, epoch: int = -1, **more: Any) -> Any:
        inner = {"partition_index": partition, "timestamp": time, "current_leader_epoch": epoch}
        return build(
            ListOffsetsRequest, replica_id=-1, topics=[{"name": name, "partitions": [inner]}],
            timeout_ms=5000, **more,
        )  # fmt: skip

    for version in range(1, 12):
        for time in (-1, -2, 0, START, START + 1, START + 1500, START + 3001, START + 9000):
            await talk.ask(f"offset at {time - START if time > 0 else time}", at(time), version)
        for time in (-1, -2, START):
            await talk.ask(f"offset in an empty partition at {min(time, 1)}", at(time, "empty"), version)
        await talk.ask("offset in an unknown topic", at(-1, "no-such"), version)
        await talk.ask("offset in an unknown partition", at(-1, partition=3), version)
        for time in (-3, -4, -5, -6, -7):
            await talk.ask(f"offset at {time}", at(time), version)
            await talk.ask(f"offset in an empty partition at {time}", at(time, "empty"), version)
    for version in (4, 11):
        await talk.ask("offset as of epoch 0", at(-1, epoch=0), version)
        await talk.ask("offset as of epoch 4", at(-1, epoch=4), version)
    await talk.ask("offset of what is committed", at(-1, isolation_level=1), 11)
    twice = at(-1)
    twice.topics[0].partitions *= 2
    await talk.ask("offset twice", twice, 11)
    await epochs(talk)
    await deleting_records(talk)


async def epochs(talk: Talk) -> None:
    for version in range(2, 5):
        for name, current, epoch in (
            ("timed", -1, 0), ("timed", 0, 0), ("timed", -1, 5), ("timed", -1, -1), ("timed", 6, 0),
            ("empty", -1, 0), ("no-such", -1, 0),
        ):  # fmt: skip
            inner = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            request = build(
                OffsetForLeaderEpochRequest, replica_id=-1, topics=[{"topic": name, "partitions": [inner]}]
            )
            await talk.ask(f"end of epoch {epoch} as of {current} in {name}", request, version)


async def deleting_records(talk: Talk) -> None:
    for version in range(3):
        for name, partition, offset in (
            ("timed", 0, 2 + version), ("timed", 0, 1), ("timed", 0, 99), ("timed", 0, -5),
            ("timed", 4, 0), ("no-such", 0, 0), ("keyed", 0, 0),
        ):  # fmt: skip
            topic = {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}
            request = build(DeleteRecordsRequest, topics=[topic], timeout_ms=5000)
            await talk.ask(f"delete records of {name}-{partition} before {offset}", request, version)
    await talk.ask("fetch what was deleted", fetch("timed", 0), 12)
    await talk.ask("fetch what is left", fetch("timed", 4), 12)
    topic = {"name": "timed", "partitions": [{"partition_index": 0, "offset": -1}]}
    await talk.ask("delete all", build(DeleteRecordsRequest, topics=[topic], timeout_ms=5000), 2)
    await talk.ask("fetch the empty end", fetch("timed", 10), 12)


async def cluster(talk: Talk) -> None:
    for version in range(1, 6):
        for label, topics in (
            ("of one topic", [{"topic": "read", "partitions": [0, 1]}]),
            ("of an unknown topic", [{"topic": "no-such", "partitions": [0]}]),
            ("of an unknown partition", [{"topic": "read", "partitions": [9]}]),
            ("of nothing", []),
        ):
            await talk.ask(f"log dirs {label}", build(DescribeLogDirsRequest, topics=topics), version)
    for version in range(3):
        for label, kind, topics in (
            ("of one", 0, [{"topic": "read", "partitions": [0]}]),
            ("unclean", 1, [{"topic": "read", "partitions": [0]}]),
            ("of the unknown", 0, [
                {"topic": "no-such", "partitions": [0]}, {"topic": "read", "partitions": [9]},
            ]),
            ("of none", 0, []),
            ("of a kind that is none", 5, [{"topic": "read", "partitions": [0]}]),
        ):  # fmt: skip
            if kind and version == 0:
                continue
            request = build(ElectLeadersRequest, election_type=kind, topic_partitions=topics, timeout_ms=5000)
            await talk.ask(f"elect {label}", request, version)


async def internal(talk: Talk) -> None:
    """Records for a topic that is the cluster's own; it is there once groups have been."""
    await settled(talk, "__consumer_offsets", 3)
    for version in (7, 12):
        request = produce("__consumer_offsets", records(b"one"))
        await talk.ask("produce: to an internal topic", request, version)


async def coordinators(talk: Talk) -> None:
    for version in range(4):
        request = build(FindCoordinatorRequest, key="some", key_type=0)
        await talk.until(request, version, lambda answer: answer.error_code == 0)
        await talk.ask("coordinator", request, version)
        empty = build(FindCoordinatorRequest, key="", key_type=0)
        await talk.ask("coordinator of no name", empty, version)
        if version:
            unknown = build(FindCoordinatorRequest, key="some", key_type=7)
            await talk.ask("coordinator of a kind that is none", unknown, version)
    for version in range(4, 7):
        request = build(FindCoordinatorRequest, coordinator_keys=["some", "other", ""], key_type=0)
        await talk.ask("coordinators", request, version)
        await talk.ask("coordinators of nothing", build(FindCoordinatorRequest, coordinator_keys=[]), version)
        unknown = build(FindCoordinatorRequest, coordinator_keys=["some"], key_type=7)
        await talk.ask("coordinators of a kind that is none", unknown, version)


CHAPTERS = (producing, fetching, offsets, cluster, coordinators)
