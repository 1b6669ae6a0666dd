"""A delivery wherever asyncio takes a future: waited for, given up, cancelled, on any loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.errors import KafkaError, UnknownTopicOrPartitionError
from kclient.producer import AsyncProducer, Delivery, Producer
from kclient.producer.watchers import nobody
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey
from tests.support.producing import producing, values
from tests.support.threads import wait_for_no_threads

Wait = Callable[[list[Any]], Awaitable[Any]]


async def wait(deliveries: Iterable[Any], **how: Any) -> tuple[set[Delivery], set[Delivery]]:
    """`asyncio.wait`, of which type checkers know only that it takes asyncio's own futures."""
    done, pending = await asyncio.wait(deliveries, **how)
    return done, pending


async def in_task_group(deliveries: list[Any]) -> list[Any]:
    async def one(delivery: Delivery) -> Any:
        return await delivery

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(delivery)) for delivery in deliveries]
    return [task.result() for task in tasks]


async def as_completed(deliveries: list[Any]) -> list[Any]:
    return [await each for each in asyncio.as_completed(deliveries)]


WAYS: dict[str, Wait] = {
    "gather": lambda deliveries: asyncio.gather(*deliveries),
    "wait_for": lambda deliveries: asyncio.gather(*[asyncio.wait_for(each, 900) for each in deliveries]),
    "shield": lambda deliveries: asyncio.gather(*map(asyncio.shield, deliveries)),
    "ensure_future": lambda deliveries: asyncio.gather(*map(asyncio.ensure_future, deliveries)),
    "as_completed": as_completed,
    "TaskGroup": in_task_group,
    "wait": wait,
}
by_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@by_way
def test_deliveries_are_waited_for_in_every_way_that_asyncio_has(way: Wait) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        sent = [await producer.send("t", b"%d" % number) for number in range(3)]
        for _round in range(2):  # the second time they are done already
            found = await way(sent)
            if isinstance(found, tuple):
                found, pending = found
                assert (found, pending) == (set(sent), set())
                found = [each.result() for each in found]
            assert sorted(metadata.offset for metadata in found) == [0, 1, 2]

    producing(check)


@by_way
def test_a_wait_that_is_cancelled_ends_at_once_and_takes_nothing_from_the_deliveries(way: Wait) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 20, times=None)
        loop = asyncio.get_running_loop()
        first = await producer.send("t", b"on its way")
        await asyncio.sleep(1)
        sent = [first, await producer.send("t", b"not drained yet")]
        for seconds in (0, 1):
            began = loop.time()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(seconds):
                    await way(sent)
            assert loop.time() <= began + seconds + 0.1
        assert not any(each.done() or each.cancelled() for each in sent)
        assert [(await each).offset for each in sent] == [0, 1]

    producing(check, delivery_timeout_ms=100_000)


def test_wait_for_gives_up_by_its_time_and_the_record_is_delivered_all_the_same() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 20)
        delivery: Any = await producer.send("t", b"v")
        for seconds in (0, 1):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(delivery, seconds)
        assert (await delivery).offset == 0
        assert values(broker) == [b"v"]

    producing(check)


@pytest.mark.parametrize("linger_ms", [0, 5_000])
def test_wait_says_what_is_pending_and_leaves_no_callback_there(linger_ms: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 20)
        sent = [await producer.send("t", b"v") for _ in range(100)]
        for _round in range(3):
            assert await wait(sent, timeout=1) == (set(), set(sent))
        assert not any(each.cancel() for each in sent)
        chunk = sent[0]._chunk
        left = [each for part in chunk.parts for each in part.watchers or ()] + (chunk.noted or [])[1::2]
        assert not [each for each in left if each not in (None, nobody)]
        await producer.flush()
        assert await wait(sent) == (set(sent), set())

    producing(check, linger_ms=linger_ms)


