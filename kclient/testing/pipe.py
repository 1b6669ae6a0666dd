"""One direction of a connection: bytes and signals that arrive in order, each at its time.

A pipe is what a kernel and a network do between `send` on one machine and `recv` on the other. It keeps what
has arrived and is not read, so it is the sender's window as well; while its way is barred nothing arrives,
and once it is free again everything does, as TCP sends again what was lost. A connection has two of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.testing.network import Network
    from kclient.testing.paths import Address
    from kclient.testing.transport import MemoryTransport

# Time between two pieces of what has arrived, where bytes are cut: others get to run in between.
_BETWEEN_PIECES = 2e-5


class Pipe:
    """Bytes, and signals (functions to call on arrival), on their way from one address to another."""

    def __init__(self, network: Network, name: str, source: Address, target: Address) -> None:
        self.source = source
        self.target = target
        self.in_flight: int = 0
        self.receiver: MemoryTransport | None = None
        self.context: Context | None = None  # of the receiver: what it starts belongs to its host
        self.taken: Callable[[], None] | None = None  # tells the sender that there is room again
        self._network = network
        self._name = name
        self._queue: deque[tuple[float, bytes | Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._line_free = 0.0
        self._reading = True
        self._held = False

    def __repr__(self) -> str:
        state = "held" if self._held else "open" if self._reading else "not read"
        return f"<Pipe {self._name} {state}, {self.in_flight} bytes under way>"

    @property
    def moving(self) -> bool:
        """Whether something will arrive by itself."""
        return self._timer is not None

    @property
    def held(self) -> bool:
        return self._held

    def send(self, item: bytes | Callable[[], None]) -> None:
        """Put bytes or a signal on their way, behind all that went before."""
        network = self._network
        conditions = network.paths.conditions(self.source, self.target)
        leaves = network.time()
        if isinstance(item, bytes):
            self.in_flight += len(item)
            if conditions.bandwidth is not None:
                self._line_free = max(leaves, self._line_free) + len(item) / conditions.bandwidth
                leaves = self._line_free
        # What is drawn to be faster than what went before arrives together with it, as in TCP.
        self._queue.append((leaves + conditions.delay(network.random), item))
        self._arm()

    def send_end(self) -> None:
        """Nothing more comes: the receiver is told once it has all."""
        self.send(self._end)

    def send_reset(self) -> None:
        self.send(self._reset)

    def read(self, wanted: bool) -> None:
        """Whether the receiver takes what arrives, or leaves it here."""
        self._reading = wanted
        if not wanted:
            self._disarm()
        self._arm()

    def wake(self) -> None:
        """Ways have been cleared: if this one was barred, send again what was lost."""
        if not self._held or self._network.paths.barred(self.source, self.target):
            return
        self._held = False
        delay = self._network.paths.conditions(self.source, self.target).delay(self._network.random)
        _, item = self._queue.popleft()
        self._queue.appendleft((self._network.time() + delay, item))
        self._arm()

    def drop(self) -> None:
        """Forget all that is under way, for good."""
        self._disarm()
        self._queue.clear()
        self.in_flight = 0
        self._held = False

    def _end(self) -> None:
        if self.receiver is not None:
            self.receiver.take_end()

    def _reset(self) -> None:
        if self.receiver is not None:
            self.receiver.take_reset()

    def _arm(self) -> None:
        if self._timer is None and self._queue and self._reading and not self._held:
            self._timer = self._network.loop.call_at(self._queue[0][0], self._arrive, context=self.context)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arrive(self) -> None:
        self._timer = None
        if self._network.paths.barred(self.source, self.target):
            self._held = True
            return
        item = self._queue[0][1]
        if isinstance(item, bytes):
            self._deliver()
        else:
            self._queue.popleft()
            item()
        self._arm()

    def _deliver(self) -> None:
        network = self._network
        data = self._arrived()
        size = network.paths.conditions(self.source, self.target).piece(network.random, len(data))
        if size < len(data):
            pause = network.random.uniform(0, _BETWEEN_PIECES)
            self._queue.appendleft((network.time() + pause, data[size:]))
            data = data[:size]
        network.trace.event(f"{self._name} {len(data)} bytes", data)
        self.in_flight -= len(data)
        if self.taken is not None:  # on the sender's side, and after the receiver has dealt with them
            network.loop.call_soon(self.taken)
        if self.receiver is not None:
            self.receiver.take(data)

    def _arrived(self) -> bytes:
        """All bytes that are there by now, up to the next signal. The first are, or no timer had called."""
        queue, now = self._queue, max(self._network.time(), self._queue[0][0])
        data: list[bytes] = []
        while queue and queue[0][0] <= now and isinstance(queue[0][1], bytes):
            data.append(queue[0][1])
            queue.popleft()
        return b"".join(data)
