"""What the log has and applications never see: markers, aborted transactions, what compaction has left.

The position goes past it when the application asks for records, so that it comes to the end, and lag to 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.broker.handlers import fetch as fetch_handler
from kclient.consumer import AsyncConsumer, Consumer
from kclient.consumer.answers import Policy, judge
from kclient.consumer.buffer import Frame
from kclient.consumer.cursor import Cursor
from kclient.consumer.decode import Decoder
from kclient.records import ControlType, Stamp, encode_batch, marker
from kclient.records.encode import encode_sparse
from kclient.records.layout import HEADER, BatchHeader
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.messages.fetch import FetchResponse
from tests.unit.consumer.reading import Topic, World, live, offsets, part

Data = FetchResponse.FetchableTopicResponse.PartitionData
Read = Callable[[AsyncConsumer[Any, Any]], Awaitable[list[int]]]
PRODUCER = 7
GROUP = "billing"


def plain(first: int, count: int = 3, epoch: int = 0, **fields: Any) -> bytes:
    stamp = Stamp(base_offset=first, leader_epoch=epoch, **fields)
    return encode_batch([(b"k", b"%d" % n, 1_000 + n, ()) for n in range(first, first + count)], stamp=stamp)


def in_transaction(first: int, count: int = 3) -> bytes:
    return plain(first, count, producer_id=PRODUCER, producer_epoch=0, transactional=True)


def ended(first: int, kind: ControlType, epoch: int = 0) -> bytes:
    key, value = marker(kind, 0)
    stamp = Stamp(first, epoch, PRODUCER, 0, transactional=True, control=True)
    return encode_batch([(key, value, 0, ())], stamp=stamp)


def emptied(first: int, count: int = 3) -> bytes:
    return encode_sparse([], count - 1, stamp=Stamp(base_offset=first, leader_epoch=0))


# Each ends at offset 7 behind three records, with nothing to see from 3 on.
TAILS = {
    "markers": [ended(offset, ControlType.COMMIT) for offset in range(3, 7)],
    "aborted": [in_transaction(3), ended(6, ControlType.ABORT)],
    "compacted": [emptied(3, 4)],
    "last records of a batch compacted away": [
        encode_sparse([], 0, stamp=Stamp(base_offset=3, leader_epoch=0)),
        emptied(4, 3),
    ],
}


def put(world: World, *batches: bytes) -> None:
    """Write batches as they are, with the offsets that they have."""
    state = world.broker.topics.partition(*part())
    for data in batches:
        state.log.active.append(data, [BatchHeader._make(HEADER.unpack_from(data))], 4096)
    state.wake()


@pytest.fixture
def aborting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded broker names the transaction at offset 3 as aborted to readers of committed ones."""
    read_one = fetch_handler._read_one

    def with_aborted(*args: Any) -> Data:
        data = read_one(*args)
        if data.aborted_transactions is not None:
            aborted = Data.AbortedTransaction(producer_id=PRODUCER, first_offset=3)
            data.aborted_transactions = [aborted]
        return data

    monkeypatch.setattr(fetch_handler, "_read_one", with_aborted)


