"""Threads of our own for work that must not keep an event loop waiting.

The loop's default executor belongs to the application: a handful of its `asyncio.to_thread` calls that wait,
for a `Delivery` for example, would keep compression and the look-up of addresses from their turn, and with
them what those calls wait for.
"""

from __future__ import annotations

import os
import threading
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
        return f"<DaemonThreads {self.name}, {self._threads} of {self._most}, {self._idle} idle>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call it on one of the threads."""
        result: Future[T] = Future()
        with self._lock:
            self._jobs.put((result, fn, args, kwargs))
            if self._idle:
                self._idle -= 1
            elif self._threads < self._most:
                self._threads += 1
                try:
                    threading.Thread(target=self._work, name=self.name, daemon=True).start()
                except RuntimeError:  # the process may have no more, or the interpreter is exiting
                    self._threads -= 1
            helpless = not self._threads
        if helpless:
            self._do_everything()
        return result

    def _begin(self) -> None:
        # Also in a forked child: another thread may have held the lock, and none of them is there.
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0
        # Threads that wait for a job and to which no job was promised. May be too low, when one that was busy
        # takes a job that was promised to another: then a thread more is made than would have been needed.
        self._idle = 0

    def _work(self) -> None:
        while True:
            self._do_everything()
            with self._lock:
                self._idle += 1
            try:
                job = self._jobs.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._jobs.empty():  # else a job came, and was promised, in this moment
                        self._idle = max(0, self._idle - 1)
                        self._threads -= 1
                        return
            else:
                _do(*job)
                del job  # else what it was about would be kept until the next one

    def _do_everything(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            _do(*job)


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
