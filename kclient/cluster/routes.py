"""Which broker a request must go to."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kclient.types import TopicPartition


class CoordinatorKind(IntEnum):
    """What a coordinator coordinates; the numbers are FindCoordinator's."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class AnyBroker(NamedTuple):
    """Whoever is there; the least busy connection is taken."""


class Controller(NamedTuple):
    """The broker that answers for the controller."""


class Node(NamedTuple):
    """One broker by its number."""

    node_id: int


class Leader(NamedTuple):
    """The broker that leads a partition."""

    partition: TopicPartition


class Coordinator(NamedTuple):
    """The broker that coordinates a group or a transactional id."""

    kind: CoordinatorKind
    key: str


Route = AnyBroker | Controller | Node | Leader | Coordinator
