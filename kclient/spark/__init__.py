"""The PySpark connector: `spark.read.format("kclient")` and its siblings, without a jar.

Importing it opens no connection and starts no thread: Spark forks its workers from a process that has
imported it. `source` is what Spark meets; everything else is imported when it is first needed.
"""

from __future__ import annotations

from kclient.spark.source import KafkaDataSource

__all__ = ["KafkaDataSource"]
