"""Fixtures for all tests, which of them run on uvloop too, and which stay together in `make test`.

Real brokers come from `tools.kafka.fixtures`.
"""

from __future__ import annotations

import asyncio
import signal
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

pytest_plugins = ["tools.kafka.fixtures"]

# What a shell starts in the background inherits that Ctrl-C is ignored; programs under test must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that share something that takes long to start, by how their paths begin: one process runs all of them.
_TOGETHER = {
    "tests/spark/test_kills": "Spark that is killed",
    "tests/spark/": "Spark",
    "tests/integration/test_security_": "secured brokers",
    "tests/integration/test_passing_refusals": "secured brokers",
    "tests/integration/test_producer_refusals": "secured brokers",
    "tests/integration/test_producer_security": "secured brokers",
    "tests/integration/test_unreadable_topics": "secured brokers",
}


_NO_UVLOOP = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test marked `uvloop` runs on asyncio's own loop, and again on uvloop."""
    if metafunc.definition.get_closest_marker("uvloop"):
        loops = ["asyncio", pytest.param("uvloop", marks=_NO_UVLOOP)]
        metafunc.parametrize("event_loops", loops, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def event_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where new event loops come from: `asyncio.run`, and the threads of blocking clients and brokers.

    A fixture of scope `module` that starts such a thread asks for this one, to be set up anew with it.
    """
    if getattr(request, "param", "asyncio") != "uvloop":
        yield
        return
    import uvloop  # noqa: PLC0415 - not everywhere

    before = asyncio.get_event_loop_policy()
    _set_policy(uvloop.EventLoopPolicy())
    yield
    _set_policy(before)


def _set_policy(policy: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # policies go, from Python 3.14 on
        asyncio.set_event_loop_policy(policy)


def group_of(node_id: str) -> str:
    """What runs in one process and in order: the tests of a module, or those that share more."""
    shared = (name for start, name in _TOGETHER.items() if node_id.startswith(start))
    return next(shared, node_id.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist loadfile`, with our groups; `loadgroup` renames tests, and pytest 9 does not heed it."""
    from tools.suite.scheduling import GroupScheduling  # noqa: PLC0415 - tests run without pytest-xdist, too

    return GroupScheduling(config, log, group_of)
