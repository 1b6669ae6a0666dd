"""One embedded broker for all tests of the command; each has topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from kclient.testing import RunningBroker
from tests.unit.cli.calling import ok


@pytest.fixture(scope="session")
def cli_broker() -> Iterator[RunningBroker]:
    with RunningBroker() as running:
        yield running


@pytest.fixture
def servers(cli_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    """The command's default cluster in this test."""
    monkeypatch.setenv("KCLIENT_BOOTSTRAP_SERVERS", cli_broker.bootstrap_servers)
    return cli_broker.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:  # noqa: ARG001
    """A topic with two partitions."""
    name = f"topic-{uuid4().hex[:8]}"
    ok("topics", "create", name, "-p", "2")
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"
