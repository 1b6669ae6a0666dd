"""A member of a classic group: lives through the states of `classic_states`.

`Membership` runs its two jobs: `_live` moves through the states, `_beat` sends heartbeats and leaves notes.
The first may wait for listeners, the second never does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kclient.clock import Deadline
from kclient.cluster.client import MAIN_LANE
from kclient.cluster.retry import Backoff
from kclient.consumer.group import classic_requests as requests
from kclient.consumer.group.assignors.base import Assignment, Assignor
from kclient.consumer.group.classic_states import BEATING, TRANSITIONS, Event, State
from kclient.consumer.group.context import GroupContext, due
from kclient.consumer.group.coordinator import unless
from kclient.consumer.group.leader import Basis, find_basis, look_up, remind, share
from kclient.consumer.group.protocol import decode_assignment
from kclient.consumer.group.refusals import FINAL, Refusals, is_refusal
from kclient.consumer.seam import Subscribed
from kclient.errors import (
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kclient.types import GroupMetadata, TopicPartition
from kclient.wire.message import Request, Response
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)

log: logging.Logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

NO_GENERATION = -1
_JOIN_GRACE_MS = 5_000  # the coordinator answers when the rebalance timeout is over, and the answer travels


class ClassicMember:
    """One member. `identity` is who it is to the coordinator: without a generation, or an id, if lost."""

    def __init__(self, context: GroupContext, assignors: Sequence[Assignor]) -> None:
        self.state: State = State.OUT
        self.last_heartbeat: float | None = None
        self._context = context
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._loop = asyncio.get_running_loop()
        self._backoff = context.cluster.backoff()
        self._refusals = Refusals(context.cluster, context.show)
        self._heard_at = self._loop.time()  # when the coordinator last took this member for one
        self._woken = asyncio.Event()
        self._member_id = ""
        self._generation = NO_GENERATION
        # The generation that gave this member what it holds: of two claims, the newer one is true.
        self._adopted = NO_GENERATION
        self._joined: Subscribed | None = None
        self._answer: JoinGroupResponse | None = None
        self._basis: Basis | None = None  # there while this member leads
        self._quiet = False  # heartbeats would only wait behind a sync that the coordinator has to answer
        self._beat_refused = False  # the last refusal was a heartbeat's
        self._due = asyncio.Event()  # a heartbeat, before its time
        # Notes for the task that moves through the states.
        self._lost = False
        self._unwanted = False
        self._refused: KafkaError | None = None  # for good
        self._reason = ""
        self._told_at: float | None = None  # of the rebalance that it prepares for
        self._steps: dict[State, Callable[[], Awaitable[None]]] = {
            State.OUT: self._stay_out,
            State.PREPARING: self._prepare,
            State.JOINING: self._join,
            State.SYNCING: self._sync,
            State.STABLE: self._stay_stable,
            State.FAILED: self._woken_up,
        }

    def __repr__(self) -> str:
        return f"<ClassicMember {self._member_id!r} {self.state.value} generation={self._generation}>"

    @property
    def identity(self) -> GroupMetadata:
        settings = self._context.settings
        return GroupMetadata(settings.group_id, self._generation, self._member_id, settings.group_instance_id)

    @property
    def refusal(self) -> KafkaError | None:
        """Why the group does not take this member: for good, or for now."""
        return self._refused or self._refusals.error

    @property
    def joining(self) -> bool:
        """Whether the coordinator may have begun a generation of which this member has not heard yet."""
        return self.state is State.JOINING

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
        """Say good-bye, so that the others need not wait for the session to end; static members come back."""
        identity = self.identity
        self._forget_identity()
        if not identity.member_id or identity.group_instance_id is not None:
            return
        try:
            await self._context.coordinator.say_good_bye(
                LeaveGroupRequest,
                lambda version: requests.leave_request(identity, reason, version),
                deadline,
                lane=MAIN_LANE,  # a join that is still being answered keeps the other one busy
            )
        except KafkaError as error:
            log.info("%s could not leave: %s", identity, error)

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
        else:
            await self._context.commits_before_joining(self._context.revoke_deadline())
            self._unwanted = False
            self._reason = self._reason or "the consumer subscribed"
            self._go(Event.WANTED)

    async def _prepare(self) -> None:
        context, holdings = self._context, self._context.holdings
        prepared = True
        async with holdings.lock:
            if self._lost:
                self._lost = False
                await holdings.lose()
            else:
                prepared = await holdings.give_up(self._must_go(), context.revoke_deadline, self._patience())
        if not await self._interrupted() and prepared:
            self._go(Event.PREPARED)

    def _patience(self) -> float | None:
        """Until when this rebalance may wait for the application."""
        if self._told_at is None:
            self._told_at = self._loop.time()
        return self._context.patience(self._told_at)

    @property
    def inside(self) -> bool:
        """Whether this member has its place, and an application that lives."""
        return not (self._lost or self._refused or self._context.liveness.overdue())

    def _must_go(self) -> frozenset[TopicPartition]:
        """What this member may not hold while it joins."""
        owned = self._context.holdings.owned
        wanted = self._context.positions.subscribed()
        if not self._cooperative or wanted is None:
            return owned
        return frozenset(partition for partition in owned if partition.topic not in wanted.topics)

    async def _join(self) -> None:
        if await self._interrupted():
            return
        context = self._context
        self._joined = context.positions.subscribed()
        if self._joined is None:  # another thread has unsubscribed in this moment
            return
        member_id, reason = self._member_id, self._reason
        patience = max(
            context.settings.rebalance_timeout + _JOIN_GRACE_MS, context.cluster.config.request_timeout_ms
        )
        try:
            offers = requests.offers(
                list(self._assignors.values()),
                self._joined.topics,
                context.holdings.owned,
                self._adopted,
                context.settings.client_rack,
            )
            answer = await self._ask(
                JoinGroupRequest,
                lambda version: requests.join_request(context.settings, member_id, offers, reason, version),
                context.deadline(patience),
            )
            if answer is None:
                await self._interrupted()
                return
            self._member_id = answer.member_id or self._member_id
            context.coordinator.check(answer.error_code)
            if answer.protocol_name not in self._assignors:
                raise InconsistentGroupProtocolError(
                    f"it chose {answer.protocol_name!r}", about=f"group {context.settings.group_id}"
                )
        except KafkaError as error:
            await self._not_joined(error)
            return
        self._answer = answer
        self._heard()
        self._generation = answer.generation_id
        self._reason = ""
        self._told_at = None
        self._backoff.reset()
        self._go(Event.JOINED)

    async def _ask(
        self, request: type[Request[R]], build: Callable[[int], Request[R]], deadline: Deadline
    ) -> R | None:
        """Ask what waits for the other members, and their applications; None if it is not wanted any more."""
        context = self._context

        def unwanted() -> bool:  # one that has no id yet could not take its leave, and soon gets one
            return self._is_unwanted() and bool(self._member_id or context.settings.group_instance_id)

        asking = context.coordinator.ask_patiently(request, build, deadline, self._heard)
        return await unless(unwanted, self._woken, asking)

    def _is_unwanted(self) -> bool:
        return self._unwanted or self._context.positions.subscribed() is None

    def _heard(self) -> None:
        """The coordinator counts this member in, or did until now."""
        self._heard_at = self._loop.time()

    async def _not_joined(self, error: KafkaError) -> None:
        if not isinstance(error, MemberIdRequiredError) and not await self._ends(error):
            await self._try_later(error)

    async def _ends(self, error: KafkaError) -> bool:
        """Whether an error costs this member its place; then it is somewhere else now."""
        if isinstance(error, (UnknownMemberIdError, IllegalGenerationError)):
            self._lose(error)
        elif isinstance(error, FINAL):
            self._refused = error
        else:
            return False
        await self._interrupted()
        return True

    async def _try_later(self, error: KafkaError) -> None:
        """Wait a little, and longer where somebody says no."""
        log.debug("%r: %s", self, error)
        wait = self._met(error, self._backoff)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not (self._lost or self._is_unwanted()):
                    await self._woken_up()

    def _met(self, error: KafkaError, backoff: Backoff) -> float:
        """Note what keeps this member from its place for now; returns how long to wait.

        A refusal costs nothing as long as the session lasts. After that others read what this member holds.
        """
        if not is_refusal(error):
            self._refusals.delayed(error)
            return backoff.next()
        silence = self._loop.time() - self._heard_at
        if silence * 1000 > self._context.settings.session_timeout_ms and self._context.holdings.owned:
            self._lose(error)
        return self._refusals.met(error)

    async def _sync(self) -> None:
        assert self._answer is not None
        answer, identity, context = self._answer, self.identity, self._context
        try:
            assignment = await self._lead(answer) if answer.leader == self._member_id else {}
            self._quiet = True
            try:
                response = await self._ask(
                    SyncGroupRequest,
                    lambda version: requests.sync_request(
                        identity, answer.protocol_name, assignment, version
                    ),
                    context.deadline(context.settings.rebalance_timeout + _JOIN_GRACE_MS),
                )
            finally:
                self._quiet = False
            if response is None:
                await self._interrupted()
                return
            context.coordinator.check(response.error_code)
            given = decode_assignment(bytes(response.assignment))
        except KafkaError as error:
            await self._not_synced(error)
            return
        self._refusals.over()
        self._heard()
        self._told_at = None  # from now on it is the next rebalance that heartbeats tell of
        if await self._adopt(given):
            self._go(Event.SYNCED)

    async def _not_synced(self, error: KafkaError) -> None:
        if await self._ends(error):
            return
        self._reason = f"no assignment: {type(error).__name__}"
        if not isinstance(error, RebalanceInProgressError):
            await self._try_later(error)
        self._go(Event.REBALANCE)

    async def _lead(self, answer: JoinGroupResponse) -> Assignment:
        """Share everything among all; a leader that came back is told when it need not."""
        context = self._context
        members = requests.members_of(answer)
        limit = min(context.settings.rebalance_timeout, context.cluster.config.request_timeout_ms)
        self._basis = await find_basis(context.cluster, members.values(), context.deadline(limit))
        if answer.skip_assignment:
            return {}
        return share(self._assignors[answer.protocol_name or ""], self._basis, members)

    async def _adopt(self, given: list[TopicPartition]) -> bool:
        """Take over what was assigned, after giving up what was not."""
        assert self._answer is not None
        assert self._joined is not None
        if self._answer.leader != self._member_id:
            self._basis = None
        wanted = self._context.positions.subscribed()
        if wanted != self._joined and any(
            wanted is None or partition.topic not in wanted.topics for partition in given
        ):
            self._reason = "the subscription changed while the group was rebalancing"
            self._go(Event.REBALANCE)
            return False
        self._adopted = self._generation
        assignor = self._assignors[self._answer.protocol_name or ""]
        remind(assignor, given, self._generation, self._context.show)
        until = self._context.patience(self._loop.time())
        while not await self._exchange(frozenset(given), until):
            if await self._interrupted():
                return False
        return True

    async def _exchange(self, given: frozenset[TopicPartition], until: float | None) -> bool:
        """Give up what others are to have, once the application has done with it, and take over the rest."""
        context, holdings = self._context, self._context.holdings
        async with holdings.lock:
            gone = holdings.owned - given
            if not await holdings.give_up(gone, context.revoke_deadline, until):
                return False
            if gone:
                self._reason = "gave up partitions that others are waiting for"
            return await holdings.take_over(given - holdings.owned)

    async def _stay_stable(self) -> None:
        if await self._interrupted():
            return
        wanted, snapshot = self._context.positions.subscribed(), self._context.cluster.metadata.snapshot
        if not self._reason and wanted != self._joined:
            self._reason = "the subscription changed"
        if not self._reason and self._basis and not self._basis.still_true(snapshot):
            self._reason = "topics changed"
        if self._reason:
            log.info("%r rejoins: %s", self, self._reason)
            self._go(Event.REBALANCE)
        else:
            await self._woken_up()

    async def _interrupted(self) -> bool:
        """Whether this member has to be elsewhere: look at the notes, and act on them."""
        holdings = self._context.holdings
        if self._refused is not None:
            self._go(Event.REFUSED)
            self._forget_identity()
            async with holdings.lock:
                await holdings.lose()
            self._context.fail(self._refused)
        elif self._lost:
            self._go(Event.LOST)
        elif self._is_unwanted():
            await self._withdraw("nothing is subscribed any more", lost=False)
        elif self.state is not State.JOINING and self._context.liveness.overdue():
            reason = "the application has not asked for records for max_poll_interval_ms"
            log.warning("%r leaves the group: %s", self, reason)
            await self._withdraw(reason, lost=True)
        else:
            return False
        return True

    async def _withdraw(self, reason: str, *, lost: bool) -> None:
        context, holdings = self._context, self._context.holdings
        async with holdings.lock:
            if lost or not await holdings.give_up(holdings.owned, context.revoke_deadline, self._patience()):
                # Good-bye comes first: the listener may be run by a thread that is still busy with records.
                holdings.stop()
                await self.leave(context.revoke_deadline(), reason)
                await holdings.lose()
        await self.leave(context.revoke_deadline(), reason)
        self._told_at = None
        self._basis = None
        self._reason = ""
        self._go(Event.UNWANTED)

    # Losing one's place

    def _lose(self, error: KafkaError) -> None:
        """The coordinator does not count this member in. It may keep its id unless that is unknown."""
        log.warning("%r lost its place in the group: %s", self, error)
        self._lost = True
        self._reason = f"lost its place: {type(error).__name__}"
        self._adopted = self._generation = NO_GENERATION
        self._basis = None
        if isinstance(error, UnknownMemberIdError):
            self._member_id = ""
        self.wake()

    def _forget_identity(self) -> None:
        self._member_id = ""
        self._adopted = self._generation = NO_GENERATION

    async def _beat(self) -> None:
        interval = self._context.settings.heartbeat_interval_ms / 1000
        while True:
            await due(self._due, interval)
            if self._basis is not None:
                look_up(self._context.cluster, self._basis.topics)
            if self._context.liveness.overdue():
                self.wake()
            wait = self._context.cluster.backoff()
            while self.state in BEATING and self._generation != NO_GENERATION and not self._quiet:
                try:
                    await self._heartbeat()
                    break
                except FINAL as error:
                    self._refused = error
                    self.wake()
                    break
                except KafkaError as error:
                    log.debug("%r could not send a heartbeat: %s", self, error)
                    self._beat_refused = self._beat_refused or is_refusal(error)
                    pause = self._met(error, wait)
                    await asyncio.sleep(pause if is_refusal(error) else min(pause, interval))

    def _accepted(self) -> None:
        """A heartbeat was. Where joins or syncs are refused that says nothing: only a sync does."""
        self._heard()
        self.last_heartbeat = self._heard_at
        if self.state is State.STABLE or self._beat_refused:
            self._beat_refused = False
            self._refusals.over()

    async def _heartbeat(self) -> None:
        """Show that this member is alive, and note what it is told."""
        identity, context = self.identity, self._context
        limit = min(context.settings.session_timeout_ms / 2, context.cluster.config.request_timeout_ms)
        response = await context.coordinator.ask(
            HeartbeatRequest,
            lambda version: requests.heartbeat_request(identity, version),
            context.deadline(limit),
        )
        if identity != self.identity:
            return  # the answer is about somebody that this member no longer is
        try:
            context.coordinator.check(response.error_code)
            self._accepted()
            if self.state is State.STABLE:
                self._told_at = None
        except RebalanceInProgressError:
            # The coordinator may have counted for as long as it has not answered.
            since = self._heard_at + context.settings.heartbeat_interval_ms / 1000
            self._told_at = self._told_at or min(self._loop.time(), since)
            self._accepted()
            if self.state is State.STABLE:
                self._reason = self._reason or "the group is rebalancing"
                self.wake()
        except (IllegalGenerationError, UnknownMemberIdError) as error:
            self._lose(error)
