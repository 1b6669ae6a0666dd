"""Three brokers for tests that break them, and those with secured listeners; see `tests.support.secured`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.secured import Visitor, prepare, visiting
from tools.kafka import KafkaCluster
from tools.kafka.fixtures import BrokerPool
from tools.kafka.security import Security
from tools.kafka.versions import DEFAULT_VERSION, OLD_VERSION


@pytest.fixture(scope="module")
def three_brokers(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """Three brokers for all tests of a module; each of them leaves them running."""
    broker_pool.require_jars(DEFAULT_VERSION)
    with KafkaCluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """One broker of the newest version, with ACLs."""
    broker_pool.require_jars(DEFAULT_VERSION)
    config = {"delegation.token.secret.key": "delegation-secret"}
    with KafkaCluster(security=Security.everything(acls=True), config=config) as cluster:
        prepare(cluster)
        yield cluster


@pytest.fixture(scope="session")
def old_secured_kafka(broker_pool: BrokerPool) -> Iterator[KafkaCluster]:
    """One broker of an old version, with ACLs."""
    broker_pool.require_jars(OLD_VERSION)
    config = {"delegation.token.master.key": "delegation-secret"}
    security = Security("TLS", "MTLS", "BADHOST", "SASL_PLAINTEXT", "SASL_SSL", acls=True)
    with KafkaCluster(OLD_VERSION, security=security, config=config) as cluster:
        prepare(cluster)
        yield cluster


@pytest.fixture
def visitor(secured_kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """Connects to the newest version."""
    with visiting(secured_kafka, monkeypatch) as found:
        yield found


@pytest.fixture
def old_visitor(old_secured_kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """Connects to the old version."""
    with visiting(old_secured_kafka, monkeypatch) as found:
        yield found


@pytest.fixture(params=["visitor", "old_visitor"], ids=[DEFAULT_VERSION, OLD_VERSION])
def any_visitor(request: pytest.FixtureRequest) -> Visitor:
    """Connects to the newest and to an old version, one after the other."""
    found: Visitor = request.getfixturevalue(request.param)
    return found
