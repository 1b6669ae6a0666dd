"""The loop thread under a blocking client: start, call, stop; and what else of threads the core needs.

A Kafka client works while nobody calls it (heartbeats, linger, prefetch), so the blocking clients run the
asyncio core on a thread of their own, or on one that they share. Only `call` crosses over; it costs some 30
microseconds, so hot paths must not.

A forked child has the memory of the thread but not the thread: every call there fails at once and says so. At
interpreter exit the thread is a daemon and ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Self, TypeVar

from kclient.errors import ClientClosedError

T = TypeVar("T")

log = logging.getLogger(__name__)


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._ending = False
        self._stopped = False
        # Between `call` and `stop`: a call let in before the end has its task on the loop by then, to be
        # cancelled with the others; without the lock it could come to a loop that runs no more, and wait on.
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<LoopThread {self._name} {'running' if self.running else 'stopped'}>"

    @property
    def running(self) -> bool:
        return self._pid == os.getpid() and self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether it was stopped here; in a forked child it was not, and yet does not run."""
        return self._pid == os.getpid() and not self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result. Ctrl-C cancels it.

        The coroutine brings its own deadline: there is none here, so that an error always says what was
        awaited.
        """
        if self._pid != os.getpid():
            work.close()
            raise ClientClosedError(
                f"{self._name} was made in process {self._pid} and is used in process {os.getpid()}: "
                "a client does not survive fork, make one in the child"
            )
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(f"a blocking call of {self._name} on its own loop thread would never end")
        call = _Call(work)
        try:
            self._let_in(call)
            return call.result.result()
        except CancelledError as error:
            if self._ending:
                raise ClientClosedError(f"{self._name} was closed during the call") from error
            raise
        except BaseException:
            self._call_off(call)
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; for callers that must not block, because they are on a loop too.

        Cancelling the future cancels the coroutine.
        """
        call = _Call(work)
        self._let_in(call)
        call.result.add_done_callback(partial(self._cancelled, call))
        return call.result

    def stop(self) -> None:
        """End the loop and wait for the thread. Does nothing in a forked child, whose thread never was."""
        if not self.running:
            return
        with self._gate:
            if not self._ending:
                self._ending = True
                self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine without waiting for it, and go on: for finalizers."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def finish(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a last coroutine and end, without waiting: for finalizers, which run on whichever thread."""

        async def finish() -> None:
            try:
                await work
            finally:
                self._stop()

        with self._gate:
            self._ending = True
            asyncio.run_coroutine_threadsafe(finish(), self._loop)

    def _let_in(self, call: _Call[T]) -> None:
        with self._gate:
            if self._ending:
                call.call_off()
                raise ClientClosedError(f"{self._name} is closed")
            self._loop.call_soon_threadsafe(call.begin)

    def _call_off(self, call: _Call[T]) -> None:
        """End what nobody waits for any more; a loop that ends does so by itself."""
        with self._gate:
            if not self._ending and not call.result.done():
                self._loop.call_soon_threadsafe(call.call_off)

    def _cancelled(self, call: _Call[T], result: Future[T]) -> None:
        if result.cancelled():
            with self._gate:
                if not self._ending:
                    self._loop.call_soon_threadsafe(call.call_off)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopped:
                self._run_on()
        finally:
            _cancel_everything(self._loop)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _run_on(self) -> None:
        """Run the loop until it is stopped, or until a callback calls `sys.exit`, which ends nothing here."""
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            log.error("%s: %r of a callback does not end the client's thread", self._name, error)  # noqa: TRY400

    def _stop(self) -> None:
        self._stopped = True
        self._loop.stop()


class _Call(Generic[T]):
    """A coroutine that crosses over, made before anything can go wrong.

    `asyncio.run_coroutine_threadsafe` hands out its future at the end: a Ctrl-C that comes while it works
    leaves a coroutine that runs on and that nobody can cancel.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.result: Future[T] = Future()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._settle)

    def call_off(self) -> None:
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()

    def _settle(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.result.cancel()
            return
        error = task.exception()
        if not self.result.set_running_or_notify_cancel():
            return  # the caller was cancelled in this moment
        if error is None:
            self.result.set_result(task.result())
        else:
            self.result.set_exception(error)


def _cancel_everything(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))


def shared_lock() -> threading.RLock:
    """A lock for what callers of any thread and the loop share."""
    return threading.RLock()


def wait_in_thread(register: Callable[[Callable[[], None]], object], timeout: float | None) -> bool:
    """Block until the callable that `register` is given has been called; False if that takes too long."""
    # A tenth of what an event costs, and as patient with those who call twice.
    told: SimpleQueue[None] = SimpleQueue()
    register(partial(told.put, None))
    try:
        told.get(timeout=None if timeout is None else max(0.0, timeout))
    except Empty:
        return False
    return True
