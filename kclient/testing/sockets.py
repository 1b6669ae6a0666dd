"""Sockets as libraries see them in a simulation: what a transport has, and what happy eyeballs connects.

Connections in memory have none. Some libraries look at the socket of a transport (anyio and httpx for its
addresses, and whether it is readable), others connect one themselves and hand it to the loop (aiohttp). No
byte passes here.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

from kclient.testing.errors import UnsupportedError

if TYPE_CHECKING:
    from kclient.testing.network import Network
    from kclient.testing.paths import Address
    from kclient.testing.transport import MemoryTransport


class MemorySocket:
    """The `socket` of a connection in memory, in place of `asyncio.trsock.TransportSocket`.

    It has a descriptor from the first time it is asked for: readable once the other end sends nothing more.
    """

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto: int = socket.IPPROTO_TCP

    def __init__(self, own: Address, peer: Address) -> None:
        self._own = own
        self._peer = peer
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._at_end = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemorySocket {self._own[0]}:{self._own[1]} to {self._peer[0]}:{self._peer[1]}>"

    def getsockname(self) -> Address:
        return self._own

    def getpeername(self) -> Address:
        return self._peer

    def getsockopt(self, *_: Any) -> int:
        return 0

    def setsockopt(self, *_: Any) -> None:
        """Options are taken and have no meaning."""

    def gettimeout(self) -> float:
        return 0.0

    def fileno(self) -> int:
        if self._closed:
            return -1
        if self._pair is None:
            self._pair = socket.socketpair()
            if self._at_end:
                self._pair[1].close()
        return self._pair[0].fileno()

    def no_more(self) -> None:
        """The other end sends nothing any more: who polls the descriptor sees it readable."""
        self._at_end = True
        if self._pair is not None:
            self._pair[1].close()

    def close(self) -> None:
        self._closed = True
        for end in self._pair or ():
            end.close()


class ConnectedSockets:
    """Sockets that `loop.sock_connect` has connected and `create_connection` has not taken yet."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._transports: dict[socket.socket, MemoryTransport] = {}

    async def connect(self, sock: socket.socket, address: Address) -> None:
        """Connect in memory in place of a socket, which stays as it is."""
        for closed in [each for each in self._transports if each.fileno() < 0]:
            self._transports.pop(closed).abort()
        self._transports[sock] = await self._network.connect(_Waiting, address)

    def adopt(self, sock: socket.socket, protocol: asyncio.BaseProtocol) -> MemoryTransport:
        """The connection of such a socket, for the protocol that it is meant for."""
        transport = self._transports.pop(sock, None)
        if transport is None:
            raise UnsupportedError(
                f"a simulation has no sockets, and its loop did not connect {sock!r}: give a host and a port"
            )
        sock.close()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
        return transport


class _Waiting(asyncio.Protocol):
    """Holds a connection, and back what arrives, until its protocol is known."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).pause_reading()
