"""The ends of a connection: flow control, ends in good order and in bad, streams, servers."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from kclient.testing import VirtualLoop
from kclient.testing.network import WINDOW
from kclient.testing.transport import HIGH_WATER
from tests.unit.testing.ends import SERVER, Recorder, pair


async def test_a_reader_that_pauses_stops_the_writer_and_a_bounded_amount_is_under_way(
    loop: VirtualLoop,
) -> None:
    client, server = await pair(loop.network)
    server.transport.pause_reading()
    assert not server.transport.is_reading()
    client.transport.write(bytes(WINDOW + HIGH_WATER))
    assert client.events == ["made"]
    client.transport.write(b"x")
    assert client.events == ["made", "pause"]
    await asyncio.sleep(60)
    assert client.transport.get_write_buffer_size() == HIGH_WATER + 1
    assert server.data == b""
    server.transport.resume_reading()
    await asyncio.sleep(1)
    assert client.events == ["made", "pause", "resume"]
    assert len(server.data) == WINDOW + HIGH_WATER + 1
    client.transport.close()
    await asyncio.sleep(1)


async def test_limits_of_the_buffer_can_be_set(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    server.transport.pause_reading()
    client.transport.set_write_buffer_limits(high=10)
    assert client.transport.get_write_buffer_limits() == (2, 10)
    client.transport.write(bytes(WINDOW + 11))
    assert client.events == ["made", "pause"]
    with pytest.raises(ValueError, match="high"):
        client.transport.set_write_buffer_limits(high=1, low=2)
    client.transport.abort()
    await asyncio.sleep(1)


async def test_close_waits_until_everything_is_out(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    server.transport.pause_reading()
    client.transport.write(bytes(3 * WINDOW))
    client.transport.close()
    client.transport.write(b"too late")
    await asyncio.sleep(3600)
    assert not client.lost
    server.transport.resume_reading()
    await asyncio.sleep(1)
    assert (client.events, client.error) == (["made", "pause", "resume", "lost"], None)
    assert len(server.data) == 3 * WINDOW
    assert (server.events, server.error) == (["made", "end", "lost"], None)


async def test_abort_loses_what_is_not_out_and_resets_the_other_end(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    client.transport.write(bytes(3 * WINDOW))
    client.transport.abort()
    await asyncio.sleep(1)
    assert client.error is None
    assert len(server.data) == WINDOW
    assert isinstance(server.error, ConnectionResetError)


async def test_a_server_that_speaks_and_hangs_up_at_once_is_heard(loop: VirtualLoop) -> None:
    class Brusque(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"go away")
            self.transport.close()

    loop.network.listen(SERVER, Brusque)
    _, client = await loop.create_connection(Recorder, *SERVER)
    await asyncio.sleep(1)
    assert client.data == b"go away"
    assert client.events == ["made", "end", "lost"]
    assert not loop.network.transports


async def test_writing_to_an_end_that_is_closed_is_answered_with_a_reset(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network, keeps_open=True)
    server.transport.close()
    await asyncio.sleep(1)
    assert client.events == ["made", "end"]
    client.transport.write(b"anybody there?")
    await asyncio.sleep(1)
    assert isinstance(client.error, ConnectionResetError)


async def test_an_end_that_has_said_all_can_still_listen(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network, keeps_open=True)
    assert client.transport.can_write_eof()
    client.transport.write(b"all")
    client.transport.write_eof()
    with pytest.raises(RuntimeError, match="after write_eof"):
        client.transport.write(b"more")
    await asyncio.sleep(1)
    server.transport.write(b"answer")
    server.transport.close()
    await asyncio.sleep(1)
    client.transport.close()
    await asyncio.sleep(1)
    assert (server.data, client.data) == (b"all", b"answer")
    assert (server.events, client.events) == (["made", "end", "lost"], ["made", "end", "lost"])


async def test_only_bytes_can_be_written(loop: VirtualLoop) -> None:
    client, _ = await pair(loop.network)
    with pytest.raises(TypeError, match="'str'"):
        client.transport.write("text")  # type: ignore[arg-type]
    client.transport.close()
    await asyncio.sleep(1)


async def test_a_protocol_that_fails_loses_its_connection_and_the_loop_hears_of_it(loop: VirtualLoop) -> None:
    class Faulty(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError(data)

    heard: list[dict[str, Any]] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: heard.append(context))
    faulty = Faulty()
    loop.network.listen(SERVER, lambda: faulty)
    transport, client = await loop.create_connection(Recorder, *SERVER)
    transport.write(b"x")
    await asyncio.sleep(1)
    loop.set_exception_handler(before)
    assert isinstance(faulty.error, ValueError)
    assert [context["exception"] for context in heard] == [faulty.error]
    assert isinstance(client.error, ConnectionResetError)


async def test_buffered_protocols_get_bytes_in_the_buffers_they_give(loop: VirtualLoop) -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(3)
            self.data = b""

        def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.data += self.buffer[:nbytes]

    buffered = Buffered()
    loop.network.listen(SERVER, lambda: buffered)
    transport, _ = await loop.create_connection(Recorder, *SERVER)
    transport.write(b"ten bytes!")
    await asyncio.sleep(1)
    assert buffered.data == b"ten bytes!"
    transport.close()
    await asyncio.sleep(1)


async def test_streams_and_servers_of_asyncio_work(loop: VirtualLoop) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        assert server.is_serving()
        reader, writer = await asyncio.open_connection(host, port)
        big = b"x" * 60_000 + b"\n"
        for _ in range(20):
            writer.write(big)
            await writer.drain()
            assert await reader.readline() == big.upper()
        writer.close()
        await writer.wait_closed()
    assert not server.is_serving()
    assert server.sockets == ()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    assert not loop.network.servers


async def test_a_server_that_closes_waits_for_its_connections(loop: VirtualLoop) -> None:
    server = await loop.create_server(Recorder, "127.0.0.1", 9092)
    with pytest.raises(OSError, match="in use") as caught:
        await loop.create_server(Recorder, "127.0.0.1", 9092)
    assert caught.value.errno == errno.EADDRINUSE
    transport, client = await loop.create_connection(Recorder, "127.0.0.1", 9092)
    serving = loop.create_task(server.serve_forever())
    await asyncio.sleep(1)
    server.close()
    closed = loop.create_task(server.wait_closed())
    await asyncio.sleep(60)
    assert not closed.done()
    assert not client.lost
    transport.close()
    await closed
    with pytest.raises(asyncio.CancelledError):
        await serving
