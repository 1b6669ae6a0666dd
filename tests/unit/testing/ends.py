"""Protocols that remember what they were told, for tests of connections."""

from __future__ import annotations

import asyncio

from kclient.testing import Network
from kclient.testing.transport import MemoryTransport

SERVER = ("kafka-1", 9092)


class Recorder(asyncio.Protocol):
    """Keeps everything. `keeps_open` after the other end has said all."""

    transport: MemoryTransport

    def __init__(self, keeps_open: bool = False) -> None:
        self.pieces: list[bytes] = []
        self.events: list[str] = []
        self.error: Exception | None = None
        self._keeps_open = keeps_open
        self._next: asyncio.Future[float] | None = None

    async def arrival(self) -> float:
        """Waits for the next bytes and gives the time at which they come."""
        self._next = asyncio.get_running_loop().create_future()
        return await self._next

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def lost(self) -> bool:
        return "lost" in self.events

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if self._next is not None and not self._next.done():
            self._next.set_result(asyncio.get_running_loop().time())

    def eof_received(self) -> bool:
        self.events.append("end")
        return self._keeps_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.error = exc


async def pair(network: Network, keeps_open: bool = False) -> tuple[Recorder, Recorder]:
    """Two ends of one connection: of who connected, and of who listened at SERVER."""
    servers: list[Recorder] = []

    def accept() -> Recorder:
        servers.append(Recorder(keeps_open))
        return servers[-1]

    network.listen(SERVER, accept)
    transport = await network.connect(lambda: Recorder(keeps_open), SERVER)
    client = transport.get_protocol()
    assert isinstance(client, Recorder)
    return client, servers[0]
