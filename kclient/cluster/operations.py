"""Drives an operation over many keys to its end: find the broker of each key, ask, read, try again.

An `Operation` says what to ask and how to read the answer, and does no I/O. `run` does the rest: it groups
keys by broker, sends one request to each, keeps what succeeded, gives up on what cannot succeed, and
repeats the rest with a back-off until one overall deadline. Keys are whatever an operation is about:
topics, groups, partitions.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Hashable
from typing import Any, ClassVar, Generic, TypeVar

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.rights import lacking
from kclient.cluster.routes import AnyBroker, Controller, Coordinator, Leader, Node, Route
from kclient.errors import (
    BrokerNotAvailableError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotControllerError,
    NotCoordinatorError,
    ProtocolError,
    UnknownTopicOrPartitionError,
    error_for,
)
from kclient.types import TopicPartition
from kclient.wire.message import Request, Response

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_UNKNOWN_TOPIC_ATTEMPTS = 4


class Operation(ABC, Generic[K, T]):
    """One kind of request over keys.

    `request` is its declaration, from which the version is negotiated; `newest` is the last version that the
    operation can build and read, where it does not keep up with the declaration.
    """

    request: ClassVar[type[Request[Any]]]
    newest: ClassVar[int | None] = None

    @abstractmethod
    def route(self, key: K) -> Route:
        """Where the request for this key goes."""

    @abstractmethod
    def build(self, keys: list[K], version: int) -> Request[Any]:
        """One request for keys that go to the same broker."""

    @abstractmethod
    def read(self, response: Any, keys: list[K]) -> dict[K, T | KafkaError]:
        """What became of each key. A key that the answer does not mention is reported as an error."""


async def run(
    cluster: Cluster, operation: Operation[K, T], keys: Collection[K], deadline: Deadline
) -> dict[K, T | KafkaError]:
    """The outcome of every key: its value, or the error that ended its attempts."""
    outcomes: dict[K, T | KafkaError] = {}
    pending = list(dict.fromkeys(keys))
    backoff = cluster.backoff()
    loop = asyncio.get_running_loop()
    while pending:
        round_ = await _one_round(cluster, operation, pending, deadline)
        pending = []
        for key, outcome in round_.items():
            if isinstance(outcome, KafkaError) and _worth_another(outcome, backoff.attempts + 1):
                _learn(cluster, operation.route(key), outcome)
                pending.append(key)
                if key in outcomes and deadline.passed(loop):
                    continue  # an attempt that only ran out of time: what failed before says more
            outcomes[key] = outcome
        if not pending:
            break
        wait = backoff.next()
        if wait >= deadline.remaining(loop):
            for key in pending:
                outcomes[key] = _gave_up(operation, outcomes[key], deadline)
            break
        await asyncio.sleep(wait)
    return {key: outcomes[key] for key in dict.fromkeys(keys)}


async def run_one(cluster: Cluster, operation: Operation[K, T], key: K, deadline: Deadline) -> T:
    """The value of a single key; its error is raised."""
    outcome = (await run(cluster, operation, [key], deadline))[key]
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


async def _one_round(
    cluster: Cluster, operation: Operation[K, T], keys: list[K], deadline: Deadline
) -> dict[K, T | KafkaError]:
    routes = {key: operation.route(key) for key in keys}
    targets = await _resolve(cluster, operation.request, set(routes.values()), deadline)
    outcomes: dict[K, T | KafkaError] = {}
    by_node: dict[int | None, list[K]] = defaultdict(list)
    for key, route in routes.items():
        target = targets[route]
        if isinstance(target, KafkaError):
            outcomes[key] = target
        else:
            by_node[target].append(key)
    answers = await asyncio.gather(
        *(_ask(cluster, operation, node, group, deadline) for node, group in by_node.items())
    )
    for answer in answers:
        outcomes.update(answer)
    return outcomes


async def _ask(
    cluster: Cluster, operation: Operation[K, T], node: int | None, keys: list[K], deadline: Deadline
) -> dict[K, T | KafkaError]:
    try:
        response: Response = await cluster.call(
            node,
            lambda version: operation.build(keys, version),
            operation.request,
            deadline,
            newest=operation.newest,
        )
    except KafkaError as error:
        return dict.fromkeys(keys, error)
    read = operation.read(response, keys)
    missing = f"the answer to {operation.request.__name__} does not mention it"
    outcomes = {key: read.get(key, ProtocolError(missing)) for key in keys}
    for outcome in outcomes.values():
        lacking(outcome, operation.request, cluster.config)
    return outcomes


async def _resolve(
    cluster: Cluster, request: type[Request[Any]], routes: set[Route], deadline: Deadline
) -> dict[Route, int | KafkaError | None]:
    """The node of every route; None stands for any broker."""
    ordered = list(routes)
    found = await asyncio.gather(*(_node_of(cluster, request, route, deadline) for route in ordered))
    return dict(zip(ordered, found, strict=True))


async def _node_of(
    cluster: Cluster, request: type[Request[Any]], route: Route, deadline: Deadline
) -> int | KafkaError | None:
    try:
        match route:
            case AnyBroker():
                return None
            case Node(node_id):
                return await _present(cluster, node_id, deadline)
            case Controller():
                return await _controller(cluster, deadline)
            case Leader(partition):
                return await _leader(cluster, partition, deadline)
            case Coordinator():
                return await cluster.coordinators.node(route, deadline)
    except KafkaError as error:
        return lacking(error, request, cluster.config)  # whose right implies that to Describe


async def _present(cluster: Cluster, node_id: int, deadline: Deadline) -> int:
    """The node, if it is in the cluster: one that has left may never come back."""
    if node_id not in cluster.metadata.snapshot.brokers:
        snapshot = await cluster.metadata.refreshed(deadline)
        if node_id not in snapshot.brokers:
            known = ", ".join(map(str, sorted(snapshot.brokers)))
            raise BrokerNotAvailableError(about=f"broker {node_id}; the cluster has {known}")
    return node_id


async def _controller(cluster: Cluster, deadline: Deadline) -> int:
    snapshot = cluster.metadata.snapshot
    if snapshot.controller_id not in snapshot.brokers:
        snapshot = await cluster.metadata.refreshed(deadline)
    if snapshot.controller_id not in snapshot.brokers:
        raise NotControllerError("the cluster names no controller at the moment")
    return snapshot.controller_id


async def _leader(cluster: Cluster, partition: TopicPartition, deadline: Deadline) -> int:
    """One look at the metadata, fetched anew if it lacks the topic; `run` decides about another."""
    name, number = partition
    cluster.metadata.look_up(name)
    snapshot = cluster.metadata.snapshot
    if name not in snapshot.topics:
        snapshot = await cluster.metadata.refreshed(deadline, name)
    about = f"topic {name}, partition {number}"
    topic = snapshot.topics.get(name)
    if topic is None:
        raise error_for(snapshot.errors.get(name, 0), about=about) or UnknownTopicOrPartitionError(
            about=about
        )
    if number not in topic.partitions:
        raise UnknownTopicOrPartitionError(about=about)
    leader = snapshot.leader(partition)
    if leader is None:
        raise LeaderNotAvailableError(about=about)
    return leader


def _worth_another(error: KafkaError, attempts: int) -> bool:
    """Whether to try again after so many attempts.

    A broker that has not heard of a new topic yet and one that is asked about no topic at all say the same;
    the caller shall not wait for the whole deadline to learn that a name was misspelt.
    """
    if isinstance(error, UnknownTopicOrPartitionError):
        return attempts < _UNKNOWN_TOPIC_ATTEMPTS
    return error.retriable


def _learn(cluster: Cluster, route: Route, error: KafkaError) -> None:
    """Take from a passing error what it says about who is where."""
    if isinstance(route, Coordinator) and isinstance(error, _COORDINATOR_MOVED):
        cluster.coordinators.forget(route)
    if error.refresh_metadata or isinstance(route, (Controller, Leader)):
        cluster.metadata.ask()


def _gave_up(operation: Operation[K, T], outcome: T | KafkaError, deadline: Deadline) -> KafkaError:
    name = operation.request.__name__.removesuffix("Request")
    error = KafkaTimeoutError(
        f"{name} did not succeed within {deadline.seconds:g} s; the last failure: {outcome}"
    )
    error.__cause__ = outcome if isinstance(outcome, KafkaError) else None
    return error


_COORDINATOR_MOVED = (KafkaConnectionError, NotCoordinatorError, CoordinatorNotAvailableError)
