"""Spark's own Kafka connector, for tests that have Spark talk to the embedded broker.

The four jars that pyspark lacks are named one by one: left to themselves, the dependencies would bring Spark
again. `tests/broker/test_strangers_spark.py` says which pyspark they work with.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.kafka.jars import JarSet, pom_of

_CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


@dataclass(frozen=True)
class ConnectorJars(JarSet):
    """The connector and what it needs beyond Spark."""

    @classmethod
    def newest(cls) -> ConnectorJars:
        version = _CONNECTOR[0][2]
        names = tuple(artifact for _, artifact, _ in _CONNECTOR)
        return cls(f"Spark's Kafka connector {version}", f"spark-connector-{version}", names, version)

    def pom(self) -> str:
        return pom_of(_CONNECTOR, without=(("*", "*"),))

    def required(self) -> list[str]:
        return [f"{artifact}-{version}.jar" for _, artifact, version in _CONNECTOR]
