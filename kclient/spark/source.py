"""What Spark meets: one class that hands out readers and writers.

Spark makes an object of it in many processes, so it holds nothing but the options. The modules behind it are
imported on the first call, because a worker that writes needs nothing of reading and the other way round.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class KafkaDataSource(DataSource):
    """Kafka as a source and a sink of Spark: `format("kclient")`, options as of Spark's own connector."""

    @classmethod
    def name(cls) -> str:
        return "kclient"

    def schema(self) -> StructType:
        schema: StructType = _module("schema").default_schema(self.options)
        return schema

    def reader(self, schema: StructType) -> Any:
        return _module("batch").BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        return _module("stream").stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return _module("sink").batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return _module("sink").stream_writer(self.options, schema, overwrite)


def _module(name: str) -> Any:
    return import_module(f"kclient.spark.{name}")
