"""How much one call gives: all that was fetched, of every answer and partition, up to its limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, arrow
from kclient.records import Codec, Stamp, encode_batch
from kclient.testing import RunningBroker
from kclient.testing.simulation import until
from kclient.types import TopicPartition
from tests.unit.consumer.reading import T0, Topic, World, live, offsets, part, parts
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill

GROUPS: list[dict[str, str]] = [
    {},
    {"group_id": "billing"},
    {"group_id": "billing", "group_protocol": "consumer"},
]


async def _rows(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return [row["offset"] for row in (await consumer.getarrow(columns=["offset"])).to_pylist()]


async def _offsets(consumer: AsyncConsumer[Any, Any]) -> list[int]:
    return [offset for records in (await consumer.getmany()).values() for offset in offsets(records)]


@pytest.mark.parametrize("most", [500, None])
def test_a_call_gives_what_came_with_several_answers(most: int | None) -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=6)
        async with world.reader(max_partition_fetch_bytes=5_000, max_poll_records=most) as consumer:
            await asyncio.sleep(3)
            assert len(world.fetches) > 3
            found = await consumer.getmany()
            found_later = await consumer.getmany()
            assert offsets(found[part()]) == list(range(most or 600))
            assert offsets(found_later.get(part(), [])) == list(range(most or 600, 600))

    live(story)


def test_without_options_a_call_gives_at_most_500_records_as_javas_does() -> None:
    async def story(world: World) -> None:
        world.fill_all(3, batches=3)
        async with world.reader(3) as consumer:
            await asyncio.sleep(3)
            assert [sum(map(len, (await consumer.getmany()).values())) for _ in range(3)] == [500, 400, 0]

    live(story)


@pytest.mark.parametrize("read", [_offsets, _rows])
@pytest.mark.parametrize("group", GROUPS)
def test_an_application_that_polls_rarely_keeps_up_with_records_sent_one_by_one(
    group: dict[str, str], read: Callable[[AsyncConsumer[Any, Any]], Any]
) -> None:
    """50 records a second, each in an answer of its own, and 200 ms of work after each call."""

    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        async with world.consumer(auto_commit_interval_ms=100, **group) as consumer:
            if group:
                consumer.subscribe([Topic])
                await consumer.getmany(timeout_ms=100)
                await until(lambda: bool(consumer.assignment()), 10)
            else:
                consumer.assign(parts(1))
            await asyncio.sleep(1)

            async def write() -> None:
                for _ in range(500):
                    world.fill(part(), records=1)
                    await asyncio.sleep(0.02)

            writing = asyncio.create_task(write())
            found: list[int] = []
            while not writing.done():
                found += await read(consumer)
                await asyncio.sleep(0.2)
                assert world.broker.topics.partition(*part()).log.end_offset - len(found) < 25
            await writing
            found += await read(consumer)
            assert found == list(range(500))
            if group:
                await consumer.getmany()
                await asyncio.sleep(1)
                committed = await consumer.committed(part())
                assert committed is not None
                assert committed.offset == 500

    live(story, config={"group.initial.rebalance.delay.ms": "0"})


def test_automatic_commits_cover_no_answer_of_the_last_call() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=6)
        options: dict[str, Any] = {
            "group_id": "billing",
            "auto_commit_interval_ms": 100,
            "max_partition_fetch_bytes": 5_000,
        }
        async with world.reader(**options) as consumer:

            async def committed() -> int | None:
                await asyncio.sleep(3)
                found = await consumer.committed(part())
                return None if found is None else found.offset

            await asyncio.sleep(3)
            assert len((await consumer.getmany())[part()]) == 500
            assert await committed() in (None, 0)
            assert len((await consumer.getmany())[part()]) == 100
            assert await committed() == 500
            await consumer.getmany()
            assert await committed() == 600

    live(story)


def test_every_partition_has_its_turn_when_all_have_more_than_a_call_gives() -> None:
    async def story(world: World) -> None:
        world.fill_all(4, batches=60)
        async with world.reader(4, max_partition_fetch_bytes=8_000) as consumer:
            await asyncio.sleep(3)
            seen: dict[TopicPartition, int] = dict.fromkeys(parts(4), 0)
            while sum(seen.values()) < 24_000:
                for partition, records in (await consumer.getmany(max_records=100)).items():
                    seen[partition] += len(records)
                assert max(seen.values()) - min(seen.values()) <= 1_000
            assert set(seen.values()) == {6_000}

    live(story)


def test_a_blocking_call_gives_what_came_with_several_answers() -> None:
    with RunningBroker() as running:
        running.broker.create_topic("orders", 1)
        with consumer_of(running) as consumer:
            consumer.assign(parts(1))
            arrived = threading.Semaphore(0)
            put = consumer._engine.buffer.put

            def counted(chunks: Any) -> None:
                put(chunks)
                arrived.release()

            consumer._engine.buffer.put = counted  # type: ignore[method-assign]
            for _ in range(20):
                fill(running, part(), count=1)
                assert arrived.acquire(timeout=PATIENCE_MS / 1000)
            assert offsets(consumer.poll()[part()]) == list(range(20))


def _mixed(world: World) -> list[tuple[int, bytes, list[str]]]:
    """Batches of every size and kind in two partitions; what they hold."""
    world.broker.create_topic(Topic, 2)
    written: list[tuple[int, bytes, list[str]]] = []
    for number in range(2):
        state = world.broker.topics.partition(Topic, number)
        for count, headers, codec in [
            *[(1, 0, Codec.NONE)] * 30,
            (100, 0, Codec.LZ4),
            (600, 0, Codec.NONE),
            (3, 1, Codec.NONE),
            (700, 2, Codec.ZSTD),
            *[(60, 0, Codec.NONE)] * 4,
            (2, 0, Codec.NONE),
        ]:
            first = state.log.end_offset
            names = tuple((f"h{at}", b"x") for at in range(headers))
            records = [(b"key", b"%d" % at, T0, names) for at in range(first, first + count)]
            written += [
                (number, b"%d" % at, [name for name, _ in names]) for at in range(first, first + count)
            ]
            state.log.append(encode_batch(records, codec=codec, stamp=Stamp(base_offset=0)), leader_epoch=0)
            state.wake()
    return written


@pytest.mark.parametrize("most", [None, 7, 650, 5_000])
def test_arrow_keeps_the_order_of_a_partition_over_answers_and_ways_to_decode(
    monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    async def story(world: World) -> None:
        written = _mixed(world)
        async with world.reader(2, max_partition_fetch_bytes=3_000) as consumer:
            await asyncio.sleep(5)
            found: list[tuple[int, bytes, list[str]]] = []
            while len(found) < len(written):
                table = await consumer.getarrow(max_records=most)
                assert 0 < table.num_rows <= (most or 1_000)
                found += [
                    (row["partition"], row["value"], [header["key"] for header in row["headers"]])
                    for row in table.to_pylist()
                ]
            for number in range(2):
                assert [row for row in found if row[0] == number] == [
                    row for row in written if row[0] == number
                ]

    monkeypatch.setattr(arrow, "MOST_ROWS", 1_000)
    live(story)


def test_arrow_from_the_middle_of_a_batch_has_the_headers_of_what_it_gives() -> None:
    async def story(world: World) -> None:
        state = world.broker.create_topic(Topic, 1).partitions[0]
        records = [(b"key", b"%d" % at, T0, (("h", b"%d" % at),) * (at % 3)) for at in range(600)]
        state.log.append(encode_batch(records), leader_epoch=0)
        async with world.reader() as consumer:
            consumer.seek(part(), 301)
            rows = (await consumer.getarrow(timeout_ms=1000)).to_pylist()
            assert [row["offset"] for row in rows] == list(range(301, 600))
            assert [row["headers"] for row in rows] == [
                [{"key": "h", "value": b"%d" % at}] * (at % 3) for at in range(301, 600)
            ]

    live(story)


def test_a_call_for_arrow_ends_before_it_passes_its_limits_unless_one_batch_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrow, "MOST_ROWS", 250)
    monkeypatch.setattr(arrow, "MOST_BYTES", 5_000)

    async def story(world: World) -> None:
        world.fill(part(), batches=4)  # some 2 kB each
        world.fill(part(), records=300)
        world.fill(part(), size=10_000, records=1)
        world.fill(part(), records=10)
        async with world.reader() as consumer:
            await asyncio.sleep(3)
            assert [len(await _rows(consumer)) for _ in range(6)] == [200, 200, 300, 1, 10, 0]
            consumer.seek(part(), 0)
            await asyncio.sleep(3)
            assert (await consumer.getarrow(max_records=10_000)).num_rows == 711

    live(story)


def test_max_poll_records_is_for_objects_and_does_not_cut_arrow_small() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=9)
        async with world.reader(max_poll_records=10) as consumer:
            await asyncio.sleep(3)
            assert len(await _rows(consumer)) == 900

    live(story)
