"""A connection from its first packet to the loss of both ends: a pipe each way, and what ends there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kclient.testing.paths import Address, Place, covers
from kclient.testing.pipe import Pipe
from kclient.testing.transport import MemoryTransport

if TYPE_CHECKING:
    from kclient.testing.network import Network
    from kclient.testing.server import MemoryServer

Factory: TypeAlias = Callable[[], asyncio.BaseProtocol]


@dataclass(frozen=True)
class Listener:
    """Who accepts connections at an address, and in which context (so: on which host)."""

    accept: Factory
    context: Context
    server: MemoryServer | None


class Circuit:
    """`client` and `server` are None until the packets that make them have arrived."""

    def __init__(self, network: Network, number: int, source: Address, target: Address) -> None:
        self.client: MemoryTransport | None = None
        self.server: MemoryTransport | None = None
        self._network = network
        self._listener: Listener | None = None
        self._answer: asyncio.Future[MemoryTransport] = network.loop.create_future()
        self._name = f"#{number} {source[0]} {{}} {target[0]}:{target[1]}"
        self.up: Pipe = Pipe(network, self._name.format("->"), source, target)
        self.down: Pipe = Pipe(network, self._name.format("<-"), target, source)

    def __repr__(self) -> str:
        return f"<Circuit {self._name.format('-')}>"

    def between(self, one: Place | None, other: Place | None) -> bool:
        """Whether it joins two places; None is every place."""
        ends = self.up.source, self.up.target
        return any(covers(one, near) and covers(other, far) for near, far in (ends, ends[::-1]))

    async def open(self, factory: Factory) -> MemoryTransport:
        """Send the first packet and wait for its answer."""
        self.down.context = copy_context()
        self.up.send(partial(self._knock, factory))
        try:
            return await self._answer
        except asyncio.CancelledError:
            self._give_up()
            raise

    def reset(self) -> None:
        """Break it: both ends see that at once, and one that is not open yet is refused."""
        for pipe in (self.up, self.down):
            pipe.drop()
        for end in (self.client, self.server):
            if end is not None:
                end.take_reset()
        if self.client is None:
            self._fail(ConnectionResetError(104, "Connection reset by peer"))
        if self.server is None:
            self._forget()

    def ended(self, transport: MemoryTransport) -> None:
        """One of the ends has been let go."""
        self._network.trace.event(f"{self._name.format('-')} {transport!r}")
        if transport is self.server and self._listener is not None and self._listener.server is not None:
            self._listener.server.ended(transport)
        # A server may end before its answer has made the client; one whose client gave up has none.
        client_gone = self._answer.done() if self.client is None else self.client.lost
        if client_gone and (self.server is None or self.server.lost):
            self._forget()

    def _knock(self, factory: Factory) -> None:
        """The first packet has arrived where the server is, or is not."""
        listener = self._network.listener(self.up.target)
        if listener is None:
            self._network.trace.event(f"{self._name.format('->')} refused")
            self.down.send(self._refuse)
            return
        self._listener = listener
        self._network.trace.event(f"{self._name.format('->')} accepted")
        context = listener.context.copy()
        self.server = self._end(context.run(listener.accept), (self.down, self.up), context)
        if listener.server is not None:
            listener.server.accepted(self.server)
        self.down.send(partial(self._establish, factory))

    def _establish(self, factory: Factory) -> None:
        """The answer has arrived at the client: from here on there may be bytes behind it."""
        if self._answer.done():  # cancelled a moment ago: whoever waited wakes up next, and gives up
            return
        try:
            protocol = factory()
        except Exception as error:  # noqa: BLE001 - the caller of `create_connection` gets it
            self._fail(error)
            self._give_up()
            return
        self.client = self._end(protocol, (self.up, self.down), self.down.context)
        self._answer.set_result(self.client)

    def _end(
        self, protocol: asyncio.BaseProtocol, pipes: tuple[Pipe, Pipe], context: Context | None
    ) -> MemoryTransport:
        end = MemoryTransport(self._network, protocol, pipes, self.ended, context)
        self._network.loop.call_soon(end.begin, context=context)
        return end

    def _refuse(self) -> None:
        self._forget()
        self._fail(ConnectionRefusedError(111, "Connection refused"))

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)

    def _give_up(self) -> None:
        """The client wants the connection no more, open or not."""
        if self.client is not None:
            self.client.abort()
        elif self.server is not None:
            self.down.drop()
            self.up.send_reset()
        else:
            self._forget()

    def _forget(self) -> None:
        self.up.drop()
        self.down.drop()
        self._network.forget(self)
