"""Threads of our own for work that must not keep an event loop waiting.

The loop's default executor belongs to the application: a handful of its `asyncio.to_thread` calls that wait,
for a `Delivery` for example, would keep compression and the look-up of addresses from their turn, and with
them what those calls wait for.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]
_Box = SimpleQueue[_Job]  # of one thread, for the job that it is given while it waits

# A thread that had nothing to do for so many seconds ends.
_IDLE = 5.0
# How long a caller waits for modules, in seconds: on a slow disk they take some.
_PATIENCE = 60.0
_all: WeakSet[DaemonThreads] = WeakSet()


class DaemonThreads(Executor):
    """At most `most` threads, shared by all clients of a process; made when they are needed.

    Unlike those of a `ThreadPoolExecutor` they do not keep the interpreter from exiting, whatever they wait
    for, and a forked child begins with none.
    """

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._most = most
        self._begin()
        _all.add(self)

    def __repr__(self) -> str:
        return f"<DaemonThreads {self.name}, {self._threads} of {self._most}, {len(self._idle)} idle>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call it on one of the threads."""
        result: Future[T] = Future()
        job: _Job = (result, fn, args, kwargs)
        with self._lock:
            taken = True
            if self._idle:
                self._idle.pop().put(job)  # the last to come: the others may end, if there is so little to do
            elif self._threads == self._most or not self._begin_thread(job):
                taken = self._threads > 0
                if taken:
                    self._jobs.append(job)
        if not taken:
            _do(*job)
        return result

    def _begin(self) -> None:
        # Also in a forked child: another thread may have held the lock, and none of them is there.
        self._lock = threading.Lock()
        self._threads = 0
        # Jobs for which there was no thread, and threads for which there was no job: never both.
        self._jobs: deque[_Job] = deque()
        self._idle: list[_Box] = []

    def _begin_thread(self, job: _Job) -> bool:
        box: _Box = SimpleQueue()
        box.put(job)
        self._threads += 1
        try:
            threading.Thread(target=self._work, args=[box], name=self.name, daemon=True).start()
        except RuntimeError:  # the process may have no more, or the interpreter is exiting
            self._threads -= 1
            return False
        return True

    def _work(self, box: _Box) -> None:
        job: _Job | None = box.get()
        while job is not None:
            _do(*job)
            del job  # else what it was about would be kept until the next one
            job = self._next_job(box)

    def _next_job(self, box: _Box) -> _Job | None:
        """What a thread does next; None for one that may end, and is not counted any more."""
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            self._idle.append(box)
        try:
            return box.get(timeout=_IDLE)
        except Empty:
            with self._lock:
                if box not in self._idle:  # it was given one in this moment
                    return box.get()
                self._idle.remove(box)
                self._threads -= 1
                return None


def _do(result: Future[Any], call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not result.set_running_or_notify_cancel():
        return
    try:
        outcome = call(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - whoever waits is told; a thread that ended would be missed
        result.set_exception(error)
    else:
        result.set_result(outcome)


def _begin_anew() -> None:
    _loading.clear()
    for each in list(_all):
        each._begin()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_begin_anew)


class Loading:
    """Modules on their way in, on a thread of their own; `load` makes one.

    Signal handlers run on the main thread only. One that raises during an import there (Ctrl-C) may leave a
    module written in C, such as numpy, half loaded, and no later import of it succeeds in this process.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._over = False
        self._told: SimpleQueue[None] = SimpleQueue()
        threading.Thread(target=self._load, name="kclient imports", daemon=True).start()

    def wait(self) -> None:
        """Wait until they are there. What cannot be imported is for the caller's own import to say."""
        if not self._over:
            with suppress(Empty):
                self._told.get(timeout=_PATIENCE)
            self._told.put(None)  # for others that wait

    def _load(self) -> None:
        try:
            for name in self._names:
                with suppress(ImportError):
                    import_module(name)
        finally:
            self._over = True
            self._told.put(None)


_loading: dict[tuple[str, ...], Loading] = {}


def load(*names: str) -> Loading:
    """Begin to import these modules, unless that was begun before."""
    return _loading.get(names) or _loading.setdefault(names, Loading(names))


# Encodes large batches; what it does keeps a processor busy.
COMPRESSION = DaemonThreads("kclient compression", min(8, os.cpu_count() or 1))
# Calls that wait for something outside, and may do so for long: name servers, Kerberos, another thread's end.
WAITING = DaemonThreads("kclient waits", 16)
