"""What `create_server` gives: listening addresses and the connections that were accepted there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.testing.network import Network
    from kclient.testing.paths import Address
    from kclient.testing.transport import MemoryTransport


class ListeningSocket:
    """As much of a socket as is asked of `Server.sockets`."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto: int = socket.IPPROTO_TCP

    def __init__(self, address: Address) -> None:
        self._address = address

    def __repr__(self) -> str:
        return f"<ListeningSocket {self._address[0]}:{self._address[1]}>"

    def getsockname(self) -> Address:
        return self._address

    def fileno(self) -> int:
        return -1


class MemoryServer(asyncio.AbstractServer):
    """Behaves as `asyncio.Server` does from Python 3.12 on: `wait_closed` waits for its connections too."""

    def __init__(
        self, network: Network, factory: Callable[[], asyncio.BaseProtocol], addresses: list[Address]
    ) -> None:
        self._network = network
        self._factory = factory
        self._addresses = addresses
        self._listening = False
        self._closed = False
        self._accepted: list[MemoryTransport] = []
        self._ended: list[asyncio.Future[None]] = []
        self._serving: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{host}:{port}" for host, port in self._addresses)
        return f"<MemoryServer {shown} {'closed' if self._closed else 'open'}>"

    @property
    def sockets(self) -> tuple[ListeningSocket, ...]:
        return () if self._closed else tuple(ListeningSocket(address) for address in self._addresses)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self._listening

    async def start_serving(self) -> None:
        self.listen()

    def listen(self) -> None:
        if not self._listening and not self._closed:
            self._listening = True
            for address in self._addresses:
                self._network.listen(address, self._factory, server=self)

    async def serve_forever(self) -> None:
        if self._closed or self._serving is not None:
            raise RuntimeError(f"{self!r} is closed or serves already")
        self.listen()
        self._serving = self._network.loop.create_future()
        try:
            await self._serving
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise
        finally:
            self._serving = None

    def close(self) -> None:
        """Accept no more connections; those that are open stay so."""
        if not self._closed:
            self._closed, self._listening = True, False
            for address in self._addresses:
                self._network.stop_listening(address)
            if self._serving is not None and not self._serving.done():
                self._serving.cancel()
            self._tell()

    async def wait_closed(self) -> None:
        if not self._closed or self._accepted:
            waiter = self._network.loop.create_future()
            self._ended.append(waiter)
            await waiter

    def close_clients(self) -> None:
        for transport in list(self._accepted):
            transport.close()

    def abort_clients(self) -> None:
        for transport in list(self._accepted):
            transport.abort()

    def accepted(self, transport: MemoryTransport) -> None:
        self._accepted.append(transport)

    def ended(self, transport: MemoryTransport) -> None:
        self._accepted.remove(transport)
        self._tell()

    def _tell(self) -> None:
        if self._closed and not self._accepted:
            for waiter in self._ended:
                if not waiter.done():
                    waiter.set_result(None)
            self._ended.clear()
