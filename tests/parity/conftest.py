"""The newest kafka-clients jar, against which everything here is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.kafka.fixtures import BrokerPool
from tools.kafka.jars import jar
from tools.kafka.versions import CLIENTS_VERSION, DEFAULT_VERSION


@pytest.fixture(scope="session")
def clients_jar(broker_pool: BrokerPool) -> Path:
    """Needs Java and Maven; where they are missing, its tests are skipped as those of real brokers are."""
    broker_pool.require_jars(DEFAULT_VERSION)
    return jar("kafka-clients", CLIENTS_VERSION)
