"""Calling what an application has given us: listeners, callbacks, hooks, partitioners, assignors, tokens.

Whatever such code raises is its own failure: it is reported, with the function's name, and what we were at
goes on.

- A `CancelledError` that it raises is an error as any other (a listener that cancels its workers and awaits
  them raises one). Only when our own task is being cancelled is it a cancellation of ours; `call` tells the
  two apart.
- `SystemExit` and `KeyboardInterrupt` are reported too, and then leave the event loop as they do from
  asyncio's own callbacks, in its next turn: what we are in the middle of is finished first. The loop threads
  of clients, where they would end nothing but the client, go on: see `runtime`.

What runs on the caller's own stack (a serializer in `send`, a deserializer in `getmany`) raises there, and
does not come here, but for a `CancelledError`, which would look like a cancellation of the caller.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn
from weakref import WeakSet

from kclient.errors import KafkaError

# Seconds that a coroutine which is cancelled with the task that called it has to clean up.
_GRACE = 0.1
# Loops that somebody's SystemExit is about to leave: of the thousand callbacks of a batch one is enough.
_leaving: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


async def call(function: Callable[..., object], *arguments: object) -> tuple[Any, BaseException | None]:
    """What a function of the application's answers, awaited where that is awaitable; or what it raised.

    Raises only the cancellation of the task that calls this.
    """
    try:
        said = function(*arguments)
    except BaseException as error:  # noqa: BLE001 - returned
        let_out(error)
        return None, error
    if not inspect.isawaitable(said):
        return said, None
    # In a task of its own, as only that tells its CancelledError from ours: how many cancellations a task has
    # counted is the application's to change (`uncancel`), and its coroutine may swallow ours.
    task = asyncio.get_running_loop().create_task(_awaited(said), name=f"kclient calls {name_of(function)}")
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task], timeout=_GRACE)
        raise
    try:
        return task.result(), None
    except BaseException as error:  # noqa: BLE001 - returned; SystemExit has left the loop already
        return None, error


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said


def let_out(error: BaseException) -> None:
    """Let `SystemExit` and `KeyboardInterrupt` leave the loop in its next turn; raise them without a loop."""
    if not isinstance(error, (SystemExit, KeyboardInterrupt)):
        return
    loop = asyncio._get_running_loop()
    if loop is None:
        raise error
    if loop not in _leaving:
        _leaving.add(loop)
        loop.call_soon(_leave, loop, error)


def _leave(loop: asyncio.AbstractEventLoop, error: BaseException) -> NoReturn:
    _leaving.discard(loop)
    raise error


def report(log: logging.Logger, what: str, function: object, error: BaseException) -> None:
    """Log what a callback raised, which nobody is waiting for; `SystemExit` leaves the loop after that."""
    log.error("%s %s failed: %s", what, name_of(function), described(error), exc_info=error)
    let_out(error)


def failure(what: str, function: object, error: BaseException) -> KafkaError:
    """What the application is told of its own function that raised `error`."""
    explained = KafkaError(f"{what} {name_of(function)} failed: {described(error)}")
    explained.__cause__ = error
    return explained


def name_of(function: object) -> str:
    """A function as its author knows it."""
    if isinstance(function, partial):
        return name_of(function.func)
    try:
        name = getattr(function, "__qualname__", None)
        if name is not None:
            return f"{getattr(function, '__module__', None)}.{name}"
    except (Exception, asyncio.CancelledError):  # noqa: BLE001, S110 - then it is shown as any object
        pass
    return described(function)


def described(thing: object) -> str:
    """What `repr` says of something that an application has made, or that it raises."""
    try:
        return repr(thing)
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - it has no other words for itself
        return f"<{type(thing).__qualname__} whose __repr__ raises>"
