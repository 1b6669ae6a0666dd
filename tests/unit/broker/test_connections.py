"""Connections of the embedded broker on virtual time: idleness, faults, and what comes behind a fault."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.broker.api import RequestContext
from kclient.broker.broker import Broker
from kclient.errors import ConfigurationError, InvalidTopicError, KafkaError, KafkaStorageError
from kclient.net.connection import Connection
from kclient.testing import Simulation, simulate
from kclient.wire.api import ApiKey
from kclient.wire.frame import encode_request
from kclient.wire.message import Request
from kclient.wire.messages.metadata import MetadataRequest
from tests.broker.records_script import fetch, produce, records
from tests.support.embedded import address, connected, find, simulated, within

FIND = ApiKey.FIND_COORDINATOR
Check = Callable[[Broker, Connection], Awaitable[None]]


def now() -> float:
    return asyncio.get_running_loop().time()


def metadata() -> MetadataRequest:
    return MetadataRequest(topics=[])


@pytest.mark.parametrize("opening", [b"", b"\0\0\1", b"\0\0\1\0half of it"])
def test_a_client_that_never_completes_a_request_is_dropped_when_it_has_been_idle_for_too_long(
    opening: bytes,
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        began = now()
        reader, writer = await asyncio.open_connection(*address(broker))
        writer.write(opening)
        for _ in range(3):
            await asyncio.sleep(4)
            writer.write(b"\0" if opening else b"")
            await connection.call(find(), within(5))
        assert await reader.read() == b""
        # Bytes that complete nothing are no activity.
        assert 0 <= now() - began - 15 < 1
        writer.close()
        await connection.call(find(), within(5))

    simulated(check, config={"connections.max.idle.ms": "15000"})


def test_by_default_idle_clients_have_ten_minutes() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        await asyncio.sleep(595)
        assert repr(broker.nodes[1]) == "<Node 1 1 connections>"
        await asyncio.sleep(10)
        assert repr(broker.nodes[1]) == "<Node 1 0 connections>"
        assert connection.closed

    simulated(check)


def test_a_client_that_waits_for_an_answer_is_not_idle() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.create_topic("t")
        answer = await connection.call(fetch("t", max_wait_ms=60_000), within(100), version=12)
        assert answer.error_code == 0

    simulated(check, config={"connections.max.idle.ms": "1000"})


def test_idle_clients_stay_for_ever_where_the_limit_is_off() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        await asyncio.sleep(86_400)
        await connection.call(find(), within(5))
        assert len(broker.running()) == 1

    simulated(check, config={"connections.max.idle.ms": "-1"})


def test_a_half_open_connection_answers_nothing_and_stays_open() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.faults.half_open(FIND)
            reader, writer = await asyncio.open_connection(*address(broker))
            for number in range(3):
                writer.write(encode_request(find(), 6, number, None))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 3000)
            async with connected(broker) as another:
                await another.call(find(), within(5))
            writer.close()

    simulate(main)


def test_a_slow_answer_comes_whole_at_the_asked_pace() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        whole = await connection.call(metadata(), within(5))
        broker.faults.slow(ApiKey.METADATA, 20)
        began = now()
        assert await connection.call(metadata(), within(60)) == whole
        assert 1 < now() - began < 10
        began = now()
        await connection.call(metadata(), within(5))
        assert now() - began < 1

    simulated(check)


def test_a_throttled_client_is_not_served_before_its_time_is_over() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.faults.throttle(FIND, 5000)
            reader, writer = await asyncio.open_connection(*address(broker))
            came = []
            for number in range(2):
                writer.write(encode_request(find(), 6, number, None))
            for _ in range(2):
                await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                came.append(now())
            assert came[0] < 1
            assert came[1] >= 5
            writer.close()

    simulate(main)


@pytest.mark.parametrize("handled", [False, True])
def test_requests_behind_one_that_ends_the_connection_are_not_handled(handled: bool) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        seen: list[ApiKey] = []

        def hook(_: RequestContext, request: Request[Any]) -> None:
            seen.append(request.api_key)

        broker.faults.hook = hook
        broker.faults.close(FIND, handled=handled)
        asked = [connection.call(request, within(5)) for request in (find(), metadata())]
        assert all(
            isinstance(one, KafkaError) for one in await asyncio.gather(*asked, return_exceptions=True)
        )
        assert seen == [FIND]

    simulated(check)


def test_requests_behind_a_late_one_wait_for_it() -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        broker.faults.delay(FIND, 3)
        answered: list[str] = []

        async def ask(name: str, request: Request[Any]) -> None:
            await connection.call(request, within(60))
            answered.append(name)

        began = now()
        await asyncio.gather(ask("late", find()), ask("behind", metadata()))
        assert answered == ["late", "behind"]
        assert now() - began >= 3

    simulated(check)


@pytest.mark.parametrize("topic", ["t", "no-such"])
def test_what_goes_wrong_with_records_that_nobody_waits_for_ends_the_connection(topic: str) -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.create_topic("t")
            if topic == "t":
                broker.faults.answer_with(ApiKey.PRODUCE, InvalidTopicError)
            reader, writer = await asyncio.open_connection(*address(broker))
            writer.write(encode_request(produce(topic, records(b"one"), acks=0), 12, 1, None))
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(reader.read(), 10)
            writer.close()

    simulate(main)


def test_a_broker_that_cannot_have_its_port_gives_back_what_it_opened() -> None:
    async def check() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            # The second node's; the first has its own already by then.
            broker = Broker(nodes=2, port=taken.getsockname()[1] - 1)
            with pytest.raises(OSError, match="in use"):
                await broker.start()
        assert broker.running() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(check())


def test_what_a_client_sent_before_its_orderly_end_is_written() -> None:
    async def check(broker: Broker, _: Connection) -> None:
        log = broker.create_topic("t").partitions[0].log
        writer = (await asyncio.open_connection(*address(broker)))[1]
        # The first is held up, so the others are still waiting when the client has gone.
        broker.faults.delay(ApiKey.PRODUCE, 3)
        for number in range(3):
            request = produce("t", records(b"%d" % number), acks=0)
            writer.write(encode_request(request, 12, number, "leaves"))
        writer.close()
        await asyncio.sleep(10)
        assert log.end_offset == 3
        assert repr(broker.nodes[1]) == "<Node 1 1 connections>"

    simulated(check)


def test_a_log_whose_disk_fails_does_not_keep_others_from_being_cleaned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: int) -> int:
        raise KafkaStorageError("no disk")

    async def check(broker: Broker, connection: Connection) -> None:
        configs = {"retention.ms": "1000", "segment.ms": "1"}
        bad, good = broker.create_topic("bad", configs=configs), broker.create_topic("good", configs=configs)
        for name in ("bad", "good"):
            await connection.call(produce(name, records(b"one")), within(5), version=12)
        monkeypatch.setattr(bad.partitions[0].log, "enforce_retention", fail)
        for _ in range(2):
            await asyncio.sleep(301)
        assert good.partitions[0].log.start_offset == 1
        assert caplog.text.count("no disk") == 1

    simulated(check)


def test_success_is_no_fault_that_can_be_planned() -> None:
    with pytest.raises(ConfigurationError, match="error=0 is success"):
        Broker().faults.answer_with(FIND, 0)
