"""Rebalance listeners where the client works on another thread than the application.

The group calls a listener on the client's loop. An application expects to be called on its own: there it
may use its objects, and call the consumer. So the call is carried over: to the application's event loop, or
to its thread, which runs it when it next asks for records, as Java's consumer does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from kclient.consumer.group.listeners import Carried, telling
from kclient.types import TopicPartition
from kclient.usercode import described

Partitions = frozenset[TopicPartition]
Carry = Callable[[Callable[[], object]], Awaitable[None]]


class _Once:
    """A call that one thread may begin and another may call off: one of the two comes first."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = [call]  # `pop` gives it to one of the two

    def __call__(self) -> object:
        try:
            call = self._call.pop()
        except IndexError:
            return None
        return call()

    def call_off(self) -> bool:
        """Whether it had not begun."""
        try:
            self._call.pop()
        except IndexError:
            return False
        return True


class CarriedListener(Carried):
    """Stands for an application's listener on the client's loop."""

    def __init__(self, listener: object, carry: Carry) -> None:
        self.__wrapped__ = listener
        self._carry = carry
        self._call: _Once | None = None  # the last one

    def on_partitions_revoked(self, revoked: Partitions) -> object:
        return self._tell(("on_partitions_revoked",), revoked)

    def on_partitions_assigned(self, assigned: Partitions) -> object:
        return self._tell(("on_partitions_assigned",), assigned)

    def on_partitions_lost(self, lost: Partitions) -> object:
        return self._tell(("on_partitions_lost", "on_partitions_revoked"), lost)

    def call_off(self) -> bool:
        return self._call is not None and self._call.call_off()

    def _tell(self, methods: tuple[str, ...], partitions: Partitions) -> object:
        found = (getattr(self.__wrapped__, method, None) for method in methods)
        called = next((method for method in found if method is not None), None)
        if called is None:
            return None
        self._call = _Once(lambda: called(partitions))
        return self._carry(self._call)


def to_loop(loop: asyncio.AbstractEventLoop) -> Carry:
    """Carries calls to an application's event loop."""

    async def run(call: Callable[[], object]) -> None:
        with telling():
            said = call()
            if inspect.isawaitable(said):
                await said

    return lambda call: asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(call), loop))


class Errand:
    """One call that waits for the application's thread, and who on the client's loop waits for its end.

    No `concurrent.futures.Future`, whose lock a Ctrl-C may leave taken.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.begun = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()

    def ended(self, error: BaseException | None) -> None:
        """Tell those who wait; from any thread, and more than once if need be."""
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(self._end, error)

    def _end(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(_for_future(error))


class Errands:
    """Calls that wait for the application's thread to come by."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._waiting: deque[Errand] = deque()
        self.running: bool = False  # on the thread that may ask for records

    def carry(self, call: Callable[[], object]) -> Awaitable[None]:
        """Have a call made; on the client's loop."""
        errand = Errand(call)
        self._waiting.append(errand)
        self._ring()
        return errand.done

    def run(self) -> None:
        """Make the calls, on the thread that this is called on.

        One is taken off only when its end was told, so that none is lost to Ctrl-C.
        """
        while True:
            try:
                errand = self._waiting[0]
            except IndexError:
                return
            if errand.begun:
                if self.running:  # a listener that asks for records, or another thread that closes
                    return
                errand.ended(RuntimeError("interrupted"))
            elif not errand.done.done():  # else the group has stopped waiting
                errand.begun = True
                self.running = True
                try:
                    self._make(errand)
                finally:
                    self.running = False
            with suppress(ValueError):  # another thread, which closes, may have come by
                self._waiting.remove(errand)

    def _make(self, errand: Errand) -> None:
        try:
            said = errand.call()
            if inspect.isawaitable(said):
                asyncio.run(_awaited(said))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the group tells the application of it
            errand.ended(error)
        except BaseException as error:  # Ctrl-C ends the call, but the group must not wait on for ever
            errand.ended(RuntimeError(f"interrupted by {described(error)}"))
            raise
        else:
            errand.ended(None)


async def _awaited(said: Any) -> None:
    await said


def _for_future(error: BaseException) -> BaseException:
    """An error as a future takes it: a `StopIteration` would end the coroutine that awaits it."""
    if not isinstance(error, StopIteration):
        return error
    explained = RuntimeError(f"it raised {described(error)}")
    explained.__cause__ = error
    return explained
