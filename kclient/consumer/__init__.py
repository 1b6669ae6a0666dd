"""Reading records: alone, or as a member of a group.

The names below are imported when they are first used: who needs one module of this package, as the PySpark
connector does, does not pay for all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kclient.consumer.blocking import Consumer
    from kclient.consumer.client import AsyncConsumer
    from kclient.consumer.config import ConsumerConfig, ConsumerOptions
    from kclient.consumer.controls import ConsumerHealth, PartitionHealth
    from kclient.consumer.group.assignors.base import Assignor, Member
    from kclient.consumer.group.listeners import ConsumerRebalanceListener
    from kclient.consumer.hooks import ConsumerHook
    from kclient.consumer.metrics import ConsumerMetrics
    from kclient.consumer.offsets import OffsetAndTimestamp

__all__ = [
    "Assignor",
    "AsyncConsumer",
    "Consumer",
    "ConsumerConfig",
    "ConsumerHealth",
    "ConsumerHook",
    "ConsumerMetrics",
    "ConsumerOptions",
    "ConsumerRebalanceListener",
    "Member",
    "OffsetAndTimestamp",
    "PartitionHealth",
]

_HOMES = {
    "Assignor": "kclient.consumer.group.assignors.base",
    "AsyncConsumer": "kclient.consumer.client",
    "Consumer": "kclient.consumer.blocking",
    "ConsumerConfig": "kclient.consumer.config",
    "ConsumerOptions": "kclient.consumer.config",
    "ConsumerHealth": "kclient.consumer.controls",
    "ConsumerHook": "kclient.consumer.hooks",
    "ConsumerMetrics": "kclient.consumer.metrics",
    "ConsumerRebalanceListener": "kclient.consumer.group.listeners",
    "Member": "kclient.consumer.group.assignors.base",
    "OffsetAndTimestamp": "kclient.consumer.offsets",
    "PartitionHealth": "kclient.consumer.controls",
}


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for one of these

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
