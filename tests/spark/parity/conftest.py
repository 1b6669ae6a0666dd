"""Both connectors in the one session of all tests of Spark, beside a real broker with many topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.parity.sides import Sides
from tests.spark.parity.topics import Topics, filled
from tools.kafka.fixtures import BrokerPool
from tools.kafka.provider import PlainKafka
from tools.kafka.spark import ConnectorJars


@pytest.fixture(scope="session")
def topics(kafka: PlainKafka) -> Iterator[Topics]:
    with filled(kafka.bootstrap()) as made:
        yield made


@pytest.fixture(scope="session")
def sides(spark: Any, topics: Topics, broker_pool: BrokerPool) -> Sides:
    for jar in sorted(broker_pool.fetch(ConnectorJars.newest()).glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    return Sides(spark, topics)
