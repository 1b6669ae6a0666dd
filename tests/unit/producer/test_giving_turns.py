"""Loops over `send` that never wait give the event loop its turns, however long the work in between.

The application's work is time that passes on the virtual clock while nothing else runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.producer import AsyncProducer
from kclient.testing import VirtualLoop
from kclient.turns import EVERY
from tests.support.producing import producing, values
from tests.support.ticker import Ticker


def work(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.block(seconds)


class Hook:
    """Changes nothing."""

    def on_send(self, record: Any) -> Any:
        return record

    def on_delivery(self, *_: Any) -> None:
        return


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "value": ({}, {}),
    "key": ({}, {"key": b"key"}),
    "headers": ({}, {"headers": {"name": b"text"}}),
    "partition and time": ({}, {"partition": 0, "timestamp_ms": 1_700_000_000_000}),
    "serializer": ({"value_serializer": bytes}, {}),
    "hook": ({"hooks": [Hook()]}, {}),
    "linger": ({"linger_ms": 1_000}, {}),
    "linger and headers": ({"linger_ms": 1_000}, {"headers": {"name": b"text"}}),
    "small batches": ({"batch_size": 500, "linger_ms": 1_000}, {}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seconds", [0.0003, 0.001, 0.004, 0.0099])
def test_the_loop_has_a_turn_at_least_every_10_ms(way: str, seconds: float) -> None:
    options, fields = WAYS[way]

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        with Ticker() as ticker:
            for _ in range(500):
                await producer.send("t", bytes(100), **fields)
                work(seconds)
        assert ticker.longest <= EVERY + 1e-9
        assert ticker.turns >= 500 * seconds / EVERY - 1
        await producer.flush()
        assert len(values(broker)) == 501

    producing(check, **options)


def test_topics_that_take_turns_do_not_keep_the_loop_from_its_own() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        topics = [f"t{number}" for number in range(10)]
        for topic in topics:
            broker.create_topic(topic)
            await producer.send_and_wait(topic, b"first")
        with Ticker() as ticker:
            for number in range(1_000):
                await producer.send(topics[number % 10], bytes(100))
                work(0.001)
        assert ticker.longest <= EVERY + 1e-9

    producing(check)


def test_calls_that_send_many_records_give_turns_too() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        with Ticker() as ticker:
            for _number in range(100):
                await producer.send_many("t", [bytes(100)] * 10)
                work(0.009)
        assert ticker.longest <= EVERY

    producing(check)


@pytest.mark.parametrize("size", [0, 100])
def test_a_loop_that_slows_down_at_once_is_never_late(size: int) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        for _number in range(2_000):
            await producer.send("t", bytes(size))
        with Ticker() as ticker:
            for _number in range(1_000):
                await producer.send("t", bytes(size))
                work(0.001)
        assert ticker.longest <= EVERY + 1e-9

    producing(check)


@pytest.mark.parametrize("topics", [["t"], ["t", "u"]])
@pytest.mark.parametrize("pause", [0, 3])
def test_a_loop_that_comes_back_slowly_after_a_pause_is_never_late(topics: list[str], pause: float) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.create_topic("u")
        for topic in topics:
            await producer.send_and_wait(topic, b"first")
        for number in range(4_000):
            await producer.send(topics[number % len(topics)], bytes(10))
        await asyncio.sleep(pause)
        await producer.flush()
        with Ticker() as ticker:
            for number in range(1_000):
                await producer.send(topics[number % len(topics)], bytes(10))
                work(0.005)
        assert ticker.longest <= EVERY + 1e-9

    producing(check)


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_records_are_delivered_while_the_loop_that_sends_them_works(linger_ms: int) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        sent = []
        for _number in range(2_000):
            sent.append(await producer.send("t", bytes(100)))
            work(0.001)
        assert sum(each.done() for each in sent) > 1_900

    producing(check, linger_ms=linger_ms)


def test_a_lone_record_does_not_wait_for_a_turn() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        for _number in range(5):
            await asyncio.sleep(1)
            with pytest.raises(StopIteration):
                producer.send("t", bytes(100)).send(None)

    producing(check)


@pytest.mark.parametrize("fields", [{}, {"headers": {"name": b"text"}}])
def test_a_send_that_is_cancelled_in_its_turn_has_appended_nothing(fields: dict[str, Any]) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        kept = cancelled = 0

        async def burst() -> None:
            nonlocal kept
            for number in range(5):
                await producer.send("t", b"%d" % number, **fields)
                kept += 1
                work(0.004)

        for _round in range(50):
            sending = asyncio.create_task(burst())
            await asyncio.sleep(0)
            sending.cancel()
            try:
                await sending
            except asyncio.CancelledError:
                cancelled += 1
        assert cancelled > 10
        await producer.flush()
        assert len(values(broker)) == 1 + kept

    producing(check)


def test_a_full_chunk_is_drained_before_the_next_record_is_appended() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        kept = cancelled = 0
        for _number in range(3_000):
            sending = producer.send("t", bytes(1_000))
            try:
                sending.send(None)  # nothing but a turn of the loop makes it wait
            except StopIteration:
                kept += 1
            else:
                sending.close()
                cancelled += 1
                await asyncio.sleep(0)
        assert cancelled >= 2
        await producer.flush()
        assert len(values(broker)) == 1 + kept

    producing(check)


def test_callers_that_wait_for_room_share_it() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        counts = [0, 0, 0]

        async def send(caller: int) -> None:
            while sum(counts) < 3_000:
                await producer.send("t", bytes(1_000))
                counts[caller] += 1

        await asyncio.gather(*(send(caller) for caller in range(3)))
        assert min(counts) > 100, counts
        await producer.flush()
        assert len(values(broker)) == 1 + sum(counts)

    producing(check, buffer_memory=50_000)
