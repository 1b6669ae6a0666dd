"""What Spark meets: one class that hands out readers and writers.

Spark makes an object of it in many processes, so it holds nothing but the options. The modules behind it are
imported on the first call, because a worker that writes needs nothing of reading and the other way round.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from kclient.errors import KafkaError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class KafkaDataSource(DataSource):
    """Kafka as a source and a sink of Spark: `format("kclient")`, options as of Spark's own connector."""

    @classmethod
    def name(cls) -> str:
        return "kclient"

    def schema(self) -> StructType:
        schema: StructType = _made("schema", "default_schema", self.options)
        return schema

    def reader(self, schema: StructType) -> Any:
        return _made("batch", "BatchReader", self.options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        return _made("stream", "stream_reader", self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return _made("sink", "batch_writer", self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return _made("sink", "stream_writer", self.options, schema, overwrite)


def _made(module: str, name: str, *arguments: Any) -> Any:
    """What a function or class of a module of ours gives; errors lose their frames, which Spark prints."""
    try:
        return getattr(import_module(f"kclient.spark.{module}"), name)(*arguments)
    except KafkaError as error:
        raise import_module("kclient.spark.reading").plainly(error) from None
