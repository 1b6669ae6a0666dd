"""Consumers that several callers close at the same time: all wait for one end, which none of them breaks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import ClientClosedError
from kclient.testing import RunningBroker
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from tests.support.threads import wait_for_no_threads
from tests.unit.consumer.reading import Topic, World, live, part, take
from tools.kafka.waiting import poll

Revoked = frozenset[TopicPartition]
IN_GROUPS = pytest.mark.parametrize(
    "protocol",
    [{"group_protocol": "classic"}, {"group_protocol": "consumer"}],
    ids=["classic", "consumer"],
)


def grouped(world: World, protocol: dict[str, str], listener: object = None) -> AsyncConsumer[Any, Any]:
    consumer = world.consumer(group_id="g", **protocol)
    consumer.subscribe([Topic], listener=listener)
    return consumer


class Slow:
    """A listener that takes its time, and whatever else it is given to do."""

    def __init__(self, seconds: float = 2) -> None:
        self.seconds = seconds
        self.told = 0
        self.consumer: AsyncConsumer[Any, Any] | None = None

    async def on_partitions_revoked(self, _: Revoked) -> None:
        self.told += 1
        if self.consumer is not None:
            await self.consumer.close()
        await asyncio.sleep(self.seconds)


@IN_GROUPS
def test_every_caller_of_close_waits_until_the_group_is_left(protocol: dict[str, str]) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        listener = Slow()
        consumer = grouped(world, protocol, listener)
        await consumer.start()
        await take(consumer, 100)
        first = asyncio.create_task(consumer.close())
        await asyncio.sleep(0.5)
        await consumer.close()
        assert first.done()
        assert listener.told == 1
        assert "LEAVE_GROUP" in world.requests or protocol["group_protocol"] == "consumer"
        await consumer.close()

    live(story)


@IN_GROUPS
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_close_that_is_cancelled_takes_nothing_from_another(protocol: dict[str, str], turns: int) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        listener = Slow()
        consumer = grouped(world, protocol, listener)
        await consumer.start()
        await take(consumer, 100)
        first = asyncio.create_task(consumer.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        second = asyncio.create_task(consumer.close())
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        # Everything that was handed out is committed, and nothing is left behind.
        async with world.consumer(group_id="g", **protocol) as again:
            offset = await again.committed(part())
            assert offset is not None
            assert offset.offset == 100

    live(story)


def test_each_caller_has_its_own_deadline() -> None:
    async def story(world: World) -> None:
        world.fill(part())
        consumer = grouped(world, {}, Slow())
        await consumer.start()
        await take(consumer, 100)
        first = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        began = world.sim.loop.time()
        await consumer.close(timeout_ms=500)
        assert 0.4 < world.sim.loop.time() - began < 1
        assert not first.done()
        await first

    live(story)


@IN_GROUPS
def test_a_listener_that_closes_the_consumer_which_calls_it_does_not_wait_for_itself(
    protocol: dict[str, str],
) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        listener = Slow(0)
        listener.consumer = consumer = grouped(world, protocol, listener)
        await consumer.start()
        await take(consumer, 100)
        began = world.sim.loop.time()
        await consumer.close()
        assert world.sim.loop.time() - began < 1
        assert listener.told == 1

    live(story)


class Closing:
    """A listener that closes its consumer at a rebalance, and waits for that."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.told = 0

    async def on_partitions_assigned(self, _: Revoked) -> None:
        self.told += 1
        await self.consumer.close()

    async def on_partitions_revoked(self, _: Revoked) -> None:
        self.told += 1


@IN_GROUPS
def test_a_listener_that_closes_the_consumer_at_a_rebalance_does_not_hold_that_up(
    protocol: dict[str, str],
) -> None:
    async def story(world: World) -> None:
        world.fill(part())
        listener = Closing()
        listener.consumer = consumer = grouped(world, protocol, listener)
        await consumer.start()
        with pytest.raises(ClientClosedError):
            await consumer.getone()
        began = world.sim.loop.time()
        await consumer.close()
        assert world.sim.loop.time() - began < 1
        assert listener.told == 2

    live(story)


