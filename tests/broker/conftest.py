"""Embedded brokers for strangers to talk to: on a loop thread, in memory and on disk.

A broker that could not handle a request only ends the connection, which most clients paper over; the fixtures
therefore fail a test in whose course the broker logged an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kclient.testing.running import RunningBroker

# Members that vanish are missed soon.
_CONFIG = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
}


class _Complaints(logging.Handler):
    """What the broker says at level error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


class Stage(RunningBroker):
    """A broker that serves while the caller's thread blocks in a client."""


@contextmanager
def staged(
    nodes: int = 1, data: Path | None = None, config: Mapping[str, str] | None = None, **options: Any
) -> Iterator[Stage]:
    complaints = _Complaints()
    logger = logging.getLogger("kclient.broker")
    logger.addHandler(complaints)
    try:
        with Stage(nodes=nodes, data=data, config={**_CONFIG, **(config or {})}, **options) as stage:
            yield stage
    finally:
        logger.removeHandler(complaints)
    assert not complaints.heard, "\n".join(complaints.heard)


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """One node, once in memory and once with its records on disk."""
    with staged(data=tmp_path / "data" if request.param == "disk" else None) as stage:
        yield stage


@pytest.fixture
def cluster() -> Iterator[Stage]:
    """Three nodes in memory."""
    with staged(nodes=3) as stage:
        yield stage


@pytest.fixture
def servers(broker: Stage) -> str:
    """Where `broker` listens."""
    return broker.bootstrap_servers
