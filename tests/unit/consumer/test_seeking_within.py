"""Seeks to what was fetched already: they cost nothing, and give what a reader from there would get."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import Any

import pytest

from kclient.broker.handlers import fetch as fetch_handler
from kclient.records import ControlType, Stamp
from kclient.records.encode import encode_sparse
from kclient.testing import RunningBroker
from kclient.types import OffsetAndMetadata
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill
from tests.unit.consumer.test_hidden_batches import PRODUCER, Data, emptied, ended, in_transaction, plain, put


async def settled(world: World) -> int:
    """How often brokers were asked for records, when all are there."""
    await asyncio.sleep(2)
    return len(world.fetches)


def test_a_seek_forward_or_back_within_what_is_there_asks_no_broker() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=6)
        async with world.reader(max_partition_fetch_bytes=5_000) as consumer:
            fetches, began = await settled(world), world.sim.loop.time()
            assert offsets((await consumer.getmany(max_records=10))[part()]) == list(range(10))
            for target in (3, 0, 50, 98, 100, 101, 350, 320, 301, 598):
                consumer.seek(part(), target)
                assert await consumer.position(part()) == target
                assert (await consumer.getone()).offset == target
                consumer.seek(part(), target)
                assert (await consumer.getarrow(max_records=1))["offset"].to_pylist() == [target]
                consumer.seek(part(), target)
                assert offsets((await consumer.getmany(max_records=1))[part()]) == [target]
                consumer.seek(part(), target)
            assert (len(world.fetches), world.sim.loop.time()) == (fetches, began)
            assert consumer.metrics().bytes_buffered > 0

    live(story)


def test_a_seek_to_the_end_of_what_is_there_goes_on_with_the_fetch_under_way() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=6)
        async with world.reader() as consumer:
            fetches = await settled(world)
            consumer.seek(part(), 600)
            assert consumer.metrics().bytes_buffered == 0
            world.fill(part())
            assert (await consumer.getone()).offset == 600
            assert len(world.fetches) <= fetches + 1

    live(story)


@pytest.mark.parametrize("target", [5, 700, OffsetAndMetadata(250, "", 0)], ids=["before", "behind", "epoch"])
def test_what_is_not_there_is_fetched(target: int | OffsetAndMetadata) -> None:
    """And a place with a leader epoch is one that brokers have to confirm."""

    async def story(world: World) -> None:
        world.fill(part(), batches=6)
        async with world.reader() as consumer:
            await settled(world)
            await take(consumer, 210, max_records=210)
            before = consumer._engine.subscription.cursor(part())
            consumer.seek(part(), target)
            assert consumer._engine.subscription.cursor(part()) is not before
            world.fill(part(), batches=2)
            offset = target if isinstance(target, int) else target.offset
            assert (await consumer.getone()).offset == offset

    live(story)


def test_a_paused_partition_keeps_what_it_has_through_a_seek() -> None:
    async def story(world: World) -> None:
        world.fill_all(2, batches=3)
        async with world.reader(2) as consumer:
            fetches = await settled(world)
            consumer.pause(part())
            consumer.seek(part(), 120)
            assert not await consumer.getmany(part())
            consumer.resume(part())
            assert (await consumer.getone(part())).offset == 120
            assert (await consumer.getone(part(1))).offset == 0
            assert len(world.fetches) <= fetches + 1

    live(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_committed_after_a_seek_is_the_place_that_was_sought(protocol: str) -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=3)
        async with world.consumer(
            Topic, group_id="g", group_protocol=protocol, auto_commit_interval_ms=100
        ) as consumer:
            assert (await consumer.getmany(timeout_ms=60_000, max_records=50))[part()]
            consumer.seek(part(), 20)
            await consumer.commit()
            assert await consumer.committed(part()) == OffsetAndMetadata(20)
            consumer.seek(part(), 250)
            await asyncio.sleep(1)
            assert await consumer.committed(part()) == OffsetAndMetadata(250)
            assert (await consumer.getone()).offset == 250

    live(story)


def test_a_seek_from_a_deserializer_is_kept() -> None:
    async def story(world: World) -> None:
        world.fill(part(), batches=3)

        def jump(data: bytes) -> int:
            if int(data) == 20:
                consumer.seek(part(), 200)
            return int(data)

        async with world.reader(value_deserializer=jump) as consumer:
            await settled(world)
            seen: list[int] = []
            while not seen or seen[-1] < 299:
                seen += offsets((await consumer.getmany(timeout_ms=1000, max_records=10)).get(part(), []))
            assert seen == [*range(20), *range(200, 300)]

    live(story)


def _log(chance: random.Random) -> tuple[list[bytes], list[int], list[tuple[int, int]]]:
    """Batches of all kinds, the offsets that readers of committed records see, and what was aborted."""
    batches: list[bytes] = []
    shown: list[int] = []
    aborted: list[tuple[int, int]] = []
    at = 0
    while at < 400:
        count = chance.randint(1, 30)
        kind = chance.choice(["plain", "plain", "sparse", "emptied", "aborted", "marker"])
        if kind == "plain":
            batches.append(plain(at, count))
            shown += range(at, at + count)
        elif kind == "sparse":
            kept = sorted(chance.sample(range(count), chance.randint(1, count)))
            records = [(delta, (b"k", b"%d" % (at + delta), 1_000, ())) for delta in kept]
            batches.append(encode_sparse(records, count - 1, stamp=Stamp(base_offset=at, leader_epoch=0)))
            shown += [at + delta for delta in kept]
        elif kind == "emptied":
            batches.append(emptied(at, count))
        elif kind == "aborted":
            batches += [in_transaction(at, count), ended(at + count, ControlType.ABORT)]
            aborted.append((PRODUCER, at))
            count += 1
        else:
            batches.append(ended(at, ControlType.COMMIT))
            count = 1
        at += count
    return batches, shown, aborted


@pytest.mark.parametrize("seed", range(15))
def test_any_order_of_reads_and_seeks_gives_what_a_reader_from_there_gets(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    batches, shown, aborted = _log(chance)
    read_one = fetch_handler._read_one

    def with_aborted(*args: Any) -> Data:
        data = read_one(*args)
        if data.aborted_transactions is not None:
            named = [Data.AbortedTransaction(producer_id=each, first_offset=first) for each, first in aborted]
            data.aborted_transactions = named
        return data

    monkeypatch.setattr(fetch_handler, "_read_one", with_aborted)
    deserializers: dict[str, Any] = {"value_deserializer": int} if seed % 2 else {}

    async def story(world: World) -> None:
        world.broker.create_topic(Topic, 1)
        put(world, *batches)
        options: dict[str, Any] = {"isolation_level": "read_committed", "max_partition_fetch_bytes": 2_000}
        async with world.reader(**options, **deserializers) as consumer:
            at = 0  # the place as it should be
            for _ in range(150):
                await asyncio.sleep(chance.choice([0, 0, 0, 1]))
                call = chance.randrange(5)
                ahead = [offset for offset in shown if offset >= at]
                if call < 2:
                    near = at + chance.randint(-40, 60)
                    at = max(0, min(400, chance.choice([near, near, chance.randint(0, 400)])))
                    consumer.seek(part(), at)
                    assert await consumer.position(part()) == at
                    continue
                if call == 2:
                    found: list[Any] = []
                    for _ in range(chance.randint(1, 5)):
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(1):
                                found.append((await consumer.getone()).offset)
                elif call == 3:
                    most = chance.randint(1, 40)
                    found = offsets(
                        (await consumer.getmany(timeout_ms=1000, max_records=most)).get(part(), [])
                    )
                else:
                    most = chance.randint(1, 40)
                    table = await consumer.getarrow(timeout_ms=1000, max_records=most)
                    found = table.column("offset").to_pylist()
                assert found == ahead[: len(found)]
                assert found or not ahead
                at = found[-1] + 1 if found else at

    live(story)


def test_seeks_of_one_thread_while_another_one_reads_skip_and_repeat_nothing_else() -> None:
    with RunningBroker() as running:
        running.broker.create_topic(Topic, 1)
        fill(running, part(), 5000)
        with consumer_of(running, value_deserializer=int) as consumer:
            consumer.assign(parts(1))
            consumer.poll(timeout_ms=PATIENCE_MS, max_records=1)
            targets: list[int] = []
            chance = random.Random(1)

            def seek() -> None:
                for _ in range(300):
                    targets.append(chance.randrange(4000))
                    consumer.seek(part(), targets[-1])

            thread = threading.Thread(target=seek)
            thread.start()
            before = 1
            while thread.is_alive():
                for records in consumer.poll(timeout_ms=PATIENCE_MS, max_records=50).values():
                    found = offsets(records)
                    assert found == list(range(found[0], found[0] + len(found)))
                    assert found[0] == before or found[0] in targets
                    before = found[-1] + 1
            thread.join()
            assert consumer.poll(timeout_ms=PATIENCE_MS, max_records=1)
