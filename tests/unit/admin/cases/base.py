"""What a case is, and the values that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kclient.admin import AclOperation, ConfigResource
from kclient.admin.operation import AdminOperation
from kclient.cluster.metadata import Broker
from kclient.config import Endpoint
from kclient.types import TopicPartition
from kclient.wire.message import Response

ID = UUID(int=7)
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("users", 1)
TOPIC, BROKER = ConfigResource.topic("orders"), ConfigResource.broker(1)
READ_AND_DESCRIBE = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
PERMISSIONS = frozenset({AclOperation.READ, AclOperation.DESCRIBE})
NOT_TOLD = -(1 << 31)
ONE = Broker(1, Endpoint("one", 9092), "r1")
TWO = Broker(2, Endpoint("two", 9093), None)


@dataclass(frozen=True)
class Case:
    operation: AdminOperation[Any, Any]
    keys: list[Any]
    answer: Callable[[int], Response]
    outcomes: Callable[[int], dict[Any, Any]]

    @property
    def name(self) -> str:
        return type(self.operation).__name__

    @property
    def versions(self) -> range:
        first, last = self.operation.request.versions
        newest = self.operation.newest
        return range(first, (last if newest is None else newest) + 1)
