"""kclient: a Kafka client SDK in pure Python.

The names below are imported when they are first used, so that `import kclient` costs next to nothing. What
the admin verbs take and give is in `kclient.admin`, what a consumer takes and gives in `kclient.consumer`,
every exception in `kclient.errors`.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # as type checkers understand it too; `typing` would be most of the cost of this import
if TYPE_CHECKING:
    from kclient import admin, consumer, errors, producer
    from kclient.admin import Admin, AsyncAdmin
    from kclient.consumer import AsyncConsumer, Consumer
    from kclient.errors import KafkaError
    from kclient.producer import AsyncProducer, Producer
    from kclient.types import (
        Header,
        OffsetAndMetadata,
        Record,
        RecordMetadata,
        Secret,
        TimestampType,
        TopicPartition,
    )

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "Header",
    "KafkaError",
    "OffsetAndMetadata",
    "Producer",
    "Record",
    "RecordMetadata",
    "Secret",
    "TimestampType",
    "TopicPartition",
    "admin",
    "consumer",
    "errors",
    "producer",
]

_HOMES = {
    "Admin": "kclient.admin",
    "AsyncAdmin": "kclient.admin",
    "AsyncConsumer": "kclient.consumer",
    "AsyncProducer": "kclient.producer",
    "Consumer": "kclient.consumer",
    "Header": "kclient.types",
    "KafkaError": "kclient.errors",
    "OffsetAndMetadata": "kclient.types",
    "Producer": "kclient.producer",
    "Record": "kclient.types",
    "RecordMetadata": "kclient.types",
    "Secret": "kclient.types",
    "TimestampType": "kclient.types",
    "TopicPartition": "kclient.types",
}
_MODULES = ("admin", "consumer", "errors", "producer")


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for one of these

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"kclient.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'kclient' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
