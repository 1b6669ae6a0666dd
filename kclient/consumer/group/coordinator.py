"""The way to the coordinator of one group: find it, ask it, notice that it has moved.

One attempt each; the state machines decide about another. Joins keep a connection busy for as long as the
group needs, so requests of the membership have a lane of their own beside commits and everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.rights import lacking
from kclient.cluster.routes import Coordinator, CoordinatorKind
from kclient.errors import (
    AuthenticationError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    error_for,
)
from kclient.wire.message import Request, Response
from kclient.wire.messages.classic_groups import LeaveGroupResponse
from kclient.wire.messages.consumer_groups import ConsumerGroupHeartbeatResponse

R = TypeVar("R", bound=Response)
Leaving = TypeVar("Leaving", LeaveGroupResponse, ConsumerGroupHeartbeatResponse)

GROUP_LANE = "group"
_ELSEWHERE = (NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError)
# Also a broker that lets nobody in: meanwhile another one may coordinate.
_MOVED = (
    AuthenticationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotCoordinatorError,
    CoordinatorNotAvailableError,
)


class GroupCoordinator:
    """The broker that answers for a group."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.node_id: int | None = None
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._about = f"group {group_id}"
        self._route = Coordinator(CoordinatorKind.GROUP, group_id)

    async def ask(
        self,
        request: type[Request[R]],
        build: Callable[[int], Request[R]],
        deadline: Deadline,
        *,
        lane: str = GROUP_LANE,
        newest: int | None = None,
    ) -> R:
        """One attempt. What fails on the way is raised; error codes in the answer are the caller's."""
        try:
            node = await self._find(deadline)
            connection = await self._cluster.connection(node, deadline, lane)
            version = connection.version_for(request, newest)
            await connection.writable(deadline)
            return await connection.call(build(version), deadline, version=version)
        except KafkaError as error:
            self.learn(error)
            raise

    async def ask_patiently(
        self,
        request: type[Request[R]],
        build: Callable[[int], Request[R]],
        deadline: Deadline,
        held: Callable[[], None],
    ) -> R:
        """Ask what may take minutes. A coordinator that is frozen says nothing, so others are asked about it.

        Were only the deadline waited for, a member whose coordinator was cut off from the network after it
        had got the request would be away for the whole rebalance timeout, while the group goes on elsewhere.
        `held` is told where no answer came to what was sent: until then the coordinator had it, and it keeps
        the members whose joins and syncs it has.
        """
        sent = False

        def built(version: int) -> Request[R]:
            nonlocal sent
            sent = True
            return build(version)

        asked = self._loop.create_task(self.ask(request, built, deadline))
        try:
            while True:
                await asyncio.wait([asked], timeout=self._cluster.config.request_timeout_ms / 1000)
                if asked.done():
                    return asked.result()
                if await self._moved() and not asked.done():
                    raise NotCoordinatorError(about=self._about)
        except KafkaError:
            if sent:
                held()
            raise
        finally:
            asked.add_done_callback(_looked_at)
            asked.cancel()

    async def say_good_bye(
        self,
        request: type[Request[Leaving]],
        build: Callable[[int], Request[Leaving]],
        deadline: Deadline,
        *,
        lane: str = GROUP_LANE,
    ) -> None:
        """Leave. A broker that says it is not the coordinator names nobody, so the new one is looked for.

        Else the group would have to wait for the session of a member that left in order. Nothing is tried
        again that was not answered: whoever closes does not wait for a cluster that is gone.
        """
        limit = self._cluster.config.request_timeout_ms / 1000
        backoff = self._cluster.backoff()
        while True:
            answer = await self.ask(request, build, deadline.earlier(self._loop, limit), lane=lane)
            error = error_for(answer.error_code, about=self._about)
            if error is None:
                return
            self.learn(error)
            wait = backoff.next()
            if not isinstance(error, _ELSEWHERE) or wait >= deadline.remaining(self._loop):
                raise error
            await asyncio.sleep(wait)

    def check(self, code: int, message: str | None = None) -> None:
        """Raise what an error code in an answer stands for."""
        error = error_for(code, message, about=self._about)
        if error is not None:
            self.learn(error)
            raise error

    def learn(self, error: KafkaError) -> None:
        """Take from an error what it says about where the coordinator is; add to it what a member needs."""
        lacking(error, "Read", self._cluster.config)
        if isinstance(error, _MOVED):
            self._cluster.coordinators.forget(self._route)
            self.node_id = None

    async def _find(self, deadline: Deadline) -> int:
        self.node_id = await self._cluster.coordinators.node(self._route, deadline)
        return self.node_id

    async def _moved(self) -> bool:
        """Whether somebody else coordinates the group by now, as far as can be found out."""
        before = self.node_id
        self._cluster.coordinators.forget(self._route)
        deadline = Deadline.after(self._loop, self._cluster.config.request_timeout_ms / 1000)
        try:
            return await self._find(deadline) != before
        except KafkaError:
            return False


async def unless(
    unwanted: Callable[[], bool], news: asyncio.Event, asking: Coroutine[Any, Any, R]
) -> R | None:
    """What is answered; None once it is not wanted any more, which is looked at when there is news."""
    asked = asyncio.get_running_loop().create_task(asking)
    asked.add_done_callback(lambda _: news.set())
    try:
        while not asked.done():
            if unwanted():
                return None
            await news.wait()
            news.clear()
        return asked.result()
    finally:
        asked.add_done_callback(_looked_at)
        asked.cancel()


def _looked_at(asked: asyncio.Task[R]) -> None:
    """Nobody waits for it any more: how it ended is of no interest."""
    if not asked.cancelled():
        asked.exception()
