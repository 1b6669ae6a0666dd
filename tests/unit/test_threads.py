"""The threads that all clients of a process share: bounded, there when needed, in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from kclient.threads import DaemonThreads
from tools.kafka.waiting import poll

FOR_EVER = """
import threading, time
from kclient.threads import DaemonThreads
threads = DaemonThreads("for ever", 2)
for _ in range(5):
    threads.submit(threading.Event().wait)
print(threads.submit.__self__)
"""


def test_no_more_threads_than_it_may_have_do_everything_in_the_order_it_came() -> None:
    pool = DaemonThreads("no more than two", 2)  # threads of other tests may still be there
    may_end, begun = threading.Event(), threading.Semaphore(0)
    order: list[int] = []

    def work(number: int) -> int:
        order.append(number)
        begun.release()
        may_end.wait()
        return number

    results = [pool.submit(work, number) for number in range(20)]
    begun.acquire()
    begun.acquire()
    assert len([each for each in threading.enumerate() if each.name == pool.name]) == 2
    assert sorted(order) == [0, 1]
    may_end.set()
    assert [result.result() for result in results] == list(range(20))
    assert sorted(order) == list(range(20))


def test_what_is_raised_reaches_the_caller_and_the_thread_goes_on() -> None:
    pool = DaemonThreads("test", 1)

    def fail() -> None:
        raise SystemExit(3)

    failed = pool.submit(fail)
    with pytest.raises(SystemExit):
        failed.result()
    assert pool.submit(threading.current_thread).result().name == "test"


def test_a_job_that_was_cancelled_before_its_turn_is_not_done() -> None:
    pool = DaemonThreads("test", 1)
    may_end = threading.Event()
    first = pool.submit(may_end.wait)
    second: Future[None] = pool.submit(pytest.fail, "was cancelled")
    assert second.cancel()
    may_end.set()
    first.result()
    assert pool.submit(str).result() == ""


def test_a_job_that_comes_as_a_thread_looks_for_one_leaves_no_thread_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kclient.threads._IDLE", 0.01)
    pool = DaemonThreads("test", 1)
    for _ in range(100):
        results = [pool.submit(threading.current_thread) for _ in range(3)]
        assert {result.result(30).name for result in results} == {"test"}
        poll(lambda: "0 of 1" in repr(pool), timeout=30, failure=lambda: repr(pool))
        assert repr(pool) == "<DaemonThreads test, 0 of 1, 0 idle>"


def test_where_no_thread_can_be_made_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool = DaemonThreads("test", 2)
    assert pool.submit(threading.current_thread).result() is threading.current_thread()


def test_the_interpreter_exits_whatever_they_wait_for() -> None:
    ended = subprocess.run([sys.executable, "-c", FOR_EVER], capture_output=True, timeout=60, check=True)
    assert b"2 of 2" in ended.stdout
    assert not ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    pool = DaemonThreads("test", 1)
    may_end = threading.Event()
    waiting = pool.submit(may_end.wait)
    with pool._lock:  # as another thread might hold it, which is not there in the child
        child = os.fork()
    if not child:  # pragma: no cover - another process
        os._exit(7 if pool.submit(int, "7").result(30) == 7 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    may_end.set()
    waiting.result()
