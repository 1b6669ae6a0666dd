"""What a handler is: a coroutine from a request to its answer, registered for an API and the versions it
speaks.

Handlers live in `kclient.broker.handlers`, one module per family. They raise `BrokerError`s where the whole
answer is an error and put codes into the answer where an item is. `node` calls them; `ApiVersions` is
answered from here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kclient.wire.message import Request, Response
from kclient.wire.versions import VersionRange

if TYPE_CHECKING:
    from kclient.broker.broker import Broker
    from kclient.broker.node import Node

Q = TypeVar("Q", bound=Request[Any])


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks whom, in which version."""

    broker: Broker
    node: Node
    version: int
    client_id: str
    client_host: str
    principal: str
    listener: str


Handler = Callable[[RequestContext, Any], Awaitable[Response | None]]


@dataclass(frozen=True, slots=True)
class Api:
    """One API as this broker speaks it."""

    request: type[Request[Any]]
    versions: VersionRange
    handler: Handler


APIS: dict[int, Api] = {}


def handles(
    request: type[Q], versions: str | None = None
) -> Callable[[Callable[[RequestContext, Q], Awaitable[Response | None]]], Handler]:
    """Register a handler for a request, in all its stable versions unless fewer are named."""

    def register(handler: Callable[[RequestContext, Q], Awaitable[Response | None]]) -> Handler:
        spoken = VersionRange.parse(versions) if versions else request.versions
        if versions is None and request.latest_unstable:
            spoken = VersionRange(spoken.first, spoken.last - 1)
        APIS[request.api_key] = Api(request, spoken, handler)
        return handler

    return register
