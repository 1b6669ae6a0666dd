"""Rebalance listeners where the client works on another thread than the application.

The group calls a listener on the client's loop. An application expects to be called on its own: there it
may use its objects, and call the consumer. So the call is carried over: to the application's event loop, or
to its thread, which runs it when it next asks for records, as Java's consumer does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kclient.types import TopicPartition

Partitions = frozenset[TopicPartition]
Carry = Callable[[Callable[[], object]], "Future[None]"]


class CarriedListener:
    """Stands for an application's listener on the client's loop."""

    def __init__(self, listener: object, carry: Carry) -> None:
        self.__wrapped__ = listener
        self._carry = carry

    async def on_partitions_revoked(self, revoked: Partitions) -> None:
        await self._tell(("on_partitions_revoked",), revoked)

    async def on_partitions_assigned(self, assigned: Partitions) -> None:
        await self._tell(("on_partitions_assigned",), assigned)

    async def on_partitions_lost(self, lost: Partitions) -> None:
        await self._tell(("on_partitions_lost", "on_partitions_revoked"), lost)

    async def _tell(self, methods: tuple[str, ...], partitions: Partitions) -> None:
        found = (getattr(self.__wrapped__, method, None) for method in methods)
        called = next((method for method in found if method is not None), None)
        if called is not None:
            await asyncio.wrap_future(self._carry(lambda: called(partitions)))


def to_loop(loop: asyncio.AbstractEventLoop) -> Carry:
    """Carries calls to an application's event loop."""

    async def run(call: Callable[[], object]) -> None:
        said = call()
        if inspect.isawaitable(said):
            await said

    return lambda call: asyncio.run_coroutine_threadsafe(run(call), loop)


class Errands:
    """Calls that wait for the application's thread to come by."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._waiting: deque[tuple[Callable[[], object], Future[None]]] = deque()

    def carry(self, call: Callable[[], object]) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.append((call, done))
        self._ring()
        return done

    def run(self) -> None:
        """Make the calls, on the thread that this is called on."""
        while True:
            try:
                call, done = self._waiting.popleft()
            except IndexError:  # another thread, which closes, may have come by
                return
            if done.set_running_or_notify_cancel():
                _make(call, done)


def _make(call: Callable[[], Any], done: Future[None]) -> None:
    try:
        said = call()
        if inspect.isawaitable(said):
            asyncio.run(_awaited(said))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the group tells the application of it
        done.set_exception(error)
    except BaseException as error:  # Ctrl-C ends the call, but the group must not wait on for ever
        done.set_exception(RuntimeError(f"interrupted by {error!r}"))
        raise
    else:
        done.set_result(None)


async def _awaited(said: Any) -> None:
    await said
