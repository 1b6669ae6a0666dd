"""What a process of Spark imports of kclient before it has answered, in a fresh interpreter.

Spark gives up on a process that does not answer in time, and on a busy machine imports are all of that time.
"""

from __future__ import annotations

import subprocess
import sys

_RUNNER = """
import sys
import pyspark.sql.streaming.python_streaming_source_runner
before = set(sys.modules)
from pyspark_kclient import DefaultSource
from pyspark.sql.types import StructType

source = DefaultSource({"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"})
reader = source.streamReader(StructType([]))
reader.getDefaultReadLimit()
print(*(set(sys.modules) - before))
"""
_QUESTION = """
import sys
import kclient.spark.directory
print(*sys.modules)
"""


def _loaded(program: str) -> set[str]:
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_a_stream_answers_spark_before_it_imports_a_client() -> None:
    loaded = _loaded(_RUNNER)
    assert "kclient.spark.admitted" in loaded
    assert not loaded & {"asyncio", "ssl", "numpy", "pyarrow"}
    parts = {name.split(".")[1] for name in loaded if name.startswith("kclient.")}
    assert parts == {"errors", "spark", "types"}


def test_the_first_question_to_kafka_needs_neither_the_other_clients_nor_numpy() -> None:
    loaded = _loaded(_QUESTION)
    assert "kclient.cluster.client" in loaded
    assert not loaded & {
        "kclient.admin",
        "kclient.consumer.client",
        "kclient.producer",
        "numpy",
        "pyarrow",
    }
