"""A member of a group that the broker assigns (KIP-848): lives through the states of `modern_states`.

`Membership` runs its two jobs: `_live` moves through the states and may wait for listeners, `_beat` sends
heartbeats and never does.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kclient.clock import Deadline
from kclient.consumer.group.context import GroupContext, due
from kclient.consumer.group.modern_requests import (
    JOIN_EPOCH,
    Said,
    Target,
    TopicNames,
    farewell,
    for_version,
    heartbeat,
    target_of,
)
from kclient.consumer.group.modern_states import BEATING, TRANSITIONS, Event, State
from kclient.consumer.group.refusals import FINAL, Refusals, is_refusal
from kclient.consumer.seam import Subscribed
from kclient.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from kclient.types import GroupMetadata
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

log: logging.Logger = logging.getLogger(__name__)

# The coordinator makes assignments for many changes at once, a second or so later, and says so in the answer
# to the heartbeat after that: whoever has just told it something looks again soon, for a while.
_SOON = 0.5
_SOON_BEATS = 10
_IF_ALIVE = "and frees it when its session is over if it was killed; if it is alive, give each its own"
# A group that nobody is in any more may be deleted: to whoever was away meanwhile it never was.
_NO_MEMBER = (FencedMemberEpochError, GroupIdNotFoundError, UnknownMemberIdError)


class ModernMember:
    """One member, under one id for as long as the consumer lives."""

    def __init__(self, context: GroupContext) -> None:
        self.state: State = State.OUT
        self.last_heartbeat: float | None = None
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._refusals = Refusals(context.cluster, context.show)
        self._names = TopicNames(context.cluster)
        self._member_id = _new_id(context.cluster.random.randbytes(16))
        self._epoch = JOIN_EPOCH
        self._said = Said()
        self._interval = context.settings.heartbeat_interval_ms / 1000
        self._woken = asyncio.Event()
        self._due = asyncio.Event()  # a heartbeat, before its time
        self._soon = 0  # heartbeats that do not wait for the interval
        self._known = False  # the coordinator may have heard of this member
        self._gone = False  # good-bye was said: a heartbeat now would be a join
        self._greeted = False  # the listener has been told that this member is in
        # Notes for the task that moves through the states.
        self._target: Target | None = None
        self._told_at = 0.0  # of the target
        self._subscribed: Subscribed | None = None  # as it was said last
        self._lost = False
        self._refused: KafkaError | None = None  # for good
        self._overdue = False
        self._unwanted = False
        self._steps: dict[State, Callable[[], Awaitable[None]]] = {
            State.OUT: self._stay_out,
            State.JOINING: self._await_admission,
            State.STABLE: self._stay_stable,
            State.RECONCILING: self._reconcile,
            State.LOSING: self._lose_everything,
            State.LEAVING: self._withdraw,
            State.FAILED: self._woken_up,
        }

    def __repr__(self) -> str:
        return f"<ModernMember {self._member_id!r} {self.state.value} epoch={self._epoch}>"

    @property
    def identity(self) -> GroupMetadata:
        """Who it is to the coordinator; without an epoch where it is not in the group."""
        settings = self._context.settings
        inside = self._epoch > JOIN_EPOCH
        return GroupMetadata(
            settings.group_id,
            self._epoch if inside else -1,
            self._member_id if inside else "",
            settings.group_instance_id,
        )

    @property
    def refusal(self) -> KafkaError | None:
        """Why the group does not take this member: for good, or for now."""
        return self._refused or self._refusals.error

    @property
    def joining(self) -> bool:
        """No: an epoch comes with the answer to this member's own heartbeat."""
        return False

    @property
    def expects_more(self) -> bool:
        """Whether the group may not have shared the partitions yet: at first it often gives nothing."""
        return not self._greeted or self._soon > 0

    def jobs(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        return self._live, self._beat

    def doubt(self) -> None:
        self._due.set()

    def wake(self) -> None:
        """Have a look: the subscription, the metadata or the application may have changed."""
        self._woken.set()
        self._context.holdings.look()

    def withdraw(self) -> None:
        """Go out, and come back if there is a subscription by then."""
        self._unwanted = True
        self.wake()

    async def leave(self, deadline: Deadline, reason: str) -> None:
        """Say good-bye, after everything was given up."""
        known, self._known = self._known, False
        self._gone = True
        self._epoch = JOIN_EPOCH
        self._target, self._said = None, Said()
        if not known:
            return
        log.info("%r leaves the group: %s", self, reason)
        # Another connection carries them: good-bye could overtake one, which would then come from a stranger.
        await self._context.commits_answered(deadline.earlier(self._loop, deadline.remaining(self._loop) / 2))
        try:
            await self._context.coordinator.say_good_bye(
                ConsumerGroupHeartbeatRequest,
                lambda _: farewell(self._context.settings, self._member_id),
                deadline,
            )
        except KafkaError as error:
            log.info("%r could not leave: %s", self, error)

    # The states

    async def _live(self) -> None:
        while True:
            await self._steps[self.state]()

    def _go(self, event: Event) -> None:
        """Move on; an event that the state does not know is a bug here."""
        self.state = TRANSITIONS[self.state, event]
        self._woken.set()

    async def _woken_up(self) -> None:
        await self._woken.wait()
        self._woken.clear()

    async def _stay_out(self) -> None:
        if self._context.positions.subscribed() is None or self._context.liveness.overdue():
            await self._woken_up()
            return
        await self._context.commits_before_joining(self._context.revoke_deadline())
        self._greeted = self._overdue = self._unwanted = self._gone = False
        self._go(Event.WANTED)
        self._due.set()

    async def _await_admission(self) -> None:
        if await self._interrupted():
            return
        if self._epoch > JOIN_EPOCH:
            self._go(Event.ADMITTED)
        else:
            await self._woken_up()

    async def _stay_stable(self) -> None:
        if await self._interrupted():
            return
        if self._context.positions.subscribed() != self._said.subscribed:
            self._due.set()
        target = self._target
        if target is not None:
            await self._learn_names(target)
            if self._target is not target:  # it took a while: there is another one, or none any more
                return
            wanted = self._names.resolved(target)
            if wanted != self._context.holdings.owned or not self._greeted:
                self._go(Event.ASSIGNED)
                return
        await self._woken_up()

    async def _learn_names(self, target: Target) -> None:
        if not self._names.knows(target):
            limit = self._context.cluster.config.request_timeout_ms
            try:
                await self._names.find(target, self._context.deadline(limit))
            except KafkaError as error:  # the next heartbeat has another look
                log.info("%r was assigned topics whose names could not be asked for: %s", self, error)

    async def _reconcile(self) -> None:
        target = self._target
        assert target is not None
        wanted = self._names.resolved(target)
        context, holdings = self._context, self._context.holdings
        async with holdings.lock:
            until = context.patience(self._told_at)
            given_up = await holdings.give_up(holdings.owned - wanted, context.revoke_deadline, until)
            self._due.set()  # somebody may be waiting for what was given up
            added = wanted - holdings.owned
            # Of an assignment that is not the last one, what is added may be somebody else's by now.
            if given_up and self._target == target and (added or not self._greeted):
                self._greeted = await holdings.take_over(added)
        self._go(Event.RECONCILED)
        self._due.set()

    @property
    def inside(self) -> bool:
        """Whether this member has its place, and an application that lives."""
        return not (self._lost or self._refused or self._context.liveness.overdue())

    async def _lose_everything(self) -> None:
        async with self._context.holdings.lock:
            await self._context.holdings.lose()
        self._lost = self._greeted = False
        self._go(Event.DROPPED)
        self._due.set()

    async def _withdraw(self) -> None:
        context, holdings = self._context, self._context.holdings
        async with holdings.lock:
            until = context.patience(self._loop.time())
            if self._overdue or not await holdings.give_up(holdings.owned, context.revoke_deadline, until):
                # Good-bye comes first: the listener may be run by a thread that is still busy with records.
                holdings.stop()
                await self.leave(context.revoke_deadline(), "the application does not ask for records")
                await holdings.lose()
        await self.leave(context.revoke_deadline(), "nothing is subscribed")
        self._go(Event.LEFT)

    async def _interrupted(self) -> bool:
        """Whether this member has to be elsewhere: look at the notes, and act on them."""
        if self._refused is not None:
            self._go(Event.REFUSED)
            self._epoch = JOIN_EPOCH
            async with self._context.holdings.lock:
                await self._context.holdings.lose()
            self._context.fail(self._refused)
        elif self._lost:
            self._go(Event.LOST)
        elif self._unwanted or self._context.positions.subscribed() is None:
            self._go(Event.UNWANTED)
        elif self._context.liveness.overdue():
            log.warning("%r: the application has not asked for records for max_poll_interval_ms", self)
            self._overdue = True
            self._go(Event.UNWANTED)
        else:
            return False
        return True

    # Heartbeats

    async def _beat(self) -> None:
        backoff = self._context.cluster.backoff()
        troubled_since: float | None = None
        while True:
            await due(self._due, min(self._interval, _SOON) if self._soon else self._interval)
            if self._context.liveness.overdue():
                self.wake()
            if not self._may_beat():
                continue
            try:
                await self._heartbeat()
                backoff.reset()
                troubled_since = None
            except KafkaError as error:
                self._said = Said()  # it may not have heard what was said: say it all again
                troubled_since = self._loop.time() if troubled_since is None else troubled_since
                refused = self._is_refused(error, self._loop.time() - troubled_since)
                self._due.set()
                await asyncio.sleep(self._met(error) if refused else backoff.next())

    def _may_beat(self) -> bool:
        return self.state in BEATING and not (self._gone or self._lost or self._refused)

    async def _heartbeat(self) -> None:
        """Say what has changed, and note what is answered."""
        context, epoch = self._context, self._epoch
        # One that goes out says nothing new, but is here until it has given everything up.
        leaving = self.state is State.LEAVING
        self._subscribed = subscribed = self._subscribed if leaving else context.positions.subscribed()
        now = Said(subscribed, context.holdings.owned)
        if now.subscribed is None:
            return
        self._known = True
        request = heartbeat(context.settings, (self._member_id, epoch), now, self._said, self._names.ids())
        answer = await context.coordinator.ask(
            ConsumerGroupHeartbeatRequest,
            lambda version: for_version(request, version),
            context.deadline(context.cluster.config.request_timeout_ms),
        )
        if epoch != self._epoch or not self._may_beat():
            return  # it has left meanwhile
        try:
            context.coordinator.check(answer.error_code, answer.error_message)
        except _NO_MEMBER as error:
            if epoch == JOIN_EPOCH:  # it did not claim to be one: trying again at once would never end
                raise
            self._lose(error)
            return
        self._note(answer, now)

    def _lose(self, error: KafkaError) -> None:
        """The coordinator does not count this member in."""
        log.warning("%r lost its place in the group: %s", self, error)
        self._lost = True
        self._known = False
        self._epoch = JOIN_EPOCH
        self._target, self._said = None, Said()
        self.wake()

    def _note(self, answer: ConsumerGroupHeartbeatResponse, said: Said) -> None:
        self._refusals.over()
        news, joins = said.subscribed != self._said.subscribed, self._epoch == JOIN_EPOCH
        self._soon = _SOON_BEATS if news else max(0, self._soon - 1)
        self._said = Said(said.subscribed, frozenset() if joins else said.owned)
        before, self.last_heartbeat = self.last_heartbeat, self._loop.time()
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        if answer.heartbeat_interval_ms > 0:
            self._interval = answer.heartbeat_interval_ms / 1000
        target = target_of(answer)
        if target is not None:
            if target != self._target:
                # The coordinator may have counted for as long as it has not answered, or not been heard.
                gap = 0.0 if before is None or joins else self.last_heartbeat - before
                self._told_at = self.last_heartbeat - max(0.0, gap - self._interval)
            self._target = target
            self._soon = 0 if target else self._soon
        if self._context.holdings.owned != self._said.owned and self.state is State.STABLE:
            self._due.set()
        self.wake()

    def _is_refused(self, error: KafkaError, seconds: float) -> bool:
        """Whether an error, after so many seconds of errors, is a no that may pass; final ones are noted.

        A static member that was killed holds its instance id until its session is over: who starts in its
        place waits, and that is a refusal only if it takes longer than a call may. The log says so at
        once, as it may also be that two processes have one id by mistake.
        """
        log.debug("%r: %s", self, error)
        if isinstance(error, FINAL):
            self._refused = error
            self.wake()
            return False
        if isinstance(error, UnreleasedInstanceIdError):
            taken = f"another member has group_instance_id={self._context.settings.group_instance_id!r}"
            self._refusals.waits(error, f"{taken}, {_IF_ALIVE}")
            return seconds * 1000 > self._context.cluster.config.default_api_timeout_ms
        if not is_refusal(error):
            self._refusals.delayed(error)
            return False
        return True

    def _met(self, error: KafkaError) -> float:
        """Note a refusal that may pass; returns how long to wait.

        It costs nothing as long as the session lasts. After that others read what this member holds. How long
        a session is, only the coordinator knows: this client's option has the same default.
        """
        silence = self._loop.time() - (self.last_heartbeat or 0.0)
        if silence * 1000 > self._context.settings.session_timeout_ms and self._context.holdings.owned:
            self._lose(error)
        return self._refusals.met(error)


def _new_id(entropy: bytes) -> str:
    """An id as Kafka writes them: 22 characters of URL-safe base64, not beginning with a dash."""
    return base64.urlsafe_b64encode(b"\x4b" + entropy[1:]).decode().rstrip("=")
