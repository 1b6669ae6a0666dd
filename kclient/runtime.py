"""The loop thread under a blocking client: start, call, stop; and what else of threads the core needs.

A Kafka client works while nobody calls it (heartbeats, linger, prefetch), so the blocking clients run the
asyncio core on a thread of their own, or on one that they share. Only `call` crosses over; it costs some 30
microseconds, so hot paths must not.

A signal handler may raise at any moment of a call (Ctrl-C), or call the client again and wait, as one that
closes it does. So nothing here takes a lock, which an exception could leave taken, or the handler wait for: a
`SimpleQueue` is the one thing of the standard library to wait with that a signal may interrupt anywhere.

A forked child has the memory of the thread but not the thread: every call there fails at once and says so. At
interpreter exit the thread is a daemon and ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Self, TypeVar, cast

from kclient.errors import ClientClosedError, KafkaTimeoutError

T = TypeVar("T")
# A function that makes the coroutine has it made on the loop's thread, where no signal handler raises: one
# that was made and never begun would complain.
Work = Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]]

log: logging.Logger = logging.getLogger(__name__)

# How often a caller that waits looks whether the loop lives, in seconds, and how often in a row it may find
# no sign of it: a callback of the application that blocks it for so long blocks everything.
_LOOK = 5.0
_LOOKS = 12
# For tasks that were cancelled because the loop ends, and for the thread to end after that.
_LAST_STEPS = 5.0


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop
        self._ending = False
        self._stopped = False
        self._closing = 0  # calls of `launch_last` under way
        self._ended = False
        self._lives = 0  # how often the loop was asked for a sign of life, and gave it
        # Calls that the loop has not begun; whoever takes one out begins or refuses it.
        self._calls: deque[Call[Any]] = deque()
        self._waiting_for_end: deque[SimpleQueue[None]] = deque()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        began: SimpleQueue[BaseException | None] = SimpleQueue()
        self._began = began
        try:
            self._thread.start()
            failure = began.get(timeout=_LOOKS * _LOOK)
        except BaseException:  # Ctrl-C: nobody will ever have this object
            self._ending = self._stopped = True
            if hasattr(self, "_loop"):  # else the thread looks before it runs it
                self._post(self._loop.stop)
            raise
        if failure is not None:
            raise failure

    def __repr__(self) -> str:
        return f"<LoopThread {self._name} {'running' if self.running else 'stopped'}>"

    @property
    def running(self) -> bool:
        # Not the thread's own `is_alive`: a Ctrl-C in there makes it say that a living thread is dead.
        return not self._ended and self._pid == os.getpid()

    @property
    def ending(self) -> bool:
        """Whether it takes no more calls."""
        return self._ending

    @property
    def ended(self) -> bool:
        """Whether it was stopped here; in a forked child it was not, and yet does not run."""
        return self._ended and self._pid == os.getpid()

    def call(self, work: Work[T], within: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result. Ctrl-C cancels it.

        The coroutine brings its own deadline, so that an error says what was awaited. What keeps the loop
        from it is an error after a minute, or after `within` seconds.
        """
        call: Call[T] | None = None
        try:
            self._check_caller()
            call = Call(work)
            self._let_in(call)
            return self._outcome(call, within)
        except BaseException:
            if call is None:
                _close(work)
            elif not call.over:
                self._post(partial(self._call_off, call))
            raise

    def submit(self, work: Work[T]) -> Future[T]:
        """Run a coroutine on the loop; for callers that must not block, because they are on a loop too.

        Cancelling the future cancels the coroutine.
        """
        result: Future[T] = Future()
        call = Call(work, lambda: _copy(call, result))
        self._let_in(call)
        result.add_done_callback(partial(self._cancelled, call))
        return result

    def launch(self, work: Work[T], when_over: Callable[[], object]) -> Call[T]:
        """Run a coroutine on the loop, for a thread that has something to do until it is over.

        `when_over` is called on the loop.
        """
        call = Call(work, when_over)
        self._let_in(call)
        return call

    def launch_last(
        self,
        close: Callable[[], Coroutine[Any, Any, None]],
        ended: Callable[[], bool],
        when_over: Callable[[], object] = bool,
    ) -> Call[None]:
        """Run what closes the client, and end the loop with it; nobody has to wait for it.

        Of several at the same time the first that finds the client `ended` ends the loop, or else the last.
        """
        self._check_caller()
        return self.launch(partial(self._last, close, ended), when_over)

    def await_last(self, call: Call[None], within: float | None = None) -> None:
        """Wait for what `launch_last` has begun, and for the thread if it ends with that.

        A caller that is interrupted, or whose time is up, takes nothing from it: it goes on by itself.
        """
        try:
            self._outcome(call, within)
        finally:
            if call.over and self._ending:
                self.stop()

    def stop(self) -> None:
        """End the loop and wait for the thread. Does nothing in a forked child, whose thread never was."""
        if not self.running:
            return
        self._ending = True
        told: SimpleQueue[None] = SimpleQueue()
        self._waiting_for_end.append(told)
        self._post(self._stop)
        if not self._ended:
            try:
                told.get(timeout=2 * _LAST_STEPS)
            except Empty:
                log.warning("%s: its thread does not end, a callback blocks it", self._name)
                return
        self._thread.join(_LAST_STEPS)

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end for so long, without asking for it."""
        if self.running:
            told: SimpleQueue[None] = SimpleQueue()
            self._waiting_for_end.append(told)
            with contextlib.suppress(Empty):
                if not self._ended:
                    told.get(timeout=seconds)
        return not self.running

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

        self._ending = True
        asyncio.run_coroutine_threadsafe(finish(), self._loop)

    def _check_caller(self) -> None:
        if self._pid != os.getpid():
            raise ClientClosedError(
                f"{self._name} was made in process {self._pid} and is used in process {os.getpid()}: "
                "a client does not survive fork, make one in the child"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"a blocking call of {self._name} on its own loop thread would never end")

    def _let_in(self, call: Call[T]) -> None:
        if self._ending:
            call.refuse()
            raise ClientClosedError(f"{self._name} is closed")
        try:
            self._calls.append(call)
            self._post(self._begin_calls)
        except BaseException:  # Ctrl-C: the loop may have a call of which it was not told
            self._post(self._begin_calls)
            raise
        if self._ended:  # in this moment: the loop may have looked for calls before this one was there
            self._refuse_calls()

    def _outcome(self, call: Call[T], within: float | None) -> T:
        try:
            self._wait(call, within)
            return call.outcome()
        except CancelledError as error:
            if self._ending:
                raise ClientClosedError(f"{self._name} was closed during the call") from error
            raise

    def _wait(self, call: Call[T], within: float | None) -> None:
        """Wait until it is over, as long as the loop answers when it is asked for a sign of life.

        What counts is how often it did not answer, and not the time: where the process was stopped for longer
        than that (SIGSTOP, a laptop that slept), nobody was there to answer.
        """
        began = time.monotonic()
        lives, unanswered = self._lives, 0
        while True:
            waited = time.monotonic() - began
            if within is not None and waited >= within:
                raise KafkaTimeoutError(f"{self._name} did not come to an end of a call within {within:g} s")
            if call.over_within(_LOOK if within is None else min(_LOOK, within - waited)):
                return
            unanswered = unanswered + 1 if self._lives == lives else 0
            lives = self._lives
            if unanswered > _LOOKS:
                raise KafkaTimeoutError(
                    f"{self._name} has not run for {_LOOKS * _LOOK:g} s: a callback of the application that "
                    "runs on it (of a delivery, for example) blocks it"
                )
            self._post(self._live)

    def _post(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so has everything on it
            self._loop.call_soon_threadsafe(callback)

    def _cancelled(self, call: Call[T], result: Future[T]) -> None:
        if result.cancelled():
            self._post(partial(self._call_off, call))

    # On the thread

    def _run(self) -> None:
        try:  # here: half an event loop, as Ctrl-C may leave it, complains when it is collected
            self._loop = asyncio.new_event_loop()
        except BaseException as error:  # noqa: BLE001 - too many files are open, for example
            self._ended = True
            self._began.put(error)
            return
        asyncio.set_event_loop(self._loop)
        self._began.put(None)
        try:
            while not self._stopped:
                self._run_on()
        finally:
            self._ending = True
            try:
                self._last_steps()
            finally:
                self._loop.close()
                self._ended = True
                self._refuse_calls()
                while self._waiting_for_end:
                    self._waiting_for_end.popleft().put(None)

    def _run_on(self, until: asyncio.Future[Any] | None = None) -> None:
        """Run the loop until it is stopped, or until a callback calls `sys.exit`, which ends nothing here."""
        try:
            if until is None:
                self._loop.run_forever()
            else:
                self._loop.run_until_complete(until)
        except (SystemExit, KeyboardInterrupt) as error:
            log.error("%s: %r of a callback does not end the client's thread", self._name, error)  # noqa: TRY400

    def _last_steps(self) -> None:
        self._run_until(_cancel_everything(self._loop))
        self._run_until(self._loop.create_task(self._loop.shutdown_asyncgens()))

    def _run_until(self, last: asyncio.Future[None]) -> None:
        while not last.done():
            self._run_on(last)

    def _begin_calls(self) -> None:
        while self._calls:
            self._calls.popleft().begin()

    def _call_off(self, call: Call[Any]) -> None:
        """End what nobody waits for any more; a loop that ends does so by itself."""
        self._begin_calls()  # this one may still be among them
        call.call_off()

    def _refuse_calls(self) -> None:
        with contextlib.suppress(IndexError):  # two threads may do this at once
            while True:
                self._calls.popleft().refuse()

    def _live(self) -> None:
        self._lives += 1

    async def _last(self, close: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], bool]) -> None:
        self._closing += 1
        try:
            await close()
        finally:
            self._closing -= 1
            if ended() or not self._closing:
                self._ending = True
                self._stop()

    def _stop(self) -> None:
        if not self._stopped:  # a second time it would stop the last steps
            self._stopped = True
            self._loop.stop()


class Call(Generic[T]):
    """A coroutine that crosses over, and what became of it.

    It is made before anything can go wrong: `asyncio.run_coroutine_threadsafe` hands out its future at the
    end, and a Ctrl-C that comes while it works leaves a coroutine that runs on and that nobody can cancel.
    """

    def __init__(self, work: Work[T], when_over: Callable[[], object] = bool) -> None:
        self.over: bool = False
        self._work = work
        self._when_over = when_over
        self._task: asyncio.Task[T] | None = None
        self._told: SimpleQueue[None] = SimpleQueue()

    def over_within(self, seconds: float) -> bool:
        """Wait for its end for so long."""
        with contextlib.suppress(Empty):
            if not self.over:
                self._told.get(timeout=max(0.0, seconds))
        return self.over

    def outcome(self) -> T:
        """The result of what is over; raises what it raised."""
        task = self._task
        if task is None or task.cancelled():
            raise CancelledError
        return task.result()

    # On the loop's thread, or where there is no loop any more

    def begin(self) -> None:
        work = self._work
        coroutine = _made(work) if callable(work) else work
        self._task = asyncio.get_running_loop().create_task(coroutine)
        self._task.add_done_callback(self._settle)

    def call_off(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self.over:  # whoever asked was interrupted before it was let in
            self.refuse()

    def refuse(self) -> None:
        """Not to be begun any more."""
        _close(self._work)
        self._end()

    def _settle(self, task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()  # which is seen now, also where nobody asks
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            log.debug("a call ended with %r", error)
        self._end()

    def _end(self) -> None:
        self.over = True
        self._told.put(None)
        self._when_over()


def _close(work: Work[Any]) -> None:
    """Have a coroutine that will not be begun not complain."""
    if not callable(work):
        work.close()


async def _made(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await make()


def _copy(call: Call[T], future: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return  # the caller was cancelled in this moment
    try:
        future.set_result(call.outcome())
    except CancelledError:
        future.set_exception(ClientClosedError("the client was closed during the call"))
    except BaseException as error:  # noqa: BLE001 - whoever waits for the future is told
        future.set_exception(error)


def _cancel_everything(loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    """Cancel all tasks; a future for their end, or for the end of our patience.

    No task waits for them: that all tasks are being cancelled says that the loop ends, see `background`.
    """
    tasks = asyncio.all_tasks(loop)
    over: asyncio.Future[None] = loop.create_future()

    def look(*_: object) -> None:
        if not over.done() and all(task.done() for task in tasks):
            over.set_result(None)

    def give_up() -> None:
        if not over.done():
            over.set_result(None)

    for task in tasks:
        task.add_done_callback(look)
        task.cancel()
    loop.call_soon(look)
    loop.call_later(_LAST_STEPS, give_up)
    return over


def shared_lock() -> threading.RLock:
    """A lock for what callers of any thread and the loop share."""
    return threading.RLock()


class Indivisible:
    """In place of a lock where one lock guards the interpreter: a body that calls nothing is one step anyway.

    From Python 3.14 on a lock would do harm: `with` enters it by an ordinary call, behind which CPython looks
    for signals, and a handler that raised there would leave it taken for ever. Both methods are functions
    written in C that do nothing and answer what is false, so no code of Python's runs in them, which could be
    interrupted: `bool()` to enter, and to leave `"".format(kind, error, trace)`, which lets errors out.
    """

    __slots__ = ()
    __enter__: Callable[[], object] = staticmethod(bool)
    __exit__: Callable[..., object] = staticmethod("".format)


def brief_lock(
    version: tuple[int, int] = sys.version_info[:2], free_threaded: bool | None = None
) -> AbstractContextManager[object]:
    """The same for bodies that call nothing: see `producer.accumulator`."""
    if free_threaded is None:
        free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return threading.Lock() if version < (3, 14) or free_threaded else cast("Any", Indivisible())


def wait_in_thread(register: Callable[[Callable[[], None]], object], timeout: float) -> bool:
    """Block until the callable that `register` is given has been called; False if that takes too long."""
    # Ten times cheaper than an Event; a second put is harmless.
    told: SimpleQueue[None] = SimpleQueue()
    register(partial(told.put, None))
    try:
        told.get(timeout=max(0.0, timeout))
    except Empty:
        return False
    return True
