"""The loop thread under blocking clients. These tests use real threads: that is what is tested."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, NoReturn

import pytest

from kclient.errors import ClientClosedError, KafkaTimeoutError
from kclient.runtime import Indivisible, LoopThread, brief_lock

pytestmark = pytest.mark.uvloop


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("test client")
    yield thread
    thread.stop()


async def name_of_thread() -> str:
    return threading.current_thread().name


async def forever(started: threading.Event) -> None:
    started.set()
    await asyncio.Event().wait()


def test_a_call_runs_on_the_thread_and_gives_its_result(thread: LoopThread) -> None:
    assert thread.call(name_of_thread()) == "test client"


def test_an_error_of_the_coroutine_is_raised_where_it_was_called(thread: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        thread.call(fail())


def test_calls_of_many_threads_do_not_disturb_each_other(thread: LoopThread) -> None:
    async def echo(number: int) -> int:
        await asyncio.sleep(0)
        return number

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda number: thread.call(echo(number)), range(200))) == list(range(200))


def test_stop_ends_the_thread_and_may_be_repeated(thread: LoopThread) -> None:
    thread.stop()
    thread.stop()
    assert not thread.running
    assert "test client" not in [each.name for each in threading.enumerate()]


def test_a_call_after_stop_says_that_the_client_is_closed(thread: LoopThread) -> None:
    thread.stop()
    with pytest.raises(ClientClosedError, match="test client is closed"):
        thread.call(name_of_thread())


def test_a_call_under_way_when_the_thread_stops_says_so(thread: LoopThread) -> None:
    started = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(thread.call, forever(started))
        started.wait()
        thread.stop()
        with pytest.raises(ClientClosedError, match="was closed during the call"):
            call.result(timeout=10)


def test_calls_that_race_with_stop_all_end() -> None:
    for _ in range(50):
        thread = LoopThread("racing")
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(thread.call, name_of_thread()) for _ in range(20)]
            thread.stop()
            outcomes = [call.exception(timeout=10) for call in calls]
        assert all(error is None or isinstance(error, ClientClosedError) for error in outcomes)


def test_a_call_from_the_loop_thread_itself_is_refused(thread: LoopThread) -> None:
    async def nested() -> None:
        thread.call(name_of_thread())

    with pytest.raises(RuntimeError, match="would never end"):
        thread.call(nested())


def test_finish_runs_a_last_coroutine_and_ends_the_thread_without_waiting(thread: LoopThread) -> None:
    may_end, ran = threading.Event(), threading.Event()

    async def last() -> None:
        await asyncio.get_running_loop().run_in_executor(None, may_end.wait)
        ran.set()

    thread.finish(last())
    assert not ran.is_set()
    with pytest.raises(ClientClosedError):
        thread.call(name_of_thread())
    may_end.set()
    thread._thread.join(10)
    assert ran.is_set()
    assert not thread.running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 advises against forking
def test_a_forked_child_is_told_to_make_a_client_of_its_own(thread: LoopThread) -> None:
    child = os.fork()
    if child == 0:  # no assertion may leave the child: pytest is running in it too
        try:
            thread.call(name_of_thread())
        except ClientClosedError as error:
            thread.stop()
            os._exit(0 if "does not survive fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert thread.call(name_of_thread()) == "test client"


def test_ctrl_c_ends_the_wait_and_cancels_the_work(thread: LoopThread) -> None:
    cancelled = threading.Event()
    main = threading.get_ident()

    async def interrupted() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start us without it
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.call(interrupted())
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(10)
    assert thread.call(name_of_thread()) == "test client"


def test_from_python_3_14_on_no_lock_is_taken_where_one_guards_the_interpreter() -> None:
    lock = type(threading.Lock())
    assert isinstance(brief_lock((3, 13), free_threaded=False), lock)
    assert isinstance(brief_lock((3, 13), free_threaded=True), lock)
    assert isinstance(brief_lock((3, 14), free_threaded=False), Indivisible)
    assert isinstance(brief_lock((3, 14), free_threaded=True), lock)


def test_what_stands_for_a_lock_runs_no_code_of_python_and_lets_errors_out() -> None:
    calls: list[str] = []

    def note(frame: FrameType, *_: object) -> None:
        calls.append(frame.f_code.co_name)

    stand_in = brief_lock((3, 14), free_threaded=False)
    sys.settrace(note)
    try:
        with stand_in:
            pass
    finally:
        sys.settrace(None)
    assert calls == []
    with pytest.raises(LookupError, match="out"), stand_in:
        raise LookupError("out")


class Interrupted(deque[Any]):
    """Ctrl-C before a call is among those that the loop has to begin, or after that."""

    def __init__(self, *, late: bool) -> None:
        super().__init__()
        self._late = late
        self._interrupts = [KeyboardInterrupt()]

    def append(self, call: Any) -> None:
        if self._late or not self._interrupts:
            super().append(call)
        for interrupt in self._interrupts:
            self._interrupts = []
            raise interrupt


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_while_a_call_is_handed_over_leaves_no_coroutine_and_nothing_runs_on(
    thread: LoopThread, late: bool
) -> None:
    work = forever(threading.Event())
    thread._calls = Interrupted(late=late)
    with pytest.raises(KeyboardInterrupt):
        thread.call(work)
    assert thread.call(name_of_thread()) == "test client"
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_ctrl_c_before_there_is_a_call_leaves_no_coroutine(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("kclient.runtime.Call", interrupt)
    work = name_of_thread()
    with pytest.raises(KeyboardInterrupt):
        thread.call(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_a_function_is_called_on_the_loop_and_what_it_raises_reaches_the_caller(thread: LoopThread) -> None:
    def fail() -> NoReturn:
        raise LookupError("no coroutine at all")

    assert thread.call(name_of_thread) == "test client"
    with pytest.raises(LookupError, match="no coroutine"):
        thread.call(fail)


class Jumping:
    """A clock that leaps by an hour at every look, as after a stop of the whole process."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return 3600.0 * self.looks


