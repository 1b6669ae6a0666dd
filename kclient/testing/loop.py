"""An event loop on virtual time with a network in memory: hours take milliseconds, and nothing sleeps.

Time stands still while anything is ready to run and then jumps to the next timer; where nothing is scheduled
either, everything waits for something that cannot come, and the loop says so instead of hanging. There are no
threads and no sockets. Everything has an order that does not depend on addresses in memory, so that a seed
gives one history: timers of the same moment run in the order they were set, and sets of tasks and futures
iterate in the order of their creation.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import math
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context
from random import Random
from typing import Any, Final, NoReturn, TypeVar

from kclient.testing.errors import DeadlockError, EndlessLoopError, UnsupportedError
from kclient.testing.network import Network
from kclient.testing.refusals import refuse_the_rest
from kclient.testing.server import MemoryServer
from kclient.testing.sockets import ConnectedSockets
from kclient.testing.waiting import describe_tasks

T = TypeVar("T")

_COLLECT_EVERY = 20_000


class _Timer(asyncio.TimerHandle):
    """Of two timers for the same moment the one that was set first comes first."""

    __slots__ = ("_number",)

    def __init__(self, number: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._number = number

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        return (self._when, self._number) < (other._when, other._number)  # type: ignore[attr-defined]


class _Future(asyncio.Future[Any]):
    """Hashed by number, not by address."""

    def __init__(self, number: int, loop: VirtualLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """Hashed by number, not by address. The number comes first: creating a task puts it into a set."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number

    def set_name(self, value: object, /) -> None:
        if value is not None:  # Python 3.13.0 to 3.13.2 take the name of a nameless task away like this
            super().set_name(value)


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks as asyncio does, but owns its clock and its network.

    `max_iterations` bounds how often it goes round; None does not. With `collects_garbage` it does so itself
    at fixed points, for runs in which the interpreter's own collector is off.
    """

    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(
        self, seed: int = 0, *, max_iterations: int | None = None, collects_garbage: bool = False
    ) -> None:
        super().__init__()
        self.iterations: int = 0
        self.max_iterations = max_iterations
        self._collects_garbage = collects_garbage
        self._now = 0.0
        self._clock_resolution = math.ulp(0.0)
        self._selector = self  # BaseEventLoop asks it how long to sleep
        self._numbers = itertools.count()
        self.random: Final = Random(seed)  # noqa: S311 - a seed that gives the same numbers again is what it is for
        self.network: Final = Network(self, self.random)
        self._connected = ConnectedSockets(self.network)
        self.set_task_factory(self._make_task)

    def __repr__(self) -> str:
        return f"<VirtualLoop at {self._now:.6f} s, {self.iterations} iterations>"

    def time(self) -> float:
        return self._now

    def block(self, seconds: float) -> None:
        """Be later, as after work that keeps the loop from everything else: what is due has to wait."""
        self._now += seconds
        self.network.trace.jump(self._now)

    def select(self, timeout: float | None) -> list[Any]:
        """Instead of sleeping, be later. BaseEventLoop calls this once in every iteration."""
        self.iterations += 1
        if self.max_iterations is not None and self.iterations > self.max_iterations:
            raise EndlessLoopError(
                f"no end after {self.max_iterations} iterations of the loop, at {self._now:.6f} s of virtual "
                f"time: raise `max_iterations` if that is to be expected\n{describe_tasks(self)}"
            )
        if self._collects_garbage and self.iterations % _COLLECT_EVERY == 0:
            gc.collect()
        if timeout is None:
            raise DeadlockError(self._why_nothing_runs())
        if timeout > 0:
            self._now = max(self._now, self._scheduled[0].when())
            # Just enough for a timer of this very moment to be due, however large the number has become.
            self._clock_resolution = 2 * math.ulp(self._now)
            self.network.trace.jump(self._now)
        return []

    def pending_timers(self) -> list[asyncio.TimerHandle]:
        return [handle for handle in sorted(self._scheduled) if not handle.cancelled()]

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if when is None:
            raise TypeError("when cannot be None")
        self._check_closed()  # type: ignore[attr-defined]
        timer = _Timer(next(self._numbers), when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    # The network

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        return self.network.resolve(name or "localhost", int(port or 0))

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:  # noqa: ARG002
        return str(sockaddr[0]), str(sockaddr[1])

    async def create_connection(
        self,
        protocol_factory: Any,
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **_: Any,
    ) -> Any:
        """Try the addresses of a name in turn; options for sockets are taken and have no meaning."""
        _no_tls(ssl)
        if sock is not None:
            protocol = protocol_factory()
            return self._connected.adopt(sock, protocol), protocol
        failures: list[OSError] = []
        for found in await self.getaddrinfo(host, port):
            try:
                transport = await self.network.connect(protocol_factory, found[4])
            except OSError as error:
                failures.append(error)
            else:
                return transport, transport.get_protocol()
        if len(failures) == 1:
            raise failures[0]
        raise OSError(f"Multiple exceptions: {', '.join(map(str, failures))}")

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """For what connects a socket by itself and hands it to `create_connection`."""
        await self._connected.connect(sock, address[:2])

    async def create_server(  # noqa: PLR0913 - as asyncio has it
        self,
        protocol_factory: Any,
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        start_serving: bool = True,
        **_: Any,
    ) -> Any:
        """Listen on the current host, or under the names that are given; port 0 takes a free one."""
        _no_tls(ssl)
        _no_socket(sock)
        hosts: Iterable[str | None] = [host] if host is None or isinstance(host, str) else host
        number = port or self.network.free_port()
        addresses = list(dict.fromkeys(self.network.address(name or "", number) for name in hosts))
        server = MemoryServer(self.network, protocol_factory, addresses)
        if start_serving:
            server.listen()
        return server

    # What BaseEventLoop needs, and what there is not

    def run_in_executor(self, _: Any, func: Any, *__: Any) -> NoReturn:  # type: ignore[override]
        raise UnsupportedError(
            f"a simulation has no threads, so {func!r} cannot run in one (run_in_executor, to_thread): "
            "call it on the loop, or hide it behind something that the test replaces"
        )

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        **options: Any,
    ) -> asyncio.Task[T]:
        return _Task(next(self._numbers), coro, loop=loop, **options)

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing needs to be woken."""

    def _why_nothing_runs(self) -> str:
        held = self.network.held
        because = f", {held} connection(s) have bytes that a partition or pause holds back" if held else ""
        return (
            f"deadlock at {self._now:.6f} s of virtual time: every task waits and no timer or packet is "
            f"under way{because}\n{describe_tasks(self)}"
        )


refuse_the_rest(VirtualLoop)


def _no_tls(ssl: Any) -> None:
    if ssl is not None and ssl is not False:
        raise UnsupportedError("a simulation has no TLS: its bytes would differ in every run; use plain text")


def _no_socket(sock: Any) -> None:
    if sock is not None:
        raise UnsupportedError("a simulation has no sockets: give a host and a port")
