"""Async tests run on virtual time, and whatever a client leaves behind fails the test that left it."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient.testing.loop import VirtualLoop as SimulatedLoop
from tests.support.fake_broker import FakeCluster, FakeSasl
from tests.support.leftovers import leftovers
from tests.support.virtual_loop import VirtualLoop


@pytest.fixture(scope="session", autouse=True)
def _keep_collections_cheap() -> None:
    """What is there before the first test need not be searched for garbage after every one."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


@pytest.fixture
def brokers(loop: VirtualLoop) -> Callable[..., FakeCluster]:
    """Starts fake brokers on the test's network."""

    def start(nodes: int = 1, sasl: FakeSasl | None = None) -> FakeCluster:
        return FakeCluster(loop, nodes, sasl)

    return start


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The SystemExits and KeyboardInterrupts that left a loop on virtual time, which is then run again."""
    found: list[BaseException] = []
    once = SimulatedLoop.run_until_complete

    def again_and_again(self: SimulatedLoop, work: Any) -> Any:
        task = asyncio.ensure_future(work, loop=self)
        while True:
            try:
                return once(self, task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done() and not task.cancelled() and task.exception() is error:
                    raise
                found.append(error)

    monkeypatch.setattr(SimulatedLoop, "run_until_complete", again_and_again)
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on its `loop`, and check that nothing outlives it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    loop: VirtualLoop = pyfuncitem._request.getfixturevalue("loop")
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
    asyncio.set_event_loop(None)
    loop.run_until_complete(pyfuncitem.obj(**arguments))
    found = leftovers(loop)
    gc.collect()  # an exception that nobody looked at is reported when its task is collected
    assert not found + complaints, f"left behind: {found + complaints}"
    return True
