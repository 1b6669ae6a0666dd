"""Committed offsets: committing them in order, now and then by itself, and looking them up.

Every commit goes through one queue, and one request is under way at a time. It carries, for each partition,
the newest offset that is waiting; what fails in passing waits for the next request. So an older offset
cannot overtake a newer one, however often it is tried again, and commits that pile up are one request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from kclient.clock import Deadline
from kclient.cluster.client import MAIN_LANE, Cluster
from kclient.cluster.operations import run
from kclient.consumer.commit_requests import (
    FetchCommitted,
    FetchCommittedByName,
    commit_request,
    knows_ids,
    read_commit,
)
from kclient.consumer.group.coordinator import GroupCoordinator
from kclient.consumer.hooks import Hooks
from kclient.consumer.seam import CommitCallback, GroupSettings, Offsets, Positions
from kclient.errors import (
    ClientClosedError,
    CommitFailedError,
    EncodeError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from kclient.usercode import report
from kclient.wire.messages.group_offsets import OffsetCommitRequest

log: logging.Logger = logging.getLogger(__name__)

_LAST_WITH_TOPIC_NAMES = 9
_NO_GENERATION = -1
# A topic that was deleted will not come back; one that is new may not have reached the coordinator yet.
_UNKNOWN_TOPIC_ATTEMPTS = 4
_PASSING = (KafkaTimeoutError, RebalanceInProgressError, StaleMemberEpochError)
_OUTDATED = (StaleMemberEpochError, UnknownMemberIdError)
_NO_MEMBER = (IllegalGenerationError, UnknownMemberIdError)
_UNKNOWN = (UnknownTopicOrPartitionError, UnknownTopicIdError)


@dataclass(eq=False)
class _Commit:
    """One call: what is left of it to commit, and what went wrong so far."""

    waiting: dict[TopicPartition, OffsetAndMetadata]
    deadline: Deadline
    generation: int
    outside: bool  # by no member, of partitions that were assigned by hand
    done: Callable[[dict[TopicPartition, KafkaError]], None]
    failed: dict[TopicPartition, KafkaError] = field(default_factory=dict)
    last_error: KafkaError | None = None
    attempts: int = 0

    def settle(self, partition: TopicPartition, error: KafkaError | None) -> None:
        del self.waiting[partition]
        if error is not None:
            self.failed[partition] = error


class Place(Protocol):
    """What a commit says of the member that it comes from."""

    @property
    def identity(self) -> GroupMetadata:
        """Who it is to the group."""

    @property
    def joining(self) -> bool:
        """Whether the coordinator may have begun a generation that the member has not heard of yet."""

    def doubt(self) -> None:
        """The coordinator may not count the member in any more: send a heartbeat now, which tells."""


class Commits:
    """The committed offsets of one consumer's group, and of its member, which has a `place` in it."""

    def __init__(
        self,
        cluster: Cluster,
        settings: GroupSettings,
        positions: Positions,
        coordinator: GroupCoordinator,
        place: Callable[[], Place],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._coordinator = coordinator
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._queue: list[_Commit] = []
        self._filled = asyncio.Event()
        self._progress = asyncio.Event()  # rung when something was committed, or given up
        self._asking = False  # a request is under way
        self._closed = False
        self._failing = False
        self._hooks = Hooks(settings.hooks)

    async def commit(self, deadline: Deadline, offsets: Offsets | None = None) -> None:
        """Commit these, or what was handed out; retried until the deadline. Raises `CommitFailedError`."""
        wanted = dict(self._positions.to_commit() if offsets is None else offsets)
        if not wanted:
            return
        settled: asyncio.Future[dict[TopicPartition, KafkaError]] = self._loop.create_future()

        def done(failed: dict[TopicPartition, KafkaError]) -> None:
            if not settled.done():
                settled.set_result(failed)

        commit = self._enqueue(wanted, deadline, done)
        try:
            async with asyncio.timeout_at(deadline.at):
                failed = await settled
        except TimeoutError:
            reason = f" (last failure: {commit.last_error})" if commit.last_error else ""
            raise deadline.expired(f"committing offsets{reason}") from commit.last_error
        finally:
            if commit in self._queue:  # given up: it must not be committed later, after something newer
                self._queue.remove(commit)
                given_up = commit.last_error or KafkaTimeoutError(
                    "the call that asked for the commit has ended"
                )
                commit.done(commit.failed | dict.fromkeys(commit.waiting, given_up))
                self._ring()
        if failed:
            raise _failure(failed)

    def commit_nowait(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commit in the background. `callback(offsets, error)` is called once, on the loop."""
        wanted = dict(self._positions.to_commit() if offsets is None else offsets)

        def done(failed: dict[TopicPartition, KafkaError]) -> None:
            error = _failure(failed) if failed else None
            if callback is None:
                self._log(error)
                return
            try:
                callback(wanted, error)
            except BaseException as raised:  # noqa: BLE001 - it ends no commits but its own
                report(log, "the callback of a commit", callback, raised)

        if wanted:
            self._enqueue(dict(wanted), self._cluster.deadline(), done)
        else:
            self._loop.call_soon(done, {})

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed, None where it has not."""
        backoff = self._cluster.backoff()
        while True:
            snapshot = self._cluster.metadata.snapshot
            kind = FetchCommitted if knows_ids(snapshot, partitions) else FetchCommittedByName
            operation = kind(snapshot, self._identity(), self._settings.group_protocol == "consumer")
            found = await run(self._cluster, operation, partitions, deadline)
            errors = [outcome for outcome in found.values() if isinstance(outcome, KafkaError)]
            if not errors:
                return {key: value for key, value in found.items() if not isinstance(value, KafkaError)}
            wait = backoff.next()
            if not isinstance(errors[0], _OUTDATED) or wait >= deadline.remaining(self._loop):
                raise errors[0]
            await asyncio.sleep(wait)  # the next heartbeat brings another epoch

    async def before_revoking(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Commit what was processed of partitions that go, where that is automatic; never raises.

        What the application has asked to be committed in the background is waited for in any case.
        """
        processed: dict[TopicPartition, OffsetAndMetadata] = {}
        if self._settings.enable_auto_commit:
            processed = {p: at for p, at in self._positions.processed().items() if p in partitions}
        try:
            await self.commit(deadline, processed)
        except KafkaError as error:
            log.warning("what was processed before partitions went was not committed: %s", error)
        await self.under_way(partitions, deadline)

    async def before_closing(self, deadline: Deadline) -> None:
        """The same of everything, without a place in the group."""
        await self.before_revoking({*self._positions.assigned(), *self._positions.processed()}, deadline)

    def commit_processed(self) -> None:
        """Commit what was processed in the background, where that is automatic: partitions were dropped.

        The application may have subscribed to something since: what it dropped before that is owed all the
        same, and as no member is in the group yet, it is committed as if there was no subscription.
        """
        if not self._settings.enable_auto_commit:
            return
        processed = self._positions.processed()
        if not self._may_commit():
            assigned = self._positions.assigned()
            processed = {p: at for p, at in processed.items() if p not in assigned}
        if processed:
            self._enqueue(processed, self._cluster.deadline(), self._log_failure, dropped=True)

    async def under_way(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Wait until nothing of these partitions waits to be committed, at most until the deadline."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline.at):
                while any(not commit.waiting.keys().isdisjoint(partitions) for commit in self._queue):
                    await self._progress.wait()

    async def before_joining(self, deadline: Deadline) -> None:
        """Wait until nothing is left of the commits of no member, at most until the deadline.

        A group with members takes them no more, and who is given the partitions begins at what is committed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline.at):
                while any(commit.outside for commit in self._queue):
                    await self._progress.wait()

    async def answered(self, deadline: Deadline) -> None:
        """Wait until no request is under way, at most until the deadline."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline.at):
                while self._asking:
                    await self._progress.wait()

    async def run(self) -> None:
        """Send what is waiting, one request at a time."""
        backoff = self._cluster.backoff()
        while True:
            await self._filled.wait()
            self._expire()
            batch = list(self._queue)
            if not batch:
                self._filled.clear()
                continue
            self._asking = True
            try:
                outcomes = await self._attempt(_newest(batch))
            finally:
                self._asking = False
            self._settle(batch, outcomes)
            if any(commit in self._queue for commit in batch):
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    async def run_auto(self) -> None:
        """Commit what was processed, every now and then; the next one waits for the one before."""
        while True:
            await asyncio.sleep(self._settings.auto_commit_interval_ms / 1000)
            if self._may_commit():
                processed = self._positions.processed()
                if self._positions.subscribed() is not None:  # what was dropped before is others' now
                    assigned = self._positions.assigned()
                    processed = {p: at for p, at in processed.items() if p in assigned}
                try:
                    await self.commit(self._cluster.deadline(), processed)
                    self._log(None)
                except KafkaError as error:
                    self._log(error)

    def _log(self, error: KafkaError | None) -> None:
        """Of commits that nobody asks about, the first failure is worth a warning: an outage has many."""
        if error is not None:
            log.log(logging.DEBUG if self._failing else logging.WARNING, "%s", error)
        self._failing = error is not None

    def _log_failure(self, failed: Mapping[TopicPartition, KafkaError]) -> None:
        self._log(_failure(dict(failed)) if failed else None)

    def close(self) -> None:
        """Nothing is sent any more: what still waits fails."""
        self._closed = True
        queue, self._queue = self._queue, []
        for commit in queue:
            commit.failed |= dict.fromkeys(commit.waiting, ClientClosedError("the consumer was closed"))
            commit.done(commit.failed)
        self._ring()

    def _identity(self) -> GroupMetadata:
        return self._place().identity

    def _ring(self) -> None:
        self._progress.set()
        self._progress.clear()

    def _may_commit(self) -> bool:
        """Whether there is a place in the group, or none is needed because nothing is subscribed."""
        return self._positions.subscribed() is None or self._identity().generation_id != _NO_GENERATION

    def _enqueue(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        deadline: Deadline,
        done: Callable[[dict[TopicPartition, KafkaError]], None],
        *,
        dropped: bool = False,
    ) -> _Commit:
        """`dropped`: of partitions that the application had before it subscribed to what it has now."""
        if self._closed:
            raise ClientClosedError("the consumer is closed")
        for partition, position in offsets.items():
            if position.offset < 0:
                raise EncodeError(f"offset {position.offset} of {partition}: offsets begin with 0")
        generation = self._identity().generation_id
        outside = generation == _NO_GENERATION and (dropped or self._positions.subscribed() is None)
        everything = dict(offsets) if self._settings.hooks else {}

        def told(failed: dict[TopicPartition, KafkaError]) -> None:
            if everything:
                self._hooks.committed(everything, _failure(failed) if failed else None)
            done(failed)

        commit = _Commit(offsets, deadline, generation, outside, told)
        self._queue.append(commit)
        self._filled.set()
        return commit

    def _expire(self) -> None:
        """Give up on what is late, and on what belongs to others by now."""
        identity, ours = self._identity(), self._positions.assigned()
        member = self._positions.subscribed() is not None
        for commit in list(self._queue):
            if commit.deadline.passed(self._loop):
                late = commit.deadline.expired("committing offsets")
                late.__cause__ = commit.last_error
                self._give_up(commit, dict.fromkeys(commit.waiting, late))
            elif member and identity.generation_id == _NO_GENERATION and not commit.outside:
                gone = IllegalGenerationError(about=f"group {self._settings.group_id}: not a member now")
                self._give_up(commit, dict.fromkeys(commit.waiting, gone))
            elif member and commit.generation != identity.generation_id:
                # The group rebalanced since the call. Another member may read what is not ours any more, and
                # may have committed newer offsets, so only what is still ours is committed.
                moved = IllegalGenerationError(about=f"group {self._settings.group_id}: it has rebalanced")
                self._give_up(commit, {p: moved for p in commit.waiting if p not in ours})
            if commit.waiting:
                gone = IllegalGenerationError(about=f"group {self._settings.group_id}: the partition went")
                self._give_up(commit, dict.fromkeys(self._positions.forfeited(commit.waiting), gone))

    def _give_up(self, commit: _Commit, errors: Mapping[TopicPartition, KafkaError]) -> None:
        for partition, error in errors.items():
            commit.settle(partition, error)
        self._finish(commit)
        self._ring()

    def _finish(self, commit: _Commit) -> None:
        if not commit.waiting and commit in self._queue:
            self._queue.remove(commit)
            commit.done(commit.failed)

    async def _attempt(self, offsets: Offsets) -> dict[TopicPartition, KafkaError | None]:
        """One request; what became of each partition."""
        if not offsets:
            return {}
        snapshot, identity = self._cluster.metadata.snapshot, self._identity()
        # One that unsubscribes is a member until it has left; one that has subscribed is none yet.
        if identity.generation_id == _NO_GENERATION:
            identity = GroupMetadata(self._settings.group_id)
        try:
            response = await self._coordinator.ask(
                OffsetCommitRequest,
                lambda version: commit_request(identity, offsets, snapshot, version),
                self._cluster.deadline(self._cluster.config.request_timeout_ms),
                lane=MAIN_LANE,
                newest=None if knows_ids(snapshot, offsets) else _LAST_WITH_TOPIC_NAMES,
            )
        except KafkaError as error:
            return dict.fromkeys(offsets, error)
        outcomes = read_commit(response, offsets, snapshot, self._settings.group_id)
        for outcome in outcomes.values():
            if outcome is not None:
                self._coordinator.learn(outcome)
        place = self._place()
        if identity == self._identity() and not place.joining:
            if any(isinstance(outcome, _NO_MEMBER) for outcome in outcomes.values()):
                place.doubt()
            return outcomes
        # The generation ended while the request was under way. What this member still has when it knows the
        # next one is committed then (`_expire`): who gets a partition after it waits for it to give it up.
        return {p: _moving(outcome) for p, outcome in outcomes.items()}

    def _settle(self, batch: list[_Commit], outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
        for commit in batch:
            commit.attempts += 1
            self._positions.committed({p: at for p, at in commit.waiting.items() if outcomes[p] is None})
            for partition in list(commit.waiting):
                outcome = outcomes[partition]
                if outcome is None or not _worth_another(outcome, commit.attempts):
                    commit.settle(partition, outcome)
                else:
                    commit.last_error = outcome
            self._finish(commit)
        self._ring()


def _newest(batch: list[_Commit]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Of each partition what was committed last."""
    merged: dict[TopicPartition, OffsetAndMetadata] = {}
    for commit in batch:
        merged.update(commit.waiting)
    return merged


def _moving(outcome: KafkaError | None) -> KafkaError | None:
    if not isinstance(outcome, IllegalGenerationError):
        return outcome
    moving = RebalanceInProgressError(about="the group has begun another generation")
    moving.__cause__ = outcome
    return moving


def _worth_another(error: KafkaError, attempts: int) -> bool:
    if isinstance(error, _UNKNOWN):
        return attempts < _UNKNOWN_TOPIC_ATTEMPTS
    return error.retriable or isinstance(error, _PASSING)


def _failure(failed: dict[TopicPartition, KafkaError]) -> CommitFailedError:
    (partition, first), *others = failed.items()
    more = f", and {len(others)} more" if others else ""
    error = CommitFailedError(
        f"the offset of {partition.topic}-{partition.partition}{more} was not committed: {first}", failed
    )
    error.__cause__ = first
    return error
