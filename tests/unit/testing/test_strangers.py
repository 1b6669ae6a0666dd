"""Libraries that know nothing of simulations, on virtual time: aiokafka, httpx, aiohttp, the module time."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable

import aiohttp
import httpx
import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kclient.broker import Broker
from kclient.testing import Simulation, UnsupportedError, VirtualLoop, simulate


def test_aiokafka_produces_and_consumes_in_a_group() -> None:
    async def main(sim: Simulation) -> list[bytes | None]:
        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            broker.create_topic("t", 2)
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                for number in range(10):
                    await producer.send_and_wait("t", b"%d" % number, partition=number % 2)
            consumer = AIOKafkaConsumer(
                "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            )
            async with consumer:
                return sorted([(await consumer.getone()).value for _ in range(10)])

    assert simulate(main, allow_leftovers=True) == [b"%d" % number for number in range(10)]


async def ok(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def serving(sim: Simulation) -> web.AppRunner:
    """A web server on the host `web`."""
    application = web.Application()
    application.router.add_get("/", ok)
    runner = web.AppRunner(application)
    with sim.network.host("web"):
        await runner.setup()
        await web.TCPSite(runner, port=80).start()
    return runner


def test_httpx_asks_and_keeps_its_connection() -> None:
    async def main(sim: Simulation) -> None:
        runner = await serving(sim)
        async with httpx.AsyncClient() as client:
            for _ in range(3):
                assert (await client.get("http://web/")).text == "ok"
            assert len(sim.network.dialled) == 1
            sim.network.reset()
            await asyncio.sleep(1)
            assert (await client.get("http://web/")).text == "ok"
            assert len(sim.network.dialled) == 2
            sim.network.refuse("web")
            sim.network.reset()
            await asyncio.sleep(1)
            with pytest.raises(httpx.ConnectError):
                await client.get("http://web/")
        await runner.cleanup()

    simulate(main)


def test_aiohttp_asks_and_is_told_that_it_is_refused() -> None:
    async def main(sim: Simulation) -> None:
        runner = await serving(sim)
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.get("http://web/") as response:
                    assert await response.text() == "ok"
            sim.network.reset()
            sim.network.refuse("web")
            await asyncio.sleep(1)
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get("http://web/")
        await runner.cleanup()

    simulate(main)


def test_a_socket_that_the_loop_has_connected_becomes_the_connection() -> None:
    async def main(sim: Simulation) -> bytes:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            writer.close()

        server = await asyncio.start_server(greet, port=80)
        with socket.socket() as sock:
            await sim.loop.sock_connect(sock, ("127.0.0.1", 80))
            await asyncio.sleep(1)  # what has arrived meanwhile waits
            reader, writer = await asyncio.open_connection(sock=sock)
        heard = await reader.read()
        inner = writer.get_extra_info("socket")
        assert (inner.getpeername(), inner.fileno() >= 0) == (("127.0.0.1", 80), True)
        writer.close()
        await writer.wait_closed()
        assert inner.fileno() == -1
        server.close()
        return heard

    assert simulate(main) == b"hello"


def test_the_module_time_has_virtual_time_for_the_thread_that_simulates_and_no_other() -> None:
    elsewhere: list[float] = []

    async def main(sim: Simulation) -> None:
        began = time.time(), time.time_ns(), time.monotonic(), time.monotonic_ns()
        assert began[0] == sim.clock.wall()
        await asyncio.sleep(3600)
        assert time.time() - began[0] == 3600
        assert time.time_ns() - began[1] == 3600 * 10**9
        assert time.monotonic() - began[2] == 3600
        assert time.monotonic_ns() - began[3] == 3600 * 10**9
        other = threading.Thread(target=lambda: elsewhere.append(time.time()))
        other.start()
        other.join()

    real = time.time, time.time_ns, time.monotonic, time.monotonic_ns
    before = time.time()
    simulate(main)
    assert before <= elsewhere[0] <= time.time()
    assert (time.time, time.time_ns, time.monotonic, time.monotonic_ns) == real


def test_one_seed_is_one_history_in_threads_that_simulate_at_the_same_time() -> None:
    async def main(sim: Simulation) -> str:
        from random import random  # noqa: PLC0415 - the module's own, which is seeded

        async with Broker(clock=sim.clock, seed=sim.seed) as broker:
            host, port = broker.bootstrap_servers.split(":")
            for _ in range(20):
                _, writer = await asyncio.open_connection(host, int(port))
                await asyncio.sleep(random())
                writer.close()
        return sim.trace.digest()

    ready, digests = threading.Barrier(4), []

    def run() -> None:
        ready.wait(30)
        digests.append(simulate(main, seed=5))

    threads = [threading.Thread(target=run) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # else each would be done before the next begins
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert len(digests) == 4
    assert set(digests) == {simulate(main, seed=5)}


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        (lambda _: asyncio.create_subprocess_exec("true"), r"no processes.*\(subprocess_exec\)"),
        (lambda _: asyncio.create_subprocess_shell("true"), r"no processes.*\(subprocess_shell\)"),
        (lambda loop: loop.add_signal_handler(2, print), "gets no signals"),
        (lambda loop: loop.add_reader(0, print), "no file descriptors"),
        (lambda loop: loop.sock_recv(None, 1), r"no sockets.*\(sock_recv\)"),
        (lambda loop: loop.create_unix_server(asyncio.Protocol), "no Unix sockets"),
        (lambda loop: loop.connect_read_pipe(asyncio.Protocol, None), "no pipes"),
        (lambda loop: loop.create_connection(asyncio.Protocol, sock=object()), "its loop did not connect"),
    ],
)
async def test_what_no_simulation_has_is_refused_by_name(
    loop: VirtualLoop, asks: Callable[[object], object], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        await asks(loop)  # type: ignore[misc]
