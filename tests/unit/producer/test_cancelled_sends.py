"""Calls of a producer that are cancelled: what they say of their records is true, as is what hooks hear."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.producer import AsyncProducer, ProducerRecord
from kclient.types import RecordMetadata
from kclient.wire.api import ApiKey
from tests.support.producing import producing, values


class Listening:
    """A hook that keeps what it hears of each record, by the first bytes of its value."""

    def __init__(self) -> None:
        self.heard: dict[bytes, list[int | BaseException | None]] = {}

    def on_send(self, _: ProducerRecord) -> ProducerRecord | None:
        return None

    def on_delivery(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        heard = metadata.offset if metadata else error
        self.heard.setdefault(record.value[:6], []).append(heard)


def value(number: int, size: int) -> bytes:
    return (b"%06d" % number).ljust(size, b".")


# Chunks that get full, a buffer that is full, and a topic that has to be asked for.
PLACES: dict[str, tuple[int, bool, dict[str, Any]]] = {
    "chunks": (100_000, True, {}),
    "room": (1_000, True, {"buffer_memory": 10_000, "batch_size": 5_000}),
    "topic": (1_000, False, {}),
}


@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "hooked"])
@pytest.mark.parametrize("place", PLACES)
def test_a_send_that_is_cancelled_has_not_sent_its_record(place: str, hooked: bool) -> None:
    size, known, options = PLACES[place]
    hook = Listening()
    cancelled: set[bytes] = set()
    taken: set[bytes] = set()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        async def send(number: int) -> None:
            sent = value(number, size)
            try:
                await producer.send("t", sent)
            except asyncio.CancelledError:
                cancelled.add(sent[:6])
            else:
                taken.add(sent[:6])

        broker.faults.delay(ApiKey.PRODUCE, 0.5, times=None)
        broker.faults.delay(ApiKey.METADATA, 0.01, times=None)
        everything: list[asyncio.Task[None]] = []
        if known:
            await producer.partitions_for("t")
        for burst in range(8):
            tasks = [asyncio.create_task(send(40 * burst + number)) for number in range(40)]
            everything += tasks
            for _ in range(burst % 4):
                await asyncio.sleep(0)
            for task in tasks[burst % 2 :: 1 + burst % 3]:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.2 * (burst % 2))
        await asyncio.wait(everything)
        await producer.flush()
        there = [written[:6] for written in values(broker) if written is not None]
        assert len(there) == len(set(there))
        assert set(there) == taken
        assert not cancelled & taken
        assert cancelled
        if hooked:
            assert {name for name, heard in hook.heard.items() if isinstance(heard[0], int)} == taken
            assert all(isinstance(hook.heard[name][0], asyncio.CancelledError) for name in cancelled)
            assert all(len(heard) == 1 for heard in hook.heard.values())

    producing(check, hooks=[hook] if hooked else [], **options)


@pytest.mark.parametrize("size", [10, 1_000, 30_000])
def test_sends_of_tasks_that_begin_one_after_the_other_keep_their_order(size: int) -> None:
    """Also where one of them first gives the loop its turn."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        count = 6_000_000 // size // 3 if size > 10 else 60_000
        tasks = [asyncio.create_task(producer.send("t", value(number, size))) for number in range(count)]
        await asyncio.wait(tasks)
        await producer.flush()
        numbers = [int(written[:6]) for written in values(broker) if written is not None]
        assert numbers == list(range(count))

    producing(check, buffer_memory=100_000_000)


def test_send_and_wait_that_is_cancelled_leaves_the_truth_to_its_hook() -> None:
    hook = Listening()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        broker.faults.delay(ApiKey.PRODUCE, 1, times=None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await producer.send_and_wait("t", value(1, 10))
        await producer.flush()
        assert hook.heard == {b"000001": [0]}
        assert values(broker) == [value(1, 10)]

    producing(check, hooks=[hook])


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 40])
def test_send_many_that_is_cancelled_says_how_many_it_has_sent(turns: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        many = [value(number, 1_000) for number in range(6_000)]
        task = asyncio.create_task(producer.send_many("t", many))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        await producer.flush()
        written = values(broker)
        assert written == many[: len(written)]
        assert len(written) < len(many)
        assert caught.value.__notes__ == [f"the first {len(written)} records are sent all the same"]

    producing(check, buffer_memory=3_000_000)


Call = Callable[[AsyncProducer], Awaitable[object]]
CALLS: dict[str, Call] = {
    "send": lambda producer: producer.send("t", b"v"),
    "send to a new topic": lambda producer: producer.send("new", b"v"),
    "send_and_wait": lambda producer: producer.send_and_wait("t", b"v"),
    "send_many": lambda producer: producer.send_many("t", [bytes(1_000)] * 2_000),
    "partitions_for": lambda producer: producer.partitions_for("other"),
    "flush": lambda producer: producer.flush(),
    "start": lambda producer: producer.start(),
}


@pytest.mark.parametrize("name", CALLS)
def test_after_a_call_that_ran_out_of_time_the_producer_goes_on(name: str) -> None:
    """`asyncio.timeout` of each millisecond around it; what it leaves behind fails the run."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for topic in ("other", "new"):
            broker.create_topic(topic, 1)
        broker.faults.delay(ApiKey.PRODUCE, 0.005, times=None)
        broker.faults.delay(ApiKey.METADATA, 0.005, times=None)
        late = 0
        for milliseconds in (0, 1, 2, 3, 5, 8, 10, 20, 50):
            again = AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=broker.clock)
            for each in (producer, again):
                await producer.send("t", b"before")
                try:
                    async with asyncio.timeout(milliseconds / 1000):
                        await CALLS[name](each)
                except TimeoutError:
                    late += 1
                metadata = await each.send_and_wait("t", b"after")
                assert metadata.offset >= 0
            await again.close()
        assert late

    producing(check)
