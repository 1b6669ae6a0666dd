"""One Spark for all tests here: starting it costs seconds, a query a fraction of one.

It runs in this process with workers of its own, on two cores, beside an embedded broker for each test.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient.testing.running import RunningBroker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session in which kclient is registered."""
    scratch = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), before.get("PYTHONPATH", "")]),
    }
    settings = {
        "spark.driver.memory": "640m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession  # noqa: PLC0415 - reads the environment

        from kclient.spark import KafkaDataSource  # noqa: PLC0415 - imports pyspark

        builder: Any = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.dataSource.register(KafkaDataSource)
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    """A broker of one node, in memory."""
    with RunningBroker(config={"offsets.topic.num.partitions": "1"}) as running:
        yield running
