"""Whom an application has told of rebalances, and how the group calls it.

A listener is any object with some of the methods of `ConsumerRebalanceListener`, each a function or a
coroutine function.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from kclient.errors import KafkaError
from kclient.types import TopicPartition
from kclient.usercode import call, failure, let_out

log: logging.Logger = logging.getLogger(__name__)

REVOKED, ASSIGNED, LOST = "on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"


class _Telling:
    """A call of a listener: whether it is being made."""

    under_way = True


_telling: ContextVar[_Telling | None] = ContextVar("telling", default=None)


def in_listener() -> bool:
    """Whether a listener makes this call: the group waits for it, so it must not wait for the group."""
    telling = _telling.get()
    return telling is not None and telling.under_way


@contextmanager
def telling() -> Iterator[None]:
    """While a listener is called, in a task of its own."""
    mine = _Telling()
    token = _telling.set(mine)
    try:
        yield
    finally:
        mine.under_way = False
        _telling.reset(token)


class ConsumerRebalanceListener:
    """Told when partitions come and go; override what you need, with `def` or `async def`.

    The group waits for each call, and heartbeats go on meanwhile. What it takes too long for
    (`rebalance_timeout_ms`, or `max_poll_interval_ms` without a call for records) is taken for lost. Of
    partitions that have come it is told once that they have gone: they were revoked, or else lost.
    """

    def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> object:
        """These go to others now. Nothing of them is handed out any more; their offsets can be committed."""

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> object:
        """These were added. Nothing of them has been handed out yet: the place for a `seek`."""

    def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> object:
        """These are gone and others may read them already: commits will fail. By default as if revoked."""
        return self.on_partitions_revoked(lost)


class Carried:
    """A listener that stands for one on another thread, which makes its calls when it comes by."""

    def call_off(self) -> bool:
        """Whether the call that waits has not begun: then it is not made any more."""
        raise NotImplementedError


class Heard(Enum):
    """What became of a call."""

    DONE = "it was made"
    BEGUN = "it is being made, and was not waited for"
    NOT = "it was not made"


class Announcer:
    """Calls the listener of one member, for one thing at a time. What that raises is given to `show`."""

    def __init__(self, show: Callable[[KafkaError], None]) -> None:
        self._show = show
        self._call: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def look(self) -> None:
        """Something has happened that may end the waiting."""
        self._news.set()

    async def tell(
        self,
        listener: object | None,
        method: str,
        partitions: Collection[TopicPartition],
        unless: Callable[[], bool] = lambda: False,
    ) -> Heard:
        """Call a listener and wait for it, at most until `unless` is true.

        The thread that a call is carried to may hang, or may be busy for hours. What it has begun is left to
        go on: half a listener would help nobody. What it has not begun, it will not hear.
        """
        if not await self.done(unless) or unless():
            return Heard.NOT
        if listener is None:
            return Heard.DONE
        telling = _tell(listener, method, partitions, self._show)
        self._call = asyncio.get_running_loop().create_task(telling, name=f"kclient tells {method}")
        self._call.add_done_callback(lambda _: self.look())
        await asyncio.sleep(0)  # now it is on its way
        if await self.done(unless):
            return Heard.DONE
        if isinstance(listener, Carried) and listener.call_off():
            self.end()
            return Heard.NOT
        return Heard.BEGUN

    async def done(self, unless: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the call that was begun, if there is one; False if `unless` becomes true before."""
        try:
            while self._call is not None and not self._call.done():
                if unless():
                    return False
                self._news.clear()
                await self._news.wait()
        except asyncio.CancelledError:
            ended = self.end()
            if ended:
                await asyncio.wait(ended)  # no longer than `usercode.call` lets it
            raise
        self._call = None
        return True

    def end(self) -> list[asyncio.Task[None]]:
        """Cancel the call that was begun; returns what can be waited for."""
        call, self._call = self._call, None
        if call is None:
            return []
        call.cancel()
        return [call]


async def _tell(
    listener: object, method: str, partitions: Collection[TopicPartition], show: Callable[[KafkaError], None]
) -> None:
    called, error = _find(listener, method)
    if called is not None:
        with telling():
            _, error = await call(called, frozenset(partitions))
    if error is None:
        return
    written, _ = _find(getattr(listener, "__wrapped__", listener), method)
    log.warning("the rebalance listener's %s failed", method, exc_info=error)
    show(failure("the rebalance listener's", written or type(listener), error))


def _find(listener: object, method: str) -> tuple[Callable[..., object] | None, BaseException | None]:
    """What is to be called, None for nothing; what looking for it raises is the application's error, too."""
    try:
        found = getattr(listener, method, None)
        if found is None and method == LOST:
            found = getattr(listener, REVOKED, None)
    except BaseException as error:  # noqa: BLE001 - returned
        let_out(error)
        return None, error
    return found, None
