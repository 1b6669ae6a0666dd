"""Who coordinates which group or transaction: asked once, remembered until it turns out to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kclient.clock import Deadline
from kclient.cluster.metadata import Broker
from kclient.cluster.refresher import Refresher
from kclient.cluster.routes import Coordinator
from kclient.config import Endpoint
from kclient.errors import CoordinatorNotAvailableError, error_for
from kclient.wire.message import Request, Response
from kclient.wire.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse

R = TypeVar("R", bound=Response)

_FIRST_BATCHED_VERSION = 4


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
    """The coordinators of one cluster."""

    def __init__(self, ask: Asks, metadata: Refresher) -> None:
        self._ask = ask
        self._metadata = metadata
        self._known: dict[Coordinator, int] = {}

    async def node(self, wanted: Coordinator, deadline: Deadline) -> int:
        """The node that coordinates; one attempt if it has to be asked for."""
        known = self._known.get(wanted)
        if known is not None:
            return known
        response = await self._ask(
            None, lambda version: _request(wanted, version), FindCoordinatorRequest, deadline
        )
        broker = _read(response)
        self._metadata.introduce(broker)
        self._known[wanted] = broker.node_id
        return broker.node_id

    def forget(self, wanted: Coordinator) -> None:
        """The coordinator has moved, or cannot be reached: ask again next time."""
        self._known.pop(wanted, None)


def _request(wanted: Coordinator, version: int) -> FindCoordinatorRequest:
    if version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorRequest(key_type=wanted.kind, coordinator_keys=[wanted.key])
    return FindCoordinatorRequest(key=wanted.key, key_type=wanted.kind)


def _read(response: FindCoordinatorResponse) -> Broker:
    answer = response.coordinators[0] if response.coordinators else response
    error = error_for(answer.error_code, answer.error_message)
    if error is not None:
        raise error
    if answer.node_id < 0:
        raise CoordinatorNotAvailableError("the broker that was asked names no node")
    return Broker(answer.node_id, Endpoint(answer.host, answer.port))
