"""Records that cannot be deserialized: who is asked how often, what is counted, and what is not held back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import KafkaError, PoisonRecordError
from kclient.records import encode_batch
from kclient.testing import RunningBroker
from kclient.types import Record
from tests.unit.consumer.reading import Topic, World, live, offsets, part, take
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of

Read = Callable[[AsyncConsumer[Any, Any]], Awaitable[list[Record[Any, Any]]]]


async def many(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    return (await consumer.getmany(timeout_ms=1000)).get(part(), [])


async def single(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    return (await consumer.getmany(timeout_ms=1000, max_records=1)).get(part(), [])


async def one(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    try:
        async with asyncio.timeout(1):
            return [await consumer.getone()]
    except TimeoutError:
        return []


def write(world: World, *values: bytes | None, records_in_batch: int = 1000) -> None:
    if Topic not in world.broker.topics.by_name:
        world.broker.create_topic(Topic, 1)
    state = world.broker.topics.partition(*part())
    for start in range(0, len(values), records_in_batch):
        batch = [(b"1", value, 0, ()) for value in values[start : start + records_in_batch]]
        state.log.append(encode_batch(batch), leader_epoch=0)
    state.wake()


class DeadLetters:
    """A topic for them that is away at the first few attempts."""

    def __init__(self, failures: int, error: Callable[[], BaseException] = lambda: OSError("away")) -> None:
        self.asked: list[int] = []
        self._failures = failures
        self._error = error

    def __call__(self, poison: PoisonRecordError) -> None:
        assert poison.offset is not None
        self.asked.append(poison.offset)
        if poison.record.value == b"refused" and self._failures:
            self._failures -= 1
            raise self._error()


@pytest.mark.parametrize("read", [many, single, one])
@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
def test_nobody_is_asked_again_about_poison_that_was_let_pass(read: Read, error: type[BaseException]) -> None:
    letters = DeadLetters(2, error)

    async def story(world: World) -> None:
        write(world, b"0", b"bad", b"2", b"bad", b"refused", b"5")
        async with world.reader(value_deserializer=int, on_poison=letters) as consumer:
            seen: list[int] = []
            failed = 0
            while len(seen) < 3:
                try:
                    seen += offsets(await read(consumer))
                except (KafkaError, OSError):
                    failed += 1
                    assert seen == [0, 2]
                    assert await consumer.position(part()) == 4
            assert (seen, failed) == ([0, 2, 5], 2)
            assert letters.asked == [1, 3, 4, 4, 4]
            assert consumer.metrics().records_skipped == 3

    live(story)


def test_a_refusal_before_any_good_record_keeps_what_was_let_pass() -> None:
    letters = DeadLetters(1)

    async def story(world: World) -> None:
        write(world, b"bad", b"refused", b"2")
        async with world.reader(value_deserializer=int, on_poison=letters) as consumer:
            with pytest.raises(OSError, match="away"):
                await consumer.getmany(timeout_ms=1000)
            assert await consumer.position(part()) == 1
            assert offsets((await take(consumer, 1))[part()]) == [2]
            assert letters.asked == [0, 1, 1]

    live(story)


def test_a_refusal_that_raises_the_poison_itself_is_asked_again() -> None:
    asked: list[int | None] = []

    def refuse(poison: PoisonRecordError) -> None:
        asked.append(poison.offset)
        if len(asked) < 3:
            raise poison

    async def story(world: World) -> None:
        write(world, b"bad", b"1")
        async with world.reader(value_deserializer=int, on_poison=refuse) as consumer:
            for _ in range(2):
                with pytest.raises(PoisonRecordError, match="offset 0"):
                    await consumer.getone()
            assert (await consumer.getone()).value == 1
            assert asked == [0, 0, 0]

    live(story)


@pytest.mark.parametrize("field", ["key_deserializer", "value_deserializer"])
@pytest.mark.parametrize("read", [many, single, one])
def test_what_fails_in_passing_is_read_by_calling_again(field: str, read: Read) -> None:
    """A registry of schemas, for example."""
    away: list[bool] = [True]

    def deserialize(data: bytes) -> bytes:
        if away:
            raise ConnectionError
        return data

    async def story(world: World) -> None:
        write(world, b"0", b"1", b"2")
        options: dict[str, Any] = {field: deserialize}
        async with world.reader(**options) as consumer:
            for _ in range(3):
                with pytest.raises(PoisonRecordError, match="offset 0"):
                    await read(consumer)
            away.clear()
            seen: list[int] = []
            while len(seen) < 3:
                seen += offsets(await read(consumer))
            assert seen == [0, 1, 2]

    live(story)


def test_a_deserializer_that_stops_iterations_is_poison_too() -> None:
    def stop(data: bytes) -> int:
        if data == b"bad":
            raise StopIteration
        return int(data)

    async def story(world: World) -> None:
        write(world, b"0", b"bad", b"2", b"3", b"bad", None, b"6")
        async with world.reader(value_deserializer=stop, on_poison="skip") as consumer:
            assert offsets((await take(consumer, 5))[part()]) == [0, 2, 3, 5, 6]
            assert consumer.metrics().records_skipped == 2

    live(story)


def test_an_earlier_value_goes_before_a_key_that_fails() -> None:
    def odd(data: bytes) -> bytes:
        calls.append(data)
        if len(calls) == 4:
            raise ValueError
        return data

    calls: list[bytes] = []

    async def story(world: World) -> None:
        write(world, b"0", b"bad", b"2", b"3", b"4")
        async with world.reader(key_deserializer=odd, value_deserializer=int, on_poison="raise") as consumer:
            assert offsets(await many(consumer)) == [0]
            with pytest.raises(PoisonRecordError, match=r"invalid literal.*offset 1"):
                await many(consumer)
            consumer.seek(part(), 2)
            assert offsets(await many(consumer)) == [2, 3, 4]

    live(story)


def test_deserializers_run_for_what_is_handed_out() -> None:
    made: list[bytes] = []

    def deserialize(data: bytes) -> bytes:
        made.append(data)
        return data

    async def story(world: World) -> None:
        world.fill(part(), records=1000)
        async with world.reader(value_deserializer=deserialize) as consumer:
            for expected in range(1, 11):
                await consumer.getmany(timeout_ms=1000, max_records=1)
                assert len(made) == expected
            made.clear()
            await consumer.getone()
            assert len(made) == 1
            seen = 11
            async for _ in consumer:
                seen += 1
                if seen == 1000:
                    break
            # Those that are handed out one by one are made a few ahead; each of them once.
            assert len(made) == len(set(made)) == 990

    live(story)


def test_records_that_are_put_back_are_not_made_again() -> None:
    made: list[bytes] = []

    def deserialize(data: bytes) -> bytes:
        made.append(data)
        return data

    async def story(world: World) -> None:
        world.fill(part(), records=100, batches=3)
        async with world.reader(value_deserializer=deserialize) as consumer:
            seen: list[int] = []
            while len(seen) < 300:
                seen += [(await consumer.getone()).offset for _ in range(min(7, 300 - len(seen)))]
                seen += offsets((await consumer.getmany(max_records=3)).get(part(), []))
                consumer.pause(part())
                consumer.resume(part())
            assert seen == list(range(300))
            assert len(made) == len(set(made)) == 300

    live(story)


def step_over(consumer: AsyncConsumer[Any, Any] | Consumer[Any, Any], error: PoisonRecordError) -> None:
    assert error.offset is not None
    consumer.seek(part(), error.offset + 1)
    assert consumer._engine.subscription.cursor(part()).position == error.offset + 1


@pytest.mark.parametrize("faces", ["asyncio", "blocking"])
def test_skipping_poison_by_seeks_asks_no_broker(faces: str) -> None:
    """Half of the records are bad, some batches are, and each is skipped as the page says."""
    values = [b"bad" if n % 2 or n // 10 % 3 == 1 else b"%d" % n for n in range(300)]
    good = [n for n, value in enumerate(values) if value != b"bad"]

    async def story(world: World) -> None:
        write(world, *values, records_in_batch=10)
        async with world.reader(value_deserializer=int) as consumer:
            await asyncio.sleep(1)
            fetches, began = len(world.fetches), world.sim.loop.time()
            seen: list[int] = []
            while len(seen) < len(good):
                try:
                    seen.append((await consumer.getone()).offset)
                except PoisonRecordError as error:
                    step_over(consumer, error)
            assert seen == good
            assert (len(world.fetches), world.sim.loop.time()) == (fetches, began)

    if faces == "asyncio":
        live(story)
        return
    with RunningBroker() as running:
        running.broker.create_topic(Topic, 1)
        records = [(b"1", value, 0, ()) for value in values]

        async def append() -> None:
            running.broker.topics.partition(*part()).log.append(encode_batch(records), leader_epoch=0)

        running.call(append())
        with consumer_of(running, value_deserializer=int) as consumer:
            consumer.assign([part()])
            seen: list[int] = []
            cursors = set()
            while len(seen) < len(good):
                try:
                    found = consumer.poll(timeout_ms=PATIENCE_MS)
                except PoisonRecordError as error:
                    step_over(consumer, error)
                else:
                    seen += offsets(found[part()])
                cursors.add(consumer._engine.subscription.cursor(part()))
            assert seen == good
            assert len(cursors) == 1