def test_a_listener_on_another_loop_that_closes_the_consumer_does_not_hold_that_up(
    kafka_broker: RunningBroker,
) -> None:
    async def main() -> None:
        listener = Closing()
        listener.consumer = consumer = AsyncConsumer(
            bootstrap_servers=kafka_broker.bootstrap_servers, group_id="g", io_thread=True
        )
        consumer.subscribe(["t"], listener=listener)
        await consumer.start()
        with pytest.raises(ClientClosedError):
            await consumer.getone()
        await consumer.close(600_000)  # which does not take long, or the test would
        assert listener.told == 2

    kafka_broker.broker.create_topic("t")
    asyncio.run(main())
    wait_for_no_threads()


def test_a_listener_of_a_blocking_consumer_closes_it_at_a_rebalance(kafka_broker: RunningBroker) -> None:
    told: list[str] = []

    class Listener:
        def on_partitions_assigned(self, _: Revoked) -> None:
            told.append("assigned")
            consumer.close(600_000)
            told.append("closed, or soon")

        def on_partitions_revoked(self, _: Revoked) -> None:
            told.append("revoked")

    kafka_broker.broker.create_topic("t")
    consumer: Consumer[Any, Any] = Consumer(bootstrap_servers=kafka_broker.bootstrap_servers, group_id="g")
    consumer.subscribe(["t"], listener=Listener())
    assert list(consumer) == []
    assert consumer.closed
    assert told == ["assigned", "closed, or soon", "revoked"]
    wait_for_no_threads()


def test_with_a_thread_of_its_own_every_caller_waits_too(kafka_broker: RunningBroker) -> None:
    async def main() -> list[bool]:
        done: list[bool] = []
        told = asyncio.Event()

        class Listener:
            async def on_partitions_revoked(self, _: Revoked) -> None:
                told.set()
                await released.wait()
                done.append(True)

        released = asyncio.Event()
        consumer = AsyncConsumer(
            bootstrap_servers=kafka_broker.bootstrap_servers, group_id="g", io_thread=True
        )
        consumer.subscribe(["t"], listener=Listener())
        await consumer.start()
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=100)
        cancelled = asyncio.create_task(consumer.close(60_000))
        await told.wait()
        others = [asyncio.create_task(consumer.close(60_000)) for _ in range(2)]
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert cancelled.cancelled()
        assert not any(other.done() for other in others)
        released.set()
        await asyncio.gather(*others)
        return done

    kafka_broker.broker.create_topic("t")
    assert asyncio.run(main()) == [True]
    wait_for_no_threads()


def test_threads_that_close_wait_for_one_end(kafka_broker: RunningBroker) -> None:
    leaving = threading.Event()
    answering = asyncio.Event()

    async def hold(_: object, request: Any) -> None:
        if request.api_key == ApiKey.LEAVE_GROUP:
            leaving.set()
            await answering.wait()

    async def answer() -> None:
        answering.set()

    kafka_broker.broker.create_topic("t")
    kafka_broker.broker.faults.hook = hold
    consumer: Consumer[Any, Any] = Consumer(
        "t", bootstrap_servers=kafka_broker.bootstrap_servers, group_id="g"
    )
    consumer.start()
    while not consumer.assignment():
        consumer.poll(timeout_ms=100)
    threads = [threading.Thread(target=consumer.close, args=[60_000]) for _ in range(3)]
    try:
        threads[0].start()
        leaving.wait(60)
        for each in threads[1:]:
            each.start()
        poll(lambda: len(consumer._closers) == 3, timeout=60, failure=lambda: "nobody closes")
        consumer.close(timeout_ms=1)
        assert all(each.is_alive() for each in threads)
        assert consumer._thread is not None
    finally:
        kafka_broker.call(answer())
    for each in threads:
        each.join()
    consumer.close()
    with pytest.raises(ClientClosedError):
        consumer.poll()
    wait_for_no_threads()
