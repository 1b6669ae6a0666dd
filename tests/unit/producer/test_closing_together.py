"""Several callers of `close` and `flush` at the same time: all wait for one end, each by its own deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.errors import ClientClosedError, KafkaTimeoutError
from kclient.producer import AsyncProducer, Delivery, Producer
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from tests.support.producing import producing, values
from tests.support.threads import wait_for_no_threads
from tools.kafka.waiting import poll

pytestmark = pytest.mark.uvloop

PRODUCE = ApiKey.PRODUCE


def now() -> float:
    return asyncio.get_running_loop().time()


async def slow(broker: Broker, producer: AsyncProducer, seconds: float = 5) -> Delivery:
    """A record whose delivery takes so long, and which has just been sent."""
    await producer.send_and_wait("t", b"0")
    broker.faults.delay(PRODUCE, seconds)
    return await producer.send("t", b"1")


async def begun(*work: Any) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(0)
    return tasks


def test_every_caller_of_close_and_flush_waits_until_all_is_delivered() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        delivery = await slow(broker, producer)
        (first,) = await begun(producer.close())
        for call in (producer.close, producer.flush, producer.stop):
            (each,) = await begun(call())
            await asyncio.sleep(1)
            assert not each.done()
        await producer.close()
        assert delivery.result().offset == 1
        assert first.done()
        with pytest.raises(ClientClosedError, match="closed"):
            await producer.send("t", b"2")

    producing(check)


def test_a_close_without_any_time_sends_nothing_more_and_an_empty_producer_is_closed_by_it() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        delivery = await producer.send("t", b"1")
        with pytest.raises(KafkaTimeoutError, match="1 records were not delivered"):
            await producer.close(0)
        assert isinstance(delivery.exception(), ClientClosedError)
        assert broker.topics.partition("t", 0).log.end_offset == 1

    async def check_empty(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        await producer.close(0)

    producing(check, linger_ms=60_000)
    producing(check_empty)


def test_a_flush_that_waits_ends_with_a_close_that_gives_up() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        delivery = await slow(broker, producer, 50)
        (flushing,) = await begun(producer.flush())
        with pytest.raises(KafkaTimeoutError, match=r"1 records were not delivered .* and were given up"):
            await producer.close(timeout_ms=1_000)
        await flushing
        assert isinstance(delivery.exception(), ClientClosedError)

    producing(check)


@pytest.mark.parametrize(("first", "second"), [(30_000, 1_000), (1_000, 30_000)])
def test_each_caller_has_its_own_deadline_and_the_last_one_gives_up(first: int, second: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        delivery = await slow(broker, producer)
        began = now()
        closing = await begun(producer.close(first), producer.close(second))
        hasty, patient = sorted(closing, key=lambda task: (first, second)[closing.index(task)])
        with pytest.raises(KafkaTimeoutError, match=r"1 of topic t\); another call still waits"):
            await hasty
        assert now() - began < 1.1
        assert not delivery.done()
        await patient
        assert delivery.result().offset == 1

    producing(check)


@pytest.mark.parametrize("turns", range(4))
def test_a_close_that_is_cancelled_takes_nothing_from_another(turns: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        delivery = await slow(broker, producer)
        first, second = await begun(producer.close(), producer.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert delivery.result().offset == 1
        await producer.close()

    producing(check)


def test_after_the_last_of_them_was_cancelled_close_finds_an_end() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        delivery = await slow(broker, producer)
        closing = await begun(producer.close(), producer.close())
        for each in closing:
            each.cancel()
        await asyncio.wait(closing)
        assert isinstance(delivery.exception(), ClientClosedError)
        await producer.close()

    producing(check)


def test_a_flush_of_a_closed_producer_says_so() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.close()
        with pytest.raises(ClientClosedError, match="closed"):
            await producer.flush()
        unused = AsyncProducer()
        await unused.flush()
        await unused.close()
        with pytest.raises(ClientClosedError, match="closed"):
            await unused.flush()

    producing(check)


@pytest.mark.skipif(os.name != "posix", reason="needs signal handlers of the event loop")
def test_a_handler_of_sigterm_may_close_while_the_block_ends(kafka_broker: RunningBroker) -> None:
    deliveries: list[Delivery] = []
    closing: set[asyncio.Task[None]] = set()

    async def service() -> None:
        stop = asyncio.Event()
        async with AsyncProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=60_000
        ) as producer:

            def terminate() -> None:
                closing.add(asyncio.create_task(producer.close()))
                stop.set()

            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
            deliveries.extend([await producer.send("t", b"%d" % number) for number in range(1_000)])
            os.kill(os.getpid(), signal.SIGTERM)
            await stop.wait()

    asyncio.run(service())
    assert [delivery.result().offset for delivery in deliveries] == list(range(1_000))
    assert len(values(kafka_broker.broker)) == 1_000


def test_threads_that_close_and_flush_wait_for_one_end(kafka_broker: RunningBroker) -> None:
    producer = Producer(bootstrap_servers=kafka_broker.bootstrap_servers)
    producer.send("t", b"0").result(timeout=30)
    answering = asyncio.Event()

    async def hold(_: object, request: Request[Any]) -> None:
        if request.api_key == PRODUCE:
            await answering.wait()

    kafka_broker.broker.faults.hook = hold
    delivery = producer.send("t", b"1")
    found: list[bool] = []

    def wait(call: Any) -> None:
        call()
        found.append(delivery.done())

    threads = [threading.Thread(target=wait, args=[call]) for call in (producer.close, producer.flush)]
    for each in threads:
        each.start()

    async def answer() -> None:
        answering.set()

    try:
        poll(
            lambda: producer._core.dispatcher._flushing == len(threads),
            timeout=60,
            failure=lambda: "nobody waits",
        )
        with pytest.raises(KafkaTimeoutError, match="another call still waits"):
            producer.close(timeout_ms=1)
    finally:
        kafka_broker.call(answer())
    for each in threads:
        each.join()
    assert found == [True, True]
    assert delivery.result().offset == 1
    with pytest.raises(ClientClosedError, match="closed"):
        producer.flush()
    producer.close()
    wait_for_no_threads()
