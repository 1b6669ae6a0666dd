"""Faults on request: what the next requests of a kind meet instead of a healthy broker.

    broker.faults.answer_with(ApiKey.PRODUCE, NotLeaderOrFollowerError, times=2)
    broker.faults.delay(ApiKey.FETCH, 0.5)
    broker.faults.drop(times=1)

A fault applies to `times` requests (None: until it is removed) of one API, or of any, on one node, or on all.
`broker.faults.hook` sees every request, and may answer it itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kclient.errors import BrokerError, ConfigurationError, error_for
from kclient.usercode import call, name_of
from kclient.wire.message import Request, Response

if TYPE_CHECKING:
    from kclient.broker.api import RequestContext
    from kclient.broker.session import Session

Handle = Callable[[], Awaitable[Response | None]]
Hook = Callable[["RequestContext", Request[Any]], Awaitable[Response | None] | Response | None]


class Kind(Enum):
    """What a fault does."""

    ERROR = "answer with an error code, without doing anything"
    DELAY = "answer late"
    DROP = "do it, but never answer"
    IGNORE = "neither do it nor answer"
    CLOSE_BEFORE = "end the connection instead of doing it"
    CLOSE_AFTER = "do it, then end the connection instead of answering"
    THROTTLE = "answer with a throttle time"
    SLOW = "let the answer trickle"
    HALF_OPEN = "never answer anything again, and leave the connection open"


@dataclass
class Fault:
    """A planned fault; `remove` ends it early."""

    kind: Kind
    api_key: int | None
    node_id: int | None
    times: int | None
    value: Any = None
    met: int = 0

    def applies(self, context: RequestContext, request: Request[Any]) -> bool:
        return (
            (self.times is None or self.met < self.times)
            and self.api_key in (None, request.api_key)
            and self.node_id in (None, context.node.node_id)
        )

    def remove(self) -> None:
        self.times = 0


class Faults:
    """The faults of one cluster. The first that applies is met."""

    def __init__(self) -> None:
        self.hook: Hook | None = None
        self._planned: list[Fault] = []

    def answer_with(
        self, api_key: int, error: type[BrokerError] | int, *, times: int | None = 1, node: int | None = None
    ) -> Fault:
        """Answer with an error code, as if everything in the request had met it."""
        code = error if isinstance(error, int) else error.code
        if code == 0:
            raise ConfigurationError("error=0 is success, not an error: name a BrokerError or its code")
        return self._plan(Fault(Kind.ERROR, api_key, node, times, code))

    def delay(
        self, api_key: int | None, seconds: float, *, times: int | None = 1, node: int | None = None
    ) -> Fault:
        """Do what is asked and answer late."""
        return self._plan(Fault(Kind.DELAY, api_key, node, times, seconds))

    def throttle(
        self, api_key: int | None, milliseconds: int, *, times: int | None = 1, node: int | None = None
    ) -> Fault:
        """Answer with a throttle time and look at nothing more of that client for as long (KIP-219)."""
        return self._plan(Fault(Kind.THROTTLE, api_key, node, times, milliseconds))

    def slow(
        self, api_key: int | None, bytes_per_second: int, *, times: int | None = 1, node: int | None = None
    ) -> Fault:
        """Do what is asked and let the answer trickle."""
        return self._plan(Fault(Kind.SLOW, api_key, node, times, bytes_per_second))

    def half_open(
        self, api_key: int | None = None, *, times: int | None = 1, node: int | None = None
    ) -> Fault:
        """From such a request on, be gone without a word: the connection stays open, and that is all."""
        return self._plan(Fault(Kind.HALF_OPEN, api_key, node, times))

    def drop(
        self,
        api_key: int | None = None,
        *,
        handled: bool = True,
        times: int | None = 1,
        node: int | None = None,
    ) -> Fault:
        """Never answer; the request is done all the same unless `handled` is False."""
        return self._plan(Fault(Kind.DROP if handled else Kind.IGNORE, api_key, node, times))

    def close(
        self,
        api_key: int | None = None,
        *,
        handled: bool = False,
        times: int | None = 1,
        node: int | None = None,
    ) -> Fault:
        """End the connection instead of answering; the request is done before that where `handled`."""
        kind = Kind.CLOSE_AFTER if handled else Kind.CLOSE_BEFORE
        return self._plan(Fault(kind, api_key, node, times))

    def clear(self) -> None:
        """Be healthy again."""
        self._planned.clear()
        self.hook = None

    async def around(
        self, session: Session, context: RequestContext, request: Request[Any], handle: Handle
    ) -> Response | None:
        """Handle a request, through the hook and the fault that it meets."""
        answered = await self._ask_hook(context, request)
        if answered is not None:
            return answered
        fault = next((fault for fault in self._planned if fault.applies(context, request)), None)
        if fault is None:
            return await handle()
        fault.met += 1
        return await _meet(fault, session, handle)

    def _plan(self, fault: Fault) -> Fault:
        self._planned = [known for known in self._planned if known.times is None or known.met < known.times]
        self._planned.append(fault)
        return fault

    async def _ask_hook(self, context: RequestContext, request: Request[Any]) -> Response | None:
        if self.hook is None:
            return None
        said, error = await call(self.hook, context, request)
        if isinstance(error, BrokerError):
            raise error
        if error is not None:
            raise RuntimeError(f"the hook {name_of(self.hook)} failed: {error!r}") from error
        if not isinstance(said, Response | None):
            raise TypeError(f"the hook {name_of(self.hook)} answered {said!r}: return a Response, or None")
        return said


async def _meet(fault: Fault, session: Session, handle: Handle) -> Response | None:
    match fault.kind:
        case Kind.ERROR:
            error = error_for(fault.value)
            assert error is not None
            raise error
        case Kind.IGNORE:
            return None
        case Kind.CLOSE_BEFORE:
            session.close()
            return None
        case Kind.HALF_OPEN:
            session.fall_silent()
            return None
    response = await handle()
    match fault.kind:
        case Kind.DELAY:
            await asyncio.sleep(fault.value)
        case Kind.DROP:
            return None
        case Kind.CLOSE_AFTER:
            session.close()
            return None
        case Kind.THROTTLE if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = fault.value  # type: ignore[union-attr]
            session.rest(fault.value / 1000)
        case Kind.SLOW:
            session.slow_down(fault.value)
    return response
