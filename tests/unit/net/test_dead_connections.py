"""What a connection holds in memory: little before the broker is known, nothing once it is closed."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from kclient.clock import Deadline
from kclient.config import Endpoint
from kclient.errors import ConfigurationError, KafkaError
from kclient.net import dial as dialling
from kclient.net.connection import Connection
from kclient.net.dial import dial
from kclient.net.sasl import Plain
from kclient.types import Secret
from kclient.wire.api import ApiKey
from kclient.wire.frame import decode_request_header, encode_response
from kclient.wire.messages.connection import ApiVersionsResponse
from kclient.wire.messages.metadata import FindCoordinatorResponse
from tests.support import faults
from tests.support.connecting import ask, connect, settings
from tests.support.fake_broker import Exchange, FakeCluster, FakeSasl
from tests.support.virtual_loop import VirtualLoop

Brokers = Callable[..., FakeCluster]
PATIENCE = 60
HERE = Endpoint("broker-1", 9092)
MEGABYTE = 1 << 20
LARGEST = 64 * MEGABYTE
INTRODUCTION = ApiVersionsResponse(
    api_keys=[
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=4)
        for key in (ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS)
    ]
)


class Stranger(asyncio.Protocol):
    """A server that says which versions it knows `introductions` times, and then `says` what it likes."""

    def __init__(self, says: bytes, introductions: int = 0) -> None:
        self._says = says
        self._introductions = introductions
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By contract it writes; uvloop's does, and is no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._introductions:
            self._introductions -= 1
            header = decode_request_header(data[4:])
            self._transport.write(encode_response(INTRODUCTION, header.version, header.correlation_id))
            return
        self._transport.write(self._says)
        if not self._says:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        self.gone.set()

    async def end(self) -> None:
        self._transport.abort()
        await self.gone.wait()


class Silent(Stranger):
    """A server that never answers."""

    def __init__(self) -> None:
        super().__init__(b"")

    def data_received(self, _data: bytes) -> None:
        pass


@asynccontextmanager
async def serving(make: Callable[[], Stranger]) -> AsyncIterator[int]:
    """The port on which strangers answer."""
    strangers: list[Stranger] = []

    def one_more() -> Stranger:
        strangers.append(make())
        return strangers[-1]

    async with await asyncio.get_running_loop().create_server(one_more, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for stranger in strangers:
            await stranger.end()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Connection]]]:
    """Every connection that is made, while no garbage is collected."""
    connections: list[weakref.ref[Connection]] = []

    class Watched(Connection):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            connections.append(weakref.ref(self))

    monkeypatch.setattr(dialling, "Connection", Watched)
    gc.collect()
    gc.disable()
    yield connections
    gc.enable()


async def lose(port: int, setup_timeout: float) -> None:
    """Connect and ask something, which must fail."""
    loop = asyncio.get_running_loop()
    patience = settings(max_frame=LARGEST, setup_timeout=setup_timeout)
    try:
        connection = await dial(Endpoint("127.0.0.1", port), patience, Deadline.after(loop, PATIENCE))
        await connection.call(ask("a"), Deadline.after(loop, PATIENCE))
    except KafkaError:
        return
    pytest.fail("this should not have come about")


async def gone(connections: list[weakref.ref[Connection]]) -> None:
    async with asyncio.timeout(PATIENCE):  # a loop lets go of a socket a few turns later
        while any(connection() for connection in connections):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)


@pytest.mark.uvloop
@pytest.mark.parametrize("introductions", [0, 1], ids=["while connecting", "in use"])
@pytest.mark.parametrize(
    "says",
    [b"", bytes(400), (900_000).to_bytes(4) + bytes(900_000), (2**30).to_bytes(4), b"SSH-2.0-"],
    ids=["hangs up", "zeros", "a large answer", "a huge announcement", "another protocol"],
)
def test_a_connection_that_is_lost_does_not_wait_for_the_garbage_collector(
    made: list[weakref.ref[Connection]], says: bytes, introductions: int
) -> None:
    async def main() -> None:
        async with serving(lambda: Stranger(says, introductions)) as port:
            for _ in range(3):
                await lose(port, PATIENCE)
            await gone(made)

    asyncio.run(main())
    assert len(made) == 3


@pytest.mark.uvloop
def test_a_connection_to_a_silent_server_does_not_wait_for_the_garbage_collector(
    made: list[weakref.ref[Connection]],
) -> None:
    async def main() -> None:
        async with serving(Silent) as port:
            await lose(port, 0.01)
            await gone(made)

    asyncio.run(main())
    assert len(made) == 1


async def failed(loop: VirtualLoop, **changes: Any) -> type[KafkaError]:
    try:
        await dial(HERE, settings(max_frame=LARGEST, **changes), Deadline.after(loop, 60))
    except KafkaError as error:
        return type(error)
    pytest.fail("this should not have come about")


@pytest.mark.parametrize("key", [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
async def test_an_answer_of_megabytes_is_refused_until_the_connection_is_ready(
    loop: VirtualLoop, brokers: Brokers, key: ApiKey
) -> None:
    cluster = brokers(sasl=FakeSasl(users={"alice": "wonderland"}))
    cluster[1].plan(key, faults.announces(MEGABYTE + 1))
    await failed(loop, protocol="SASL_PLAINTEXT", sasl=Plain("alice", Secret("wonderland")))
    assert loop.time() < 1


async def test_a_first_answer_of_megabytes_is_called_no_kafka(loop: VirtualLoop) -> None:
    loop.network.listen(HERE, lambda: Stranger((20 * MEGABYTE).to_bytes(4) + bytes(100)))
    assert await failed(loop) is ConfigurationError
    assert loop.time() < 1


async def test_a_ready_connection_takes_answers_up_to_the_limit_of_the_client(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    def large(exchange: Exchange) -> None:
        response = exchange.response()
        assert isinstance(response, FindCoordinatorResponse)
        response.coordinators *= 100_000
        exchange.reply(response)

    cluster = brokers()
    connection = await connect(loop, cluster[1], max_frame=LARGEST)
    cluster[1].plan(ApiKey.FIND_COORDINATOR, large)
    answer = await connection.call(ask("a"), Deadline.after(loop, 60))
    assert len(answer.coordinators) == 100_000
    connection.close()
    await connection.wait_closed()


async def test_a_closed_connection_lets_its_buffer_go_even_while_its_error_is_kept(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1], max_frame=LARGEST)
    cluster[1].plan(ApiKey.FIND_COORDINATOR, faults.sends((32 * MEGABYTE).to_bytes(4) + bytes(32 * MEGABYTE)))
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError) as kept:
            await connection.call(ask("a"), Deadline.after(loop, 60))
        await connection.wait_closed()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "answered request 0" in str(kept.value)
    assert most > 32 * MEGABYTE, "or there was no buffer to let go"
    assert held < 4 * MEGABYTE
