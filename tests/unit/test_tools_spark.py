"""The jars of Spark's connector: named one by one, and a reason to skip where they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.kafka.fixtures import BrokerPool
from tools.kafka.provider import Machine
from tools.kafka.spark import ConnectorJars


def test_nothing_comes_along_with_the_connector() -> None:
    pom = ConnectorJars.newest().pom()
    assert pom.count("<dependency>") == 4
    assert pom.count("<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>") == 4


def test_a_test_without_the_connector_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLIENT_KAFKA_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    machine = Machine(java=17, maven=False, cached=frozenset({"4.3.1"}))
    pool = BrokerPool(lambda: machine, required=False)
    with pytest.raises(pytest.skip.Exception, match="needed to fetch Spark's Kafka connector"):
        pool.fetch(ConnectorJars.newest())
    assert len(pool.refusals) == 1
