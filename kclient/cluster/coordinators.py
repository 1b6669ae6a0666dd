"""Who coordinates which group or transaction: asked once, remembered until it turns out to be wrong.

Who needs a coordinator that the cluster does not name asks again and again, and may wait for long: the log
and `health()` say so here, for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from kclient.clock import Deadline
from kclient.cluster.metadata import Broker
from kclient.cluster.refresher import Refresher
from kclient.cluster.routes import Coordinator, CoordinatorKind
from kclient.config import Endpoint
from kclient.errors import AuthorizationError, CoordinatorNotAvailableError, KafkaError, error_for
from kclient.reminders import IN_LOG, Reminders
from kclient.wire.message import Request, Response
from kclient.wire.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse

R = TypeVar("R", bound=Response)

log: logging.Logger = logging.getLogger(__name__)

_FIRST_BATCHED_VERSION = 4
# Where brokers keep what coordinators know: they make these topics when the first coordinator is asked for.
_KEPT_IN = {
    CoordinatorKind.GROUP: ("group", "__consumer_offsets", "offsets.topic.replication.factor"),
    CoordinatorKind.TRANSACTION: (
        "transactional id",
        "__transaction_state",
        "transaction.state.log.replication.factor",
    ),
    CoordinatorKind.SHARE: (
        "share group",
        "__share_group_state",
        "share.coordinator.state.topic.replication.factor",
    ),
}


class Asks(Protocol):
    """Makes one attempt at one request; `Cluster.call`."""

    async def __call__(
        self,
        node_id: int | None,
        build: Callable[[int], Request[R]],
        request: type[Request[R]],
        deadline: Deadline,
    ) -> R: ...


class Coordinators:
    """The coordinators of one cluster. That one is missing stands for `standing` seconds."""

    def __init__(self, ask: Asks, metadata: Refresher, standing: float) -> None:
        self._ask = ask
        self._metadata = metadata
        self._standing = standing
        self._loop = asyncio.get_running_loop()
        self._known: dict[Coordinator, int] = {}
        self._missing: dict[Coordinator, tuple[KafkaError, float]] = {}
        self._reminders = Reminders(IN_LOG)

    async def node(self, wanted: Coordinator, deadline: Deadline) -> int:
        """The node that coordinates; one attempt if it has to be asked for."""
        known = self._known.get(wanted)
        if known is not None:
            return known
        response = await self._ask(
            None, lambda version: _request(wanted, version), FindCoordinatorRequest, deadline
        )
        try:
            broker = _read(response, wanted)
        except KafkaError as error:
            if error.retriable:
                self._not_found(wanted, error)
            raise
        self._found(wanted)
        self._metadata.introduce(broker)
        self._known[wanted] = broker.node_id
        return broker.node_id

    def forget(self, wanted: Coordinator) -> None:
        """The coordinator has moved, or cannot be reached: ask again next time."""
        self._known.pop(wanted, None)

    def complaints(self) -> tuple[str, ...]:
        """Which coordinators cannot be found now, a sentence or two for each."""
        now = self._loop.time()
        return tuple(
            _told(wanted, error)
            for wanted, (error, at) in self._missing.items()
            if now - at <= self._standing
        )

    def _not_found(self, wanted: Coordinator, error: KafkaError) -> None:
        now = self._loop.time()
        before = self._missing.get(wanted)
        if before is not None and now - before[1] > self._standing:
            self._reminders.over(wanted)  # nobody has asked for long: it is a new matter
        self._missing[wanted] = error, now
        if self._reminders.due(wanted, now):
            log.warning("%s", _told(wanted, error))

    def _found(self, wanted: Coordinator) -> None:
        if self._missing.pop(wanted, None) is not None:
            self._reminders.over(wanted)


def _request(wanted: Coordinator, version: int) -> FindCoordinatorRequest:
    if version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorRequest(key_type=wanted.kind, coordinator_keys=[wanted.key])
    return FindCoordinatorRequest(key=wanted.key, key_type=wanted.kind)


def _read(response: FindCoordinatorResponse, wanted: Coordinator) -> Broker:
    answer = response.coordinators[0] if response.coordinators else response
    error = error_for(answer.error_code, answer.error_message)
    if isinstance(error, AuthorizationError):
        error = type(error)(answer.error_message, about=f"{_KEPT_IN[wanted.kind][0]} {wanted.key}")
    if error is not None:
        raise error
    if answer.node_id < 0:
        raise CoordinatorNotAvailableError("the broker that was asked names no node")
    return Broker(answer.node_id, Endpoint(answer.host, answer.port))


def _told(wanted: Coordinator, error: KafkaError) -> str:
    what, topic, option = _KEPT_IN[wanted.kind]
    hint = (
        f" Brokers keep it in the topic {topic}, which they make with as many replicas as {option} says (3 "
        "unless it is set): as many brokers have to be up"
        if isinstance(error, CoordinatorNotAvailableError)
        else ""
    )
    reason = str(error).removesuffix(".")
    return f"the coordinator of {what} {wanted.key!r} cannot be found: {reason}.{hint}"
