"""pytest fixtures with the embedded broker, there for everyone who has kclient installed.

| fixture | scope | gives |
|---|---|---|
| `kafka_broker` | test | a broker of one node, in memory |
| `kafka_cluster` | test | a cluster of three nodes, in memory |

Both are a `kclient.testing.RunningBroker` on a thread of its own and start in milliseconds, so every test
gets a fresh one. A fixture of the same name in a conftest.py takes precedence. pytest imports this in every
session, so it imports nothing of kclient until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

TYPE_CHECKING = False  # see `kclient`
if TYPE_CHECKING:
    from kclient.testing.running import RunningBroker


@pytest.fixture
def kafka_broker() -> Iterator[RunningBroker]:
    """A Kafka broker of one node, in memory; `kafka_broker.bootstrap_servers` is where it listens."""
    yield from _running(1)


@pytest.fixture
def kafka_cluster() -> Iterator[RunningBroker]:
    """A Kafka cluster of three nodes, in memory; `kafka_cluster.bootstrap_servers` is where they listen."""
    yield from _running(3)


def _running(nodes: int) -> Iterator[RunningBroker]:
    from kclient.testing.running import RunningBroker  # noqa: PLC0415 - not until a fixture is used

    with RunningBroker(nodes=nodes) as running:
        yield running
