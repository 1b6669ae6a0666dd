"""What a family of verbs stands on. `AsyncAdmin` is made of families and provides the cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable
from typing import TypeAlias, TypeVar

from kclient.admin.operation import AdminOperation
from kclient.admin.outcomes import Outcomes
from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.operations import run
from kclient.errors import IncompatibleBrokerError
from kclient.types import TopicPartition

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Names: TypeAlias = str | Iterable[str]
Partitions: TypeAlias = TopicPartition | Iterable[TopicPartition]


class Verbs(ABC):
    """A family of verbs."""

    @abstractmethod
    def _open(self) -> Cluster:
        """The cluster that this client talks to; made on first use."""

    async def _run(
        self, operation: AdminOperation[K, T], keys: Collection[K], deadline: Deadline
    ) -> Outcomes[K, T]:
        outcomes = await run(self._open(), operation, keys, deadline)
        return Outcomes(
            {
                key: operation.unavailable(outcome)
                if isinstance(outcome, IncompatibleBrokerError)
                else outcome
                for key, outcome in outcomes.items()
            }
        )

    async def _run_and_raise(
        self, operation: AdminOperation[K, T], keys: Collection[K], deadline: Deadline, *, raise_errors: bool
    ) -> Outcomes[K, T]:
        outcomes = await self._run(operation, keys, deadline)
        if raise_errors:
            outcomes.raise_errors()
        return outcomes

    async def _run_one(self, operation: AdminOperation[None, T], deadline: Deadline) -> T:
        """The value of an operation that has nothing to be about; its error is raised."""
        outcomes = await self._run(operation, [None], deadline)
        return outcomes[None]

    def _broker_timeout_ms(self, deadline: Deadline) -> int:
        """How long a broker may work at a request: no longer than we wait for it."""
        return int(min(deadline.seconds * 1000, self._open().config.request_timeout_ms))


def several(names: Names) -> list[str]:
    """One name or many, as a list without repetitions."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def several_partitions(partitions: Partitions) -> list[TopicPartition]:
    """One partition or many, as a list without repetitions."""
    if isinstance(partitions, TopicPartition):
        return [partitions]
    return list(dict.fromkeys(TopicPartition(*partition) for partition in partitions))