async def looked_at(clock: Jumping, often: int) -> str:
    while clock.looks < often:  # noqa: ASYNC110 - nobody tells how often it was looked at
        await asyncio.sleep(0)
    return "worked"


def test_a_process_that_was_stopped_for_long_finds_its_calls_as_they_were(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Jumping()
    monkeypatch.setattr("kclient.runtime.time", clock)
    monkeypatch.setattr("kclient.runtime._LOOK", 0.01)
    assert thread.call(looked_at(clock, 10)) == "worked"


def test_a_loop_that_does_not_answer_when_it_is_asked_is_reported(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.runtime._LOOK", 0.01)
    may_end = threading.Event()

    async def block() -> None:
        may_end.wait()

    try:
        with pytest.raises(KafkaTimeoutError, match=r"has not run for 0\.12 s: a callback"):
            thread.call(block())
    finally:
        may_end.set()
    assert thread.call(name_of_thread()) == "test client"


def test_sys_exit_in_the_last_steps_of_a_loop_does_not_keep_it_from_closing(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    async def exits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().call_soon(sys.exit, 3)

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.set()

    thread.begin(exits())
    thread.begin(lasts())
    thread.call(asyncio.sleep(0))
    with caplog.at_level(logging.ERROR):
        thread.stop()
    assert thread._loop.is_closed()
    assert ended.is_set()
    assert "SystemExit(3) of a callback does not end the client's thread" in caplog.text


def test_the_call_that_closes_the_client_ends_the_loop_also_when_nobody_waits_for_it(
    thread: LoopThread,
) -> None:
    async def close() -> None:
        await asyncio.sleep(0)

    thread.launch_last(close, lambda: True)
    thread._thread.join(10)
    assert not thread.running


def test_of_two_calls_that_close_the_client_the_last_one_ends_the_loop(thread: LoopThread) -> None:
    async def hasty() -> None:
        raise KafkaTimeoutError

    may_end, begun = asyncio.Event(), threading.Event()

    async def patient() -> None:
        begun.set()
        await may_end.wait()

    async def end() -> None:
        may_end.set()

    last = thread.launch_last(patient, lambda: False)
    begun.wait()
    with pytest.raises(KafkaTimeoutError):
        thread.await_last(thread.launch_last(hasty, lambda: False))
    assert thread.call(name_of_thread) == "test client"
    thread.call(end)
    thread.await_last(last)
    assert not thread.running


@pytest.mark.parametrize(
    "busy", ["", "threading.Thread(target=thread.call, args=(asyncio.sleep(60),), daemon=True).start()"]
)
def test_a_process_that_forgets_to_stop_it_ends_quietly(busy: str) -> None:
    program = f"""
import asyncio, threading
from kclient.runtime import LoopThread
thread = LoopThread("forgotten")
{busy}
print(thread.call(asyncio.sleep(0, "worked")))
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    # Under `-X dev` asyncio complains about its own steps when the machine is busy.
    complaints = [line for line in ended.stderr.splitlines() if not line.startswith("Executing <")]
    assert (ended.stdout, complaints, ended.returncode) == ("worked\n", [], 0)
