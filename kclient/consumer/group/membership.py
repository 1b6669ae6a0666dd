"""The membership of one consumer in its group: runs the protocol, hands its errors on, ends it in order.

This is what the reading half sees (`seam.Group`). The protocol itself is in `classic` or `modern`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.consumer.commits import Commits
from kclient.consumer.group.assignors.base import Assignor
from kclient.consumer.group.assignors.cooperative import CooperativeStickyAssignor
from kclient.consumer.group.assignors.range import RangeAssignor
from kclient.consumer.group.assignors.roundrobin import RoundRobinAssignor
from kclient.consumer.group.assignors.sticky import StickyAssignor
from kclient.consumer.group.classic import ClassicMember
from kclient.consumer.group.context import GroupContext, Liveness
from kclient.consumer.group.coordinator import GroupCoordinator
from kclient.consumer.group.holdings import Holdings
from kclient.consumer.group.modern import ModernMember
from kclient.consumer.seam import GroupHealth, GroupSettings, Positions
from kclient.errors import ConfigurationError, KafkaError, TopicAuthorizationFailedError
from kclient.types import GroupMetadata

log: logging.Logger = logging.getLogger(__name__)

# The state of a member, of either protocol, whose group has shared the partitions.
STABLE = "stable"
# Seconds for tasks that were cancelled.
_GRACE = 0.1
Job = Callable[[], Coroutine[Any, Any, None]]
ASSIGNORS: dict[str, type[Assignor]] = {
    kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}


class GroupMember(Protocol):
    """A protocol of membership: `ClassicMember`, `ModernMember`."""

    last_heartbeat: float | None

    @property
    def state(self) -> Any: ...

    @property
    def identity(self) -> GroupMetadata: ...

    @property
    def refusal(self) -> KafkaError | None: ...

    @property
    def joining(self) -> bool: ...

    @property
    def inside(self) -> bool: ...

    def jobs(self) -> tuple[Job, ...]: ...

    def doubt(self) -> None: ...

    def wake(self) -> None: ...

    def withdraw(self) -> None: ...

    async def leave(self, deadline: Deadline, reason: str) -> None: ...


class Membership:
    """One consumer in its group; idle without a subscription. `commits` works in either case."""

    def __init__(self, cluster: Cluster, settings: GroupSettings, positions: Positions) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._loop = asyncio.get_running_loop()
        self._jobs: list[Job] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._error: KafkaError | None = None
        self._final: KafkaError | None = None
        self._last_error: KafkaError | None = None
        self._coordinator = GroupCoordinator(cluster, settings.group_id)
        self._liveness = Liveness(positions, settings.max_poll_interval_ms)
        self.commits: Commits = Commits(cluster, settings, positions, self._coordinator, lambda: self._member)
        self._holdings = Holdings(
            positions, self.commits.before_revoking, self._show, lambda: self._member.inside
        )
        self._context = GroupContext(
            cluster=cluster,
            settings=settings,
            positions=positions,
            coordinator=self._coordinator,
            holdings=self._holdings,
            liveness=self._liveness,
            commits_answered=self.commits.answered,
            commits_before_joining=self.commits.before_joining,
            show=self._show,
            fail=self._fail,
        )
        self._member: GroupMember = self._new_member()
        cluster.metadata.listen(lambda _: self._member.wake())
        self._background = cluster.tasks
        self._background.when_failed(self._break_down)

    def __repr__(self) -> str:
        return f"<Membership in {self._settings.group_id}: {self._member!r}, {self._holdings!r}>"

    def _new_member(self) -> GroupMember:
        if self._settings.group_protocol == "consumer":
            return ModernMember(self._context)
        return ClassicMember(self._context, chosen_assignors(self._settings.partition_assignment_strategy))

    def start(self) -> None:
        """Begin to work; joining happens in the background."""
        self._liveness.polled()
        self._jobs = [*self._member.jobs(), self.commits.run]
        if self._settings.enable_auto_commit:
            self._jobs.append(self.commits.run_auto)
        name = f"kclient group {self._settings.group_id}"
        self._tasks = [self._background.start(job(), f"{name}: {job.__qualname__}") for job in self._jobs]

    def subscription_changed(self) -> None:
        self._member.wake()

    def unsubscribed(self) -> None:
        self.commits.commit_processed()
        self._member.withdraw()

    def assigned_by_hand(self) -> None:
        self.commits.commit_processed()

    def listen(self, listener: object | None) -> None:
        self._holdings.listener = listener

    def polled(self) -> None:
        # Not whether it is overdue now: by the time another thread's call is heard of here, it waits already.
        if self._liveness.polled():
            self._member.wake()

    def came_back(self) -> None:
        self._holdings.look()

    @property
    def has_nothing(self) -> bool:
        """Whether the group has shared the partitions, and this member was given none."""
        member = self._member
        if isinstance(member, ModernMember) and member.expects_more:
            return False
        return bool(member.state.value == STABLE) and not self._holdings.owned

    def metadata(self) -> GroupMetadata:
        return self._member.identity

    def take_error(self) -> KafkaError | None:
        error, self._error = self._error, None
        return self._final or error

    def health(self) -> GroupHealth:
        identity, beat, refusal = self._member.identity, self._member.last_heartbeat, self._member.refusal
        return GroupHealth(
            state=self._member.state.value,
            member_id=identity.member_id,
            generation=identity.generation_id,
            coordinator=self._coordinator.node_id,
            last_heartbeat_age=None if beat is None else self._loop.time() - beat,
            last_poll_age=self._liveness.age,
            last_error=str(refusal or self._last_error) if refusal or self._last_error else None,
            refused=None if refusal is None else str(refusal),
        )

    async def close(self, deadline: Deadline) -> None:
        """Commit if that is automatic, give up all partitions, leave; by the deadline, without raising.

        A listener that is running is waited for: whoever holds the lock takes over and gives up nothing.
        Heartbeats and commits go on until the end, because the last listener may want to commit: so an
        automatic one gets half of the time, or with the cluster gone the listener would hear nothing. Joining
        goes on too: between the join and the assignment the coordinator takes no commits, and it gets no
        further if the one that shall assign, which may be this one, stops there.
        """
        self._holdings.hurry(self._half_of(deadline))
        try:
            async with asyncio.timeout_at(deadline.at):
                async with self._holdings.lock:
                    rest = self._half_of(deadline)
                    self._holdings.hurry(rest)
                    await self._let_go(rest)
                    if self._tasks:
                        self._background.end(self._tasks[0])
                await self._member.leave(deadline, "the consumer was closed")
        except TimeoutError:
            log.warning("%r was closed before it could leave the group", self)
        finally:
            await self._end_tasks()

    def _half_of(self, deadline: Deadline) -> Deadline:
        return deadline.earlier(self._loop, deadline.remaining(self._loop) / 2)

    async def _end_tasks(self) -> None:
        """End every task, also where whoever closes is cancelled: they are told before they are awaited."""
        tasks = self.retire()
        if tasks:  # a listener of the application may take its time
            await asyncio.wait(tasks, timeout=_GRACE)

    def retire(self) -> Collection[asyncio.Task[None]]:
        self.commits.close()
        tasks, self._tasks, self._jobs = self._tasks, [], []
        for task in tasks:
            self._background.end(task)
        return [*tasks, *self._holdings.end()]

    async def _let_go(self, deadline: Deadline) -> None:
        if self._positions.subscribed() is None and not self._holdings.owned:
            await self.commits.before_closing(deadline)
        elif self._member.identity.generation_id < 0:
            await self._holdings.lose()
        else:
            await self._holdings.give_up(self._holdings.owned, lambda: deadline)

    def _show(self, error: KafkaError) -> None:
        self._last_error = error
        codes = self._cluster.metadata.snapshot.errors.values()
        if isinstance(error, TopicAuthorizationFailedError) and error.code in codes:
            return  # the reading half has raised it already, with the name of the topic
        self._error = error
        self._positions.wake()

    def _fail(self, error: KafkaError) -> None:
        self._final = self._last_error = error
        self._positions.wake()

    def _break_down(self, failure: KafkaError) -> None:
        """A task of this client is missing, so it reads no more: others take over when its session ends.

        Nothing that would prolong it goes on, automatic commits included. What closing commits is sent.
        """
        self._fail(failure)
        for job, task in zip(self._jobs, self._tasks, strict=True):
            if job != self.commits.run:
                self._background.end(task)


def chosen_assignors(strategy: Sequence[object]) -> list[Assignor]:
    """The assignors that a configuration names: by name, by class, or as they are."""
    chosen: list[Assignor] = []
    for given in strategy:
        made = ASSIGNORS.get(given) if isinstance(given, str) else given
        if isinstance(made, type) and issubclass(made, Assignor):
            made = made()
        if not isinstance(made, Assignor):
            raise ConfigurationError(
                f"partition_assignment_strategy: {given!r} is none of {', '.join(ASSIGNORS)}, "
                "and neither a class nor an object of kclient's Assignor"
            )
        chosen.append(made)
    if not chosen or len({assignor.name for assignor in chosen}) < len(chosen):
        raise ConfigurationError(f"partition_assignment_strategy={strategy!r}: name each assignor once")
    return chosen
