"""The background tasks of one client: each has a name, is ended on purpose, and is missed if it ends
otherwise.

A task that ends by an exception, or because code that is not kclient's cancelled it, leaves a client that
waits for what never comes. So everything that works for a client for longer than a call is started here, and
what is missed is the client's `failure`: its health shows it, and its calls raise it.

Not here: what becomes of such a client. It may only be closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from copy import copy
from functools import partial
from typing import Any

from kclient.errors import KafkaError

log: logging.Logger = logging.getLogger(__name__)

Work = Coroutine[Any, Any, None]
Listener = Callable[[KafkaError], object]


class BackgroundTasks:
    """The tasks of one client, on its event loop; the loop itself would hold them weakly."""

    def __init__(self, client: str) -> None:
        self.failure: KafkaError | None = None
        self._client = client
        self._running: set[asyncio.Task[None]] = set()
        self._told: set[asyncio.Task[None]] = set()  # to end
        self._listeners: list[Listener] = []
        self._expected = False

    def __repr__(self) -> str:
        state = "well" if self.failure is None else "failed"
        return f"<BackgroundTasks of {self._client}: {len(self._running)} running, {state}>"

    def start(self, work: Work, name: str, *, returns: bool = False) -> asyncio.Task[None]:
        """Run it until `end`; `returns` says that it may come to its end by itself."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(partial(self._ended, returns))
        return task

    def end(self, task: asyncio.Task[None]) -> None:
        """Cancel a task that is not needed any more; does not wait."""
        if not task.done():
            self._told.add(task)
            task.cancel()

    def expect_end(self) -> None:
        """The client is closing: what ends from now on is not missed."""
        self._expected = True

    def when_failed(self, listener: Listener) -> None:
        """Have `listener` called, once, with the failure."""
        self._listeners.append(listener)

    def check(self) -> None:
        """Raise why the client does not work any more, if that is so."""
        if self.failure is not None:
            raise copy(self.failure)  # a traceback belongs to one caller

    def _ended(self, returns: bool, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        told = task in self._told
        self._told.discard(task)
        error = None if task.cancelled() else task.exception()
        told = told or self._expected
        if told or (returns and error is None and not task.cancelled()):
            if error is not None:
                log.error("%s: %s failed as it ended", self._client, task.get_name(), exc_info=error)
            return
        why = (
            "was cancelled by code that is not kclient's"
            if task.cancelled()
            else f"failed in a way that kclient does not know: {error!r}"
            if error is not None
            else "came to an end"
        )
        self._fail(
            KafkaError(
                f"{self._client} does not work any more: its background task {task.get_name()!r} {why}. "
                "Close this client and make another one"
            ),
            error,
        )

    def _fail(self, failure: KafkaError, cause: BaseException | None) -> None:
        failure.__cause__ = cause
        if self.failure is not None:  # of an application that cancels all tasks, the first one says it all
            log.debug("%s", failure, exc_info=cause)
            return
        if cause is None and _loop_ends():  # to whoever reads the log it would say what is not so
            log.debug("%s", failure)
        else:
            log.log(logging.WARNING if cause is None else logging.ERROR, "%s", failure, exc_info=cause)
        self.failure = failure
        for listener in self._listeners:
            listener(copy(failure))


def _loop_ends() -> bool:
    """Whether every task that is left is being cancelled, as `asyncio.run` and our loop threads do at their
    end, and applications that end. One that goes on has a task that is not.
    """
    return all(task.cancelling() for task in asyncio.all_tasks())
