"""Reading records: alone, or as a member of a group."""

from __future__ import annotations

from kclient.consumer.blocking import Consumer
from kclient.consumer.client import AsyncConsumer
from kclient.consumer.config import ConsumerConfig
from kclient.consumer.controls import ConsumerHealth, PartitionHealth
from kclient.consumer.group.assignors.base import Assignor, Member
from kclient.consumer.group.listeners import ConsumerRebalanceListener
from kclient.consumer.metrics import ConsumerMetrics
from kclient.consumer.offsets import OffsetAndTimestamp

__all__ = [
    "Assignor",
    "AsyncConsumer",
    "Consumer",
    "ConsumerConfig",
    "ConsumerHealth",
    "ConsumerMetrics",
    "ConsumerRebalanceListener",
    "Member",
    "OffsetAndTimestamp",
    "PartitionHealth",
]
