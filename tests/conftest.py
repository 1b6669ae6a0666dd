"""Fixtures for all tests, and which of them stay together when `make test` spreads them over processes.

Real brokers come from `tools.kafka.fixtures`.
"""

from __future__ import annotations

import signal
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
    "tests/integration/test_producer_refusals": "secured brokers",
    "tests/integration/test_producer_security": "secured brokers",
}


def group_of(node_id: str) -> str:
    """What runs in one process and in order: the tests of a module, or those that share more."""
    shared = (name for start, name in _TOGETHER.items() if node_id.startswith(start))
    return next(shared, node_id.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist loadfile`, with our groups; `loadgroup` renames tests, and pytest 9 does not heed it."""
    from tools.suite.scheduling import GroupScheduling  # noqa: PLC0415 - tests run without pytest-xdist, too

    return GroupScheduling(config, log, group_of)