async def many(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return offsets((await consumer.getmany(timeout_ms=1000)).get(part(), []))


async def few(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return offsets((await consumer.getmany(timeout_ms=1000, max_records=2)).get(part(), []))


async def as_arrow(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    found: list[Any] = (await consumer.getarrow(timeout_ms=1000)).column("offset").to_pylist()
    return found


async def one(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    try:
        async with asyncio.timeout(1):
            return [(await consumer.getone()).offset]
    except TimeoutError:
        return []


async def all_of(read: Read, consumer: AsyncConsumer[Any, Any]) -> list[int]:
    found: list[int] = []
    while got := await read(consumer):
        found += got
    return found


@pytest.mark.usefixtures("aborting")
@pytest.mark.parametrize("in_one_answer", [True, False], ids=["one answer", "an answer of its own"])
@pytest.mark.parametrize("read", [many, few, as_arrow, one])
@pytest.mark.parametrize("tail", TAILS)
def test_a_tail_of_which_nothing_is_shown_is_passed_over(tail: str, read: Read, in_one_answer: bool) -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, plain(0), *(TAILS[tail] if in_one_answer else ()))
        async with world.reader(isolation_level="read_committed") as consumer:
            found = [] if in_one_answer else await all_of(read, consumer)
            if not in_one_answer:
                put(world, *TAILS[tail])
            assert found + await all_of(read, consumer) == [0, 1, 2]
            assert await consumer.position(part()) == 7
            assert (consumer.lag(part()), consumer.metrics().lag) == (0, 0)
            assert consumer.health().partitions[part()].lag == 0
            put(world, plain(7))
            assert await all_of(read, consumer) == [7, 8, 9]

    live(story)


@pytest.mark.usefixtures("aborting")
@pytest.mark.parametrize("tail", TAILS)
def test_iteration_that_waits_passes_over_what_is_not_shown(tail: str) -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, plain(0))
        options: dict[str, Any] = {"isolation_level": "read_committed", "consumer_timeout_ms": 1000}
        async with world.reader(**options) as consumer:
            assert [record.offset async for record in consumer] == [0, 1, 2]
            put(world, *TAILS[tail])
            assert [record.offset async for record in consumer] == []
            assert (await consumer.position(part()), consumer.lag(part())) == (7, 0)

    live(story)


@pytest.mark.parametrize("offset", range(7))
def test_a_seek_into_what_compaction_has_taken_goes_on_behind_it(offset: int) -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        kept = (b"k", b"", 1_000, ())
        put(world, encode_sparse([(1, kept)], 4, stamp=Stamp(leader_epoch=0)), emptied(5, 2))
        async with world.reader() as consumer:
            consumer.seek(part(), offset)
            assert await all_of(many, consumer) == ([1] if offset <= 1 else [])
            assert (await consumer.position(part()), consumer.lag(part())) == (7, 0)

    live(story)


def test_a_position_moves_only_when_the_application_asks_for_records() -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, *TAILS["compacted"])
        async with world.reader() as consumer:
            consumer.seek(part(), 3)
            await asyncio.sleep(5)
            assert (await consumer.position(part()), consumer.lag(part())) == (3, 4)
            assert await consumer.getmany() == {}
            assert (await consumer.position(part()), consumer.lag(part())) == (7, 0)

    live(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_automatic_commits_go_past_what_is_not_shown_and_never_past_what_is_in_work(protocol: str) -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, plain(0))
        options: dict[str, Any] = {"group_id": GROUP, "group_protocol": protocol}

        async def committed() -> int | None:
            found = await consumer.committed(part())
            return None if found is None else found.offset

        async with world.consumer(Topic, **options, auto_commit_interval_ms=100) as consumer:
            assert offsets((await consumer.getmany(timeout_ms=60_000))[part()]) == [0, 1, 2]
            put(world, *TAILS["markers"])
            await asyncio.sleep(5)
            assert await committed() in (None, 0)  # those three are in work
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(5)
            assert await committed() == 7  # while the application waits
            put(world, plain(7, 1), ended(8, ControlType.COMMIT))
            assert (await waiting).offset == 7
            await asyncio.sleep(5)
            assert await committed() == 7
            assert await consumer.getmany(timeout_ms=1000) == {}
            await asyncio.sleep(1)
            assert await committed() == 9

    live(story)


def test_records_and_a_hidden_tail_of_one_call_are_committed_together_with_the_next() -> None:
    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, plain(0), plain(3, 1))
        options: dict[str, Any] = {"group_id": GROUP, "auto_commit_interval_ms": 100}
        async with world.consumer(Topic, **options) as consumer:
            await until(lambda: consumer.metrics().bytes_buffered > 0)
            put(world, *(ended(offset, ControlType.COMMIT) for offset in range(4, 7)))
            await until(lambda: len(consumer._engine.buffer.snapshot()) == 2)
            found = offsets((await consumer.getmany(max_records=100))[part()])
            assert (found, await consumer.position(part())) == ([0, 1, 2, 3], 7)
            await asyncio.sleep(5)
            place = await consumer.committed(part())
            assert place is None or place.offset == 0
            await consumer.getmany()
            await asyncio.sleep(5)
            place = await consumer.committed(part())
            assert place is not None
            assert place.offset == 7

    live(story)


def test_the_epoch_of_a_position_is_that_of_the_last_batch_before_it_shown_or_not() -> None:
    """With an older one, the next reader would believe that records were lost: that epoch ended before."""
    policy = Policy(check_crcs=True, committed_only=False, may_reset=False)
    tail = ended(3, ControlType.COMMIT, epoch=6)
    for start, records in ((0, plain(0, epoch=5) + tail), (3, tail)):
        cursor = Cursor(part())
        cursor.find(start, 5)
        data = Data(partition_index=0, high_watermark=4, aborted_transactions=None, records=records)
        chunk = judge(cursor, data, Frame(0), policy).chunk
        assert chunk is not None
        assert len(chunk.take_batch(None, Decoder(None, None, "raise"))) == 3 - start
        assert (chunk.position, chunk.epoch) == (4, 6)


def test_a_blocking_consumer_comes_to_the_end_too() -> None:
    with RunningBroker() as running:
        running.broker.create_topic(Topic, 1)

        async def write() -> None:
            state = running.broker.topics.partition(Topic, 0)
            for data in (plain(0), *TAILS["markers"]):
                state.log.active.append(data, [BatchHeader._make(HEADER.unpack_from(data))], 4096)

        running.call(write())
        partition = TopicPartition(Topic, 0)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 100}
        for ask in (Consumer.poll, Consumer.poll_arrow):
            with Consumer(bootstrap_servers=running.bootstrap_servers, **options) as consumer:
                consumer.assign([partition])
                for _ in range(100):
                    ask(consumer, timeout_ms=100)
                    if consumer.lag(partition) == 0:
                        break
                assert (consumer.position(partition), consumer.lag(partition)) == (7, 0)


def test_what_is_committed_in_the_middle_of_a_batch_has_the_epoch_of_the_batch() -> None:
    """With the one before, the next reader would believe that records were lost."""

    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1, 2)
        put(world, plain(0))
        options: dict[str, Any] = {
            "group_id": GROUP,
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
        }
        async with world.consumer(**options) as consumer:
            consumer.assign([part()])
            consumer.seek(part(), 0)
            assert [(await consumer.getone()).offset for _ in range(3)] == [0, 1, 2]
            world.broker.move_leader(Topic, 0, 2)
            world.fill(part(), records=3)
            assert [(await consumer.getone()).offset for _ in range(2)] == [3, 4]
            await consumer.commit()
            assert await consumer.committed(part()) == OffsetAndMetadata(5, "", 1)
        async with world.consumer(**options) as consumer:
            consumer.assign([part()])
            assert (await consumer.getone()).offset == 5

    live(story, nodes=2)
