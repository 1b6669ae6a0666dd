"""Hooks of a consumer: what they see, in which shape records are handed out, and what they cannot break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, ConsumerHook
from kclient.errors import CommitFailedError, ConfigurationError, KafkaError, PoisonRecordError, WakeupError
from kclient.testing import RunningBroker
from kclient.types import OffsetAndMetadata, Record, TopicPartition
from kclient.wire.messages.group_offsets import OffsetCommitRequest
from tests.unit.consumer.reading import Topic, World, live, offsets, part, parts
from tests.unit.consumer.test_blocking_consumer import PATIENCE_MS, consumer_of, fill

Read = Callable[[AsyncConsumer[Any, Any]], Awaitable[list[Record[Any, Any]]]]


class Seen(ConsumerHook):
    def __init__(self) -> None:
        self.records: list[int] = []
        self.commits: list[tuple[int | None, KafkaError | None]] = []

    def on_consume(self, record: Record[Any, Any]) -> Record[Any, Any] | None:
        self.records.append(record.offset)
        return None

    def on_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
    ) -> None:
        self.commits.append((offsets[part()].offset if part() in offsets else None, error))


class Doubling(Seen):
    def on_consume(self, record: Record[Any, Any]) -> Record[Any, Any]:
        self.records.append(record.offset)
        return record._replace(value=2 * record.value)


async def many(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    return (await consumer.getmany(timeout_ms=1000, max_records=7)).get(part(), [])


async def one(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    return [await consumer.getone()]


async def following(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    return [await anext(consumer)]


async def chosen(consumer: AsyncConsumer[Any, Any]) -> list[Record[Any, Any]]:
    return [await consumer.getone(part())]


@pytest.mark.parametrize("deserializer", [None, int])
@pytest.mark.parametrize("read", [many, one, following, chosen])
def test_a_hook_sees_each_record_when_it_is_handed_out_and_may_replace_it(
    read: Read, deserializer: Callable[[bytes], Any] | None
) -> None:
    seen, doubling = Seen(), Doubling()

    async def story(world: World) -> None:
        world.fill(part(), batches=3, records=20)
        async with world.reader(value_deserializer=deserializer, hooks=[doubling, seen]) as consumer:
            found: list[Record[Any, Any]] = []
            while len(found) < 60:
                found += await read(consumer)
                assert seen.records == doubling.records == offsets(found)
                assert await consumer.position(part()) == len(found)
            values = [record.value for record in found]
            plain = [b"%010d" % offset for offset in range(60)]
            assert values == [2 * (value if deserializer is None else deserializer(value)) for value in plain]
            assert consumer.metrics().records_consumed == 60

    live(story)


def test_ways_to_read_may_be_mixed_and_arrow_passes_the_hooks_by() -> None:
    seen = Seen()

    async def story(world: World) -> None:
        world.fill(part(), batches=3, records=20)
        async with world.reader(hooks=[seen]) as consumer:
            found = offsets([*await one(consumer), *await many(consumer), *await following(consumer)])
            rows: list[Any] = (await consumer.getarrow(max_records=5))["offset"].to_pylist()
            rest = offsets([*await one(consumer), *await many(consumer)])
            assert found + rows + rest == list(range(22))
            assert seen.records == found + rest

    live(story)


class Faulty(Seen):
    def __init__(self, does: Callable[[], object]) -> None:
        super().__init__()
        self._does = does

    def on_consume(self, record: Record[Any, Any]) -> Any:
        super().on_consume(record)
        return self._does()

    def on_commit(self, *args: Any) -> None:
        super().on_commit(*args)
        self._does()


def _raise(error: type[BaseException]) -> Callable[[], object]:
    def does() -> object:
        raise error

    return does


@pytest.mark.parametrize(
    "does",
    [
        _raise(ValueError),
        _raise(asyncio.CancelledError),
        _raise(StopIteration),
        lambda: 5,
        lambda: Record(Topic, 0, 99, 0, None, b"", b"", (), -1, 0, 0),  # type: ignore[arg-type]
    ],
    ids=["error", "cancelled", "stop", "nonsense", "another place"],
)
@pytest.mark.parametrize("read", [many, one])
def test_a_hook_that_fails_is_named_in_the_log_and_changes_nothing(
    read: Read, does: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    faulty, seen = Faulty(does), Seen()

    async def story(world: World) -> None:
        world.fill(part(), records=20)
        async with world.reader(hooks=[faulty, seen], group_id="g", enable_auto_commit=False) as consumer:
            found: list[int] = []
            while len(found) < 20:
                found += offsets(await read(consumer))
            assert found == seen.records == list(range(20))
            await consumer.commit()
            assert seen.commits == faulty.commits == [(20, None)]

    with caplog.at_level(logging.ERROR):
        live(story)
    messages = [record.getMessage() for record in caplog.records]
    assert "for the record at orders-0, offset 0, the hook" in messages[0]
    assert all("Faulty.on_consume" in message for message in messages[:20])


def test_hooks_hear_of_commits_by_calls_in_the_background_and_by_themselves() -> None:
    seen = Seen()

    async def story(world: World) -> None:
        world.fill(part(), records=20)
        options: dict[str, Any] = {"group_id": "g", "auto_commit_interval_ms": 1_000, "hooks": [seen]}
        async with world.consumer(**options) as consumer:
            consumer.assign(parts(1))
            await consumer.getmany(timeout_ms=1000, max_records=5)
            await consumer.commit()
            consumer.commit_nowait({part(): 3})
            await asyncio.sleep(0.1)
            await consumer.getmany(max_records=5)
            await consumer.getmany(max_records=5)
            await asyncio.sleep(2)
            assert seen.commits[:3] == [(5, None), (3, None), (10, None)]
        assert seen.commits[-1] == (15, None)

    live(story)


def test_hooks_hear_why_something_was_not_committed() -> None:
    seen = Seen()

    async def story(world: World) -> None:
        world.fill(part(), records=20)
        async with world.consumer(group_id="g", hooks=[seen], enable_auto_commit=False) as consumer:
            consumer.assign(parts(1))
            await consumer.getmany(timeout_ms=1000)
            with pytest.raises(CommitFailedError):
                await consumer.commit({part(0, "missing"): 5, part(): 4}, timeout_ms=60_000)
            (offset, error), *more = seen.commits
            assert (offset, more) == (4, [])
            assert isinstance(error, CommitFailedError)
            assert set(error.errors) == {part(0, "missing")}
            world.broker.faults.hook = lambda _, request: (
                asyncio.get_running_loop().create_future()
                if isinstance(request, OffsetCommitRequest)
                else None
            )
            task = asyncio.ensure_future(consumer.commit())
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            assert [offset for offset, _ in seen.commits] == [4, 20]
            assert isinstance(seen.commits[-1][1], CommitFailedError)

    live(story)


def test_a_wakeup_takes_no_record_that_the_hooks_have_seen() -> None:
    seen = Seen()

    async def story(world: World) -> None:
        world.fill(part(), records=20)
        async with world.reader(hooks=[seen]) as consumer:
            found: list[int] = []
            while len(found) < 20:
                consumer.wakeup()
                with pytest.raises(WakeupError):
                    await consumer.getone()
                found.append((await consumer.getone()).offset)
            assert found == seen.records == list(range(20))

    live(story)


def test_poison_is_not_shown_to_hooks() -> None:
    seen = Seen()

    def odd(data: bytes) -> int:
        if int(data) % 3 == 0:
            raise ValueError
        return int(data)

    async def story(world: World) -> None:
        world.fill(part(), records=20)
        async with world.reader(hooks=[seen], value_deserializer=odd) as consumer:
            found: list[int] = []
            while len(found) < 13:
                try:
                    found += offsets(await one(consumer))
                except PoisonRecordError as error:
                    consumer.seek(part(), (error.offset or 0) + 1)
            assert found == seen.records == [n for n in range(20) if n % 3]

    live(story)


def test_an_interrupt_in_a_hook_loses_nothing() -> None:
    class Interrupt(KeyboardInterrupt):
        """As Ctrl-C."""

    pressed: list[int] = []

    class Pressing(Seen):
        def on_consume(self, record: Record[Any, Any]) -> None:
            super().on_consume(record)
            if record.offset % 7 == 5 and record.offset not in pressed:
                pressed.append(record.offset)
                raise Interrupt

    with RunningBroker() as running:
        running.broker.create_topic(Topic, 1)
        fill(running, part(), 30)
        hook = Pressing()
        with consumer_of(running, hooks=[hook]) as consumer:
            consumer.assign(parts(1))
            found: list[int] = []
            while len(found) < 30:
                try:
                    if len(found) % 2:
                        found.append(next(consumer).offset)
                    else:
                        polled = consumer.poll(timeout_ms=PATIENCE_MS, max_records=3)
                        found += offsets(polled.get(part(), []))
                except Interrupt:
                    pass
            assert found == list(range(30))
            assert len(pressed) > 2


@pytest.mark.parametrize("hooks", [5, [object()], "hook", Seen()])
def test_what_is_no_list_of_hooks_is_refused(hooks: Any) -> None:
    with pytest.raises(ConfigurationError, match="hook"):
        AsyncConsumer(hooks=hooks)
