"""A Spark session for measurements: two cores, this checkout's kclient, Spark's own connector beside it.

Our documentation recommends the setting that lets Python and Java talk over Unix domain sockets; it is on.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.kafka.spark import ConnectorJars

ROOT = Path(__file__).parents[1]
_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
}


@contextmanager
def spark_session() -> Iterator[Any]:
    """A session with both connectors."""
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    from pyspark.sql import SparkSession  # noqa: PLC0415 - reads the environment

    from kclient.spark import KafkaDataSource  # noqa: PLC0415 - imports pyspark

    jars = ConnectorJars.newest().fetch()
    with tempfile.TemporaryDirectory(prefix="kclient-bench-") as scratch:
        settings = _SETTINGS | {
            "spark.jars": ",".join(str(path) for path in jars.glob("*.jar")),
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        }
        builder: Any = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            session.dataSource.register(KafkaDataSource)
            yield session
        finally:
            session.stop()
