"""Async tests run on virtual time, and whatever a client leaves behind fails the test that left it."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
