"""Calls of a broker from other threads and event loops than its own: done on its loop, and waited for.

Tests that block have their broker on a thread of its own (`kclient.testing.RunningBroker`); what changes its
state must not run beside its requests. `Broker` marks its methods with these two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OnALoop(Protocol):
    """What runs on an event loop; `loop` is None while it does not."""

    loop: asyncio.AbstractEventLoop | None


S = TypeVar("S", bound=OnALoop)


def from_any_thread(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Have callers on other threads wait until the method was run on the broker's."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        loop = self.loop
        if loop is None or not loop.is_running() or _running() is loop:
            return method(self, *args, **options)

        async def there() -> T:
            return method(self, *args, **options)

        return asyncio.run_coroutine_threadsafe(there(), loop).result()

    return call


def from_any_loop(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Have coroutines that another loop awaits run on the broker's."""

    @wraps(method)
    async def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        loop = self.loop
        if loop is None or _running() is loop:
            return await method(self, *args, **options)
        there = asyncio.run_coroutine_threadsafe(method(self, *args, **options), loop)
        return await asyncio.wrap_future(there)

    return call


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
