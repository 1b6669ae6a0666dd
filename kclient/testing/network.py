"""A network in memory, seeded: hosts, ports, names, latency, and everything that goes wrong between hosts.

`VirtualLoop` connects and listens here instead of on sockets. Code belongs to the host it was started on:

    with network.host("app-1"):
        task = asyncio.create_task(application())

and to 127.0.0.1 without that. What a server accepts runs on the host it listens on. A barred way is silent,
as a pulled cable is: nobody gets an error, bytes wait until the way is free again, and no kernel gives up on
them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kclient.testing.circuit import Circuit, Factory, Listener
from kclient.testing.paths import Address, Conditions, Latency, Paths, Place, covers
from kclient.testing.trace import Trace
from kclient.testing.transport import MemoryTransport

if TYPE_CHECKING:
    from kclient.testing.server import MemoryServer

WINDOW = 64 * 1024
_FIRST_PORT = 49152
_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})  # noqa: S104 - nothing is bound
_host: ContextVar[str] = ContextVar("kclient.testing host", default="127.0.0.1")


class Network:
    """Who listens where, what names resolve to, and what lies between hosts.

    `names` maps a name to its addresses and may change at any time: no address is a name that does not exist,
    one that is not in it resolves to itself. `dialled` has every attempt to connect. `window` is how many
    bytes are under way and unread in one direction of a connection before its sender has to wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.trace: Final = Trace(loop)
        self.paths: Final = Paths()
        self.names: dict[str, list[str]] = {}
        self.dialled: list[Address] = []
        self.window = WINDOW
        self._listeners: dict[Address, Listener] = {}
        self._refusing: dict[Place, None] = {}
        self._circuits: dict[Circuit, None] = {}
        self._connections = 0
        self._ports = _FIRST_PORT

    def __repr__(self) -> str:
        return f"<Network of {len(self._listeners)} listeners, {len(self.transports)} open ends>"

    def time(self) -> float:
        return self.loop.time()

    # What is there

    @property
    def open(self) -> list[MemoryTransport]:
        """The ends that connected and have not been let go."""
        return [circuit.client for circuit in self._circuits if circuit.client and not circuit.client.lost]

    @property
    def transports(self) -> list[MemoryTransport]:
        """All ends that have not been let go."""
        ends = (end for circuit in self._circuits for end in (circuit.client, circuit.server))
        return [end for end in ends if end is not None and not end.lost]

    @property
    def servers(self) -> list[MemoryServer]:
        """What `create_server` gave and nobody has closed."""
        return list(dict.fromkeys(one.server for one in self._listeners.values() if one.server is not None))

    @property
    def moving(self) -> bool:
        """Whether anything is on its way and will arrive."""
        return any(pipe.moving for circuit in self._circuits for pipe in (circuit.up, circuit.down))

    @property
    def held(self) -> int:
        """How many directions of connections have something to deliver and are barred."""
        return sum(pipe.held for circuit in self._circuits for pipe in (circuit.up, circuit.down))

    # Hosts and names

    @contextmanager
    def host(self, name: str) -> Iterator[None]:
        """What is started inside runs on a host of this name: it connects from there and listens there."""
        before = _host.set(name)
        try:
            yield
        finally:
            _host.reset(before)

    def resolve(self, host: str, port: int) -> list[Any]:
        """As `socket.getaddrinfo` answers."""
        host.encode("idna")  # the real one raises UnicodeError for names that cannot be asked for
        own = ["127.0.0.1"] if host == "localhost" else [host]
        addresses = self.names.get(host, own)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port % 65536)) for address in addresses]

    def address(self, host: str, port: int) -> Address:
        """An address as seen from the current host, whose own names all mean itself."""
        return (_host.get() if host in _THIS_HOST else host), port

    def free_port(self) -> int:
        self._ports += 1
        return self._ports

    # Conditions

    @property
    def latency(self) -> Latency:
        """The default for all paths, see `Conditions`."""
        return self.paths.default.latency

    @latency.setter
    def latency(self, latency: Latency) -> None:
        self.paths.default = replace(self.paths.default, latency=latency)

    def conditions(
        self, conditions: Conditions, source: Place | None = None, target: Place | None = None
    ) -> None:
        """Set what bytes meet from now on: everywhere, or from one place to another (one way)."""
        if source is None and target is None:
            self.paths.default = conditions
        else:
            self.paths.set(self._some(source), self._some(target), conditions)

    # Faults

    def pause(self, source: Place | None, target: Place | None) -> None:
        """Let nothing through from a place to another, one way; None is every place."""
        self.trace.event(f"pause {source} to {target}")
        self.paths.bar(self._some(source), self._some(target))

    def resume(self, source: Place | None, target: Place | None) -> None:
        """Undo `pause` of the same places."""
        self.trace.event(f"resume {source} to {target}")
        self.paths.clear(self._some(source), self._some(target))
        self._wake()

    def partition(self, one: Place, other: Place) -> None:
        """Let nothing through between two places; connections stay half open, new ones hang."""
        self.pause(one, other)
        self.pause(other, one)

    def silence(self, place: Place) -> None:
        """Let nothing through to and from a place."""
        self.pause(place, None)
        self.pause(None, place)

    def heal(self, one: Place | None = None, other: Place | None = None) -> None:
        """Undo `partition` of two places, `silence` of one, or with no place everything that is barred."""
        if one is None:
            self.trace.event("heal")
            self.paths.clear_all()
            self._wake()
        else:
            self.resume(one, other)
            self.resume(other, one)

    def refuse(self, place: Place) -> None:
        """Refuse new connections to a place, whoever listens there; those that are open stay."""
        self.trace.event(f"refuse {place}")
        self._refusing[self._place(place)] = None

    def admit(self, place: Place) -> None:
        """Undo `refuse`."""
        self.trace.event(f"admit {place}")
        self._refusing.pop(self._place(place), None)

    def reset(self, one: Place | None = None, other: Place | None = None) -> int:
        """Break the connections between two places, of one place, or all: both ends see it at once.

        Returns how many there were.
        """
        one, other = self._some(one), self._some(other)
        broken = [circuit for circuit in self._circuits if circuit.between(one, other)]
        for circuit in broken:
            circuit.reset()
        self.trace.event(f"reset {one} {other}: {len(broken)} connections")
        return len(broken)

    # What the loop and transports call

    def listen(self, address: Address, accept: Factory, server: MemoryServer | None = None) -> None:
        """Have a protocol of `accept` meet every connection to an address."""
        if address in self._listeners and server is not None:
            raise OSError(errno.EADDRINUSE, f"address already in use: {address}")
        context = copy_context()
        context.run(_host.set, address[0])
        self._listeners[address] = Listener(accept, context, server)

    def stop_listening(self, address: Address) -> None:
        """From now on connections to the address are refused."""
        self._listeners.pop(address, None)

    async def connect(self, factory: Factory, address: Address) -> MemoryTransport:
        """Connect from the current host: the first packet goes there, its answer makes the connection."""
        self.dialled.append(address)
        self._connections += 1
        source = (_host.get(), self.free_port())
        circuit = Circuit(self, self._connections, source, self.address(*address))
        self._circuits[circuit] = None
        return await circuit.open(factory)

    def listener(self, address: Address) -> Listener | None:
        """Who meets a connection to an address; None refuses it."""
        if any(covers(place, address) for place in self._refusing):
            return None
        return self._listeners.get(address)

    def forget(self, circuit: Circuit) -> None:
        self._circuits.pop(circuit, None)

    def _wake(self) -> None:
        for circuit in list(self._circuits):
            circuit.up.wake()
            circuit.down.wake()

    def _some(self, place: Place | None) -> Place | None:
        return None if place is None else self._place(place)

    def _place(self, place: Place) -> Place:
        """A place as addresses are kept, seen from the current host."""
        return self.address(place, 0)[0] if isinstance(place, str) else self.address(*place)
