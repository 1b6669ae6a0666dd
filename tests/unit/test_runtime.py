"""The loop thread under blocking clients. These tests use real threads: that is what is tested."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kclient.errors import ClientClosedError
from kclient.runtime import LoopThread

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
