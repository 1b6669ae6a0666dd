"""An event loop on virtual time with a network in memory: tests of hours take milliseconds and never sleep.

Time stands still while anything is ready to run and then jumps to the next timer; where nothing is scheduled
either, everything waits for something that cannot come, and the loop says so instead of hanging. Connections
are pairs of transports with a seeded latency; a host can be made silent (its packets wait until it is healed,
as after a network partition or SIGSTOP), and whoever listens decides what happens to a connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

Address: TypeAlias = tuple[str, int]

HIGH_WATER = 64 * 1024
# Timers for the same moment run in no particular order, so no two packets of a connection arrive in one.
_APART = 1e-6


class DeadlockError(RuntimeError):
    """Nothing can run any more: every task waits, and no timer and no packet is under way."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks as asyncio does, but owns its clock and its network."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = self  # BaseEventLoop asks it how long to sleep
        self._clock_resolution = 1e-9
        self.network = Network(self, Random(seed))

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Instead of sleeping, be later."""
        if timeout is None:
            raise DeadlockError("every task waits and no timer or packet is under way")
        self._now += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing needs to be woken."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        return self.network.resolve(host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self.network.connect(protocol_factory, (host, port))


async def until(condition: Callable[[], bool], within: float = 600.0) -> None:
    """Let virtual time pass until something is the case."""
    for _ in range(int(within / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not come about within {within:g} s")


class Network:
    """Who listens where, what names resolve to, and whose packets get through.

    `open` are the client's ends of connections that have not been let go, `dialled` every attempt to connect.
    """

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.latency = (0.0005, 0.002)
        self.names: dict[str, list[str]] = {}
        self.open: set[MemoryTransport] = set()
        self.dialled: list[Address] = []
        self._loop = loop
        self._random = random
        self._listeners: dict[Address, Callable[[], asyncio.Protocol]] = {}
        self._silent: set[Address] = set()
        self._held: defaultdict[Address, list[Callable[[], object]]] = defaultdict(list)

    def listen(self, address: Address, accept: Callable[[], asyncio.Protocol]) -> None:
        self._listeners[address] = accept

    def stop_listening(self, address: Address) -> None:
        """From now on connections to the address are refused."""
        self._listeners.pop(address, None)

    def silence(self, address: Address) -> None:
        """Hold back every packet to and from an address; new connections hang too."""
        self._silent.add(address)

    def heal(self, address: Address) -> None:
        """Let the packets through that were held back, and all that follow."""
        self._silent.discard(address)
        for send in self._held.pop(address, []):
            send()

    def resolve(self, host: str, port: int) -> list[Any]:
        host.encode("idna")  # the real one raises UnicodeError for names that cannot be asked for
        addresses = self.names.get(host, [host])
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port % 65536)) for address in addresses]

    async def connect(self, make_protocol: Callable[[], asyncio.BaseProtocol], address: Address) -> Any:
        self.dialled.append(address)
        reached: asyncio.Future[None] = self._loop.create_future()
        self.send(address, partial(_wake, reached))
        await reached
        accept = self._listeners.get(address)
        if accept is None:
            raise ConnectionRefusedError(111, "Connection refused")
        client = MemoryTransport(self, make_protocol(), address)
        server = MemoryTransport(self, accept(), address)
        client.peer, server.peer = server, client
        self.open.add(client)
        server.protocol.connection_made(server)
        client.protocol.connection_made(client)
        return client, client.protocol

    def send(self, address: Address, arrive: Callable[[], None], after: float = 0.0) -> float:
        """Have a packet from or to `address` arrive, later than `after`; returns when."""
        if address in self._silent:
            self._held[address].append(partial(self.send, address, arrive, after))
            return after
        at = max(after + _APART, self._loop.time() + self._random.uniform(*self.latency))
        self._loop.call_at(at, arrive)
        return at

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def report(self, error: Exception) -> None:
        """A protocol raised: asyncio's own transports tell the loop and end the connection."""
        self._loop.call_exception_handler({"message": "a protocol failed", "exception": error})


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    peer: MemoryTransport

    def __init__(self, network: Network, protocol: asyncio.BaseProtocol, address: Address) -> None:
        super().__init__()
        self.protocol = protocol
        self._network = network
        self._address = address
        self._last_arrival = 0.0
        self._unread = 0  # bytes that the other end has not taken yet
        self._inbox: list[bytes] = []
        self._reading = True
        self._closing = False
        self._gone = False

    def __repr__(self) -> str:
        return f"<MemoryTransport {self._address} {'closing' if self._closing else 'open'}>"

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        full = self._unread > HIGH_WATER
        self._unread += len(data)
        if self._unread > HIGH_WATER and not full:
            self.protocol.pause_writing()
        self._send(partial(self.peer._receive, bytes(data)))

    def close(self) -> None:
        """End in good order: the other end reads everything, then the end of the stream."""
        self._end(self.peer._receive_end)

    def abort(self) -> None:
        self._end(partial(self.peer._lose, ConnectionResetError(104, "Connection reset by peer")))

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._address if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        waiting, self._inbox = self._inbox, []
        for data in waiting:
            self._receive(data)

    def _send(self, arrive: Callable[[], None]) -> None:
        self._last_arrival = self._network.send(self._address, arrive, self._last_arrival)

    def _end(self, told: Callable[[], None]) -> None:
        if not self._closing:
            self._closing = True
            self._send(told)
            self._network.soon(partial(self._lose, None))

    def _receive(self, data: bytes) -> None:
        if self._closing:
            return
        if not self._reading:
            self._inbox.append(data)
            return
        self.peer._taken(len(data))
        try:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._feed(self.protocol, data)
            elif isinstance(self.protocol, asyncio.Protocol):
                self.protocol.data_received(data)
        except Exception as error:  # noqa: BLE001 - as asyncio does
            self._network.report(error)
            self.abort()

    def _feed(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        while data and not self._closing:
            buffer: Any = protocol.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            protocol.buffer_updated(count)
            data = data[count:]

    def _taken(self, count: int) -> None:
        full = self._unread > HIGH_WATER
        self._unread -= count
        if full and self._unread <= HIGH_WATER and not self._closing:
            self.protocol.resume_writing()

    def _receive_end(self) -> None:
        protocol = self.protocol
        if self._closing:
            return
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        if not protocol.eof_received():
            self.close()

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        if not self._gone:
            self._gone = True
            self._network.open.discard(self)
            self.protocol.connection_lost(error)
