"""The timestamp of a record is the time at which it was sent, however seldom the event loop has a turn.

The application's work is time that passes on the virtual clock while nothing else runs.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.producer import AsyncProducer, Producer
from kclient.producer.stamps import GivenStamps, SystemStamps
from kclient.testing import RunningBroker, Simulation, VirtualLoop, simulate
from kclient.wire.api import ApiKey
from tests.support.producing import written
from tests.support.threads import busy

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "value": ({}, {}),
    "key": ({}, {"key": b"key"}),
    "headers": ({}, {"headers": {"name": b"text"}}),
    "partition": ({}, {"partition": 0}),
    "serializer": ({"value_serializer": bytes}, {}),
    "linger": ({"linger_ms": 1_000}, {}),
    "small batches": ({"batch_size": 500, "linger_ms": 1_000}, {}),
    "small buffer": ({"buffer_memory": 5_000}, {}),
}
START = 1_700_000_000.0
# Seconds of work after each record.
PACES: dict[str, list[float]] = {
    "slow": [0.005] * 800,
    "fast": [0.00001] * 5_000,
    "a burst, then slow": [0.000001] * 300 + [0.005] * 300,
    "now and then": [0.05 * Random(7).random() ** 6 for _ in range(1_000)],
}


def work(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.block(seconds)


def stamped(way: str, pace: str, *, waits: bool, slow_broker: bool = False) -> None:
    options, fields = WAYS[way]

    async def main(sim: Simulation) -> None:
        async with (
            Broker(clock=sim.clock, seed=sim.seed) as broker,
            AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=sim.clock, **options) as producer,
        ):
            broker.create_topic("t", 1)
            await producer.partitions_for("t")
            if slow_broker:
                broker.faults.delay(ApiKey.PRODUCE, 0.05, times=None)
            expected = []
            for seconds in PACES[pace]:
                if waits:
                    await producer.send("t", bytes(40), **fields)
                else:
                    producer.send_nowait("t", bytes(40), **fields)
                expected.append(int(sim.clock.wall() * 1000))
                work(seconds)
            await producer.flush()
            assert [record.timestamp for record in written(broker)] == expected

    simulate(main)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("way", WAYS)
def test_records_are_stamped_when_they_are_sent(way: str, pace: str) -> None:
    stamped(way, pace, waits=True)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "small buffer"])
def test_records_are_stamped_when_they_are_sent_without_waiting(way: str, pace: str) -> None:
    stamped(way, pace, waits=False)


@pytest.mark.parametrize("way", WAYS)
def test_records_are_stamped_when_they_are_sent_to_a_slow_broker(way: str) -> None:
    stamped(way, "fast", waits=True, slow_broker=True)


@pytest.mark.parametrize("partitions", [6, 100])
def test_records_with_keys_are_stamped_when_they_are_sent(partitions: int) -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(clock=sim.clock, seed=sim.seed) as broker,
            AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=sim.clock) as producer,
        ):
            broker.create_topic("t", partitions)
            await producer.partitions_for("t")
            expected = {}
            for number in range(6_000):
                key = b"%d" % number
                await producer.send("t", bytes(40), key)
                expected[key] = int(sim.clock.wall() * 1000)
                work(0.00003)
            await producer.flush()
            found = {
                record.key: record.timestamp
                for partition in range(partitions)
                for record in written(broker, "t", partition)
            }
            assert found == expected

    simulate(main)


@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
def test_a_clock_that_is_set_is_followed(step: float) -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(clock=sim.clock, seed=sim.seed) as broker,
            AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=sim.clock) as producer,
        ):
            broker.create_topic("t", 1)
            await producer.partitions_for("t")
            expected = []
            for number in range(200):
                if number == 100:
                    sim.clock.shift(step)
                await producer.send("t", b"v")
                expected.append(int(sim.clock.wall() * 1000))
            await producer.flush()
            assert [record.timestamp for record in written(broker)] == expected

    simulate(main)


@pytest.mark.parametrize("size", [1, 100, 900])
def test_tasks_that_send_at_once_keep_their_order_while_the_loop_is_owed_a_turn(size: int) -> None:
    async def main(sim: Simulation) -> None:
        async with (
            Broker(clock=sim.clock, seed=sim.seed) as broker,
            AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=sim.clock) as producer,
        ):
            broker.create_topic("t", 1)
            await producer.partitions_for("t")
            called: list[bytes] = []

            async def send(number: int) -> None:
                for _ in range(number % 3):
                    await asyncio.sleep(0)
                value = b"%05d" % number + bytes(size * (number % 7))
                called.append(value)
                sending = producer.send("t", value)
                work(sim.random.choice([0.0, 0.0, 0.0003, 0.004]))
                await sending

            await asyncio.gather(*(send(number) for number in range(2_000)))
            await producer.flush()
            assert [record.value for record in written(broker)] == called

    simulate(main)


def test_a_blocking_producer_stamps_them_too_while_its_loop_is_held_up(kafka_broker: RunningBroker) -> None:
    clock = _Clock()
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, clock=clock) as producer:
        producer.partitions_for("t")
        with busy(producer._thread):
            for number in range(1_000):
                clock.now = START + number // 7 / 1000
                producer.send("t", b"%d" % number)
    found = [record.timestamp for record in written(kafka_broker.broker)]
    assert found == [int((START + number // 7 / 1000) * 1000) for number in range(1_000)]


class _Clock:
    def __init__(self) -> None:
        self.now = START

    def wall(self) -> float:
        return self.now


def test_a_tick_of_the_system_ends_with_its_millisecond() -> None:
    stamps = SystemStamps()
    before = stamps.moment()
    tick = stamps.tick()
    assert tick.ms > 1_700_000_000_000
    assert before < tick.until <= stamps.moment() + 0.001


def test_a_tick_of_a_clock_that_stands_still_ends_as_well() -> None:
    now = [5.0]
    stamps = GivenStamps(_Clock(), lambda: now[0])
    tick = stamps.tick()
    now[0] += 0.0005
    assert stamps.moment() < tick.until
    now[0] += 0.001
    assert stamps.moment() >= tick.until
    assert stamps.tick().ms == tick.ms