def test_wait_ends_with_the_first_one_or_the_first_error() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"v")
        broker.faults.delay(ApiKey.PRODUCE, 2_000, times=None)
        bad = await producer.send("t", b"v", partition=9)
        slow = await producer.send("t", b"v", partition=0)
        assert not bad.done()
        for until in (asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION):
            assert await wait([slow, bad], return_when=until) == ({bad}, {slow})
        assert await wait([bad, slow]) == ({bad, slow}, set())
        results = await asyncio.gather(bad, slow, bad, return_exceptions=True)
        assert [isinstance(each, UnknownTopicOrPartitionError) for each in results] == [True, False, True]
        with pytest.raises(KafkaError):
            await asyncio.gather(slow, bad)

    producing(check, linger_ms=10)


def test_it_is_no_future_as_asyncio_would_cancel_one() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        delivery: Any = await producer.send("t", b"v")
        assert not asyncio.isfuture(delivery)
        assert delivery.cancel() is delivery.cancel("with a message") is delivery.cancelled() is False
        await delivery
        assert delivery.cancel() is delivery.cancelled() is False

    producing(check)


@pytest.mark.parametrize("drained", [False, True], ids=["before the drain", "after it"])
def test_a_callback_that_is_taken_back_is_not_called(drained: bool) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 20)
        called: list[str] = []

        def one(_: Delivery) -> None:
            called.append("one")

        def other(_: Delivery) -> None:
            called.append("other")

        sent = [await producer.send("t", b"v") for _ in range(3)]
        for callback in (one, other, one):
            sent[1].add_done_callback(callback)
        sent[2].add_done_callback(one)
        if drained:
            await asyncio.sleep(1)
            sent[1].add_done_callback(one)  # it comes late
        assert sent[1].remove_done_callback(one) == (3 if drained else 2)
        assert sent[1].remove_done_callback(one) == sent[0].remove_done_callback(one) == 0
        sent[1].add_done_callback(one)
        await producer.flush()
        assert sorted(called) == ["one", "one", "other"]
        assert sent[1].remove_done_callback(other) == 0

    producing(check)


def test_a_late_callback_that_is_taken_back_leaves_the_others() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 20)
        called: list[Delivery] = []
        kept, gone = [await producer.send("t", b"v") for _ in range(2)]
        await asyncio.sleep(1)
        for delivery in (kept, gone):
            delivery.add_done_callback(called.append)
            delivery.add_done_callback(print)
            assert delivery.remove_done_callback(print) == 1
        assert gone.remove_done_callback(called.append) == 1
        await producer.flush()
        assert called == [kept]

    producing(check)


@pytest.mark.uvloop
@by_way
def test_deliveries_of_a_blocking_producer_are_waited_for_on_any_loop(
    kafka_broker: RunningBroker, way: Wait
) -> None:
    async def main() -> None:
        sent = [producer.send("t", b"v") for _ in range(20)]
        flushing = threading.Thread(target=producer.flush)
        asyncio.get_running_loop().call_soon(flushing.start)  # as soon as this waits
        found = await way(sent)
        flushing.join()
        found = [each.result() for each in found[0]] if isinstance(found, tuple) else found
        assert sorted(metadata.offset for metadata in found) == list(range(20))

    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=60_000) as producer:
        asyncio.run(main())
    wait_for_no_threads()


@pytest.mark.uvloop
def test_callbacks_of_a_blocking_producer_do_not_wait_for_a_loop_that_it_blocks(
    kafka_broker: RunningBroker,
) -> None:
    threads: list[int] = []

    async def main() -> None:  # as a cell of a notebook, which runs on a loop
        delivery = producer.send("t", b"v")
        delivery.add_done_callback(lambda _: threads.append(threading.get_ident()))
        delivery.add_done_callback(print)
        assert delivery.remove_done_callback(print) == 1
        producer.flush()
        assert len(threads) == 1

    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=60_000) as producer:
        asyncio.run(main())
    assert threads[0] != threading.get_ident()
    wait_for_no_threads()


def test_a_callback_whose_loop_is_gone_is_called_all_the_same(kafka_broker: RunningBroker) -> None:
    called: list[Delivery] = []

    async def main() -> Delivery:
        delivery = producer.send("t", b"v")
        delivery.add_done_callback(called.append)
        return delivery

    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=60_000) as producer:
        delivery = asyncio.run(main())
        producer.flush()
        assert called == [delivery]
    wait_for_no_threads()
