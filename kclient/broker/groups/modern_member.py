"""One member of a consumer group (KIP-848) and the table that moves it towards its target assignment.

The group computes a *target* per group epoch; each member walks there on its own, one heartbeat at a time, so
that a partition is never with two members. What a member holds is `assigned` (it may consume) and `revoking`
(it was told to let go and has not said that it did); both count as held. A heartbeat brings `owned`, the
partitions the member says it has, or None where that has not changed. The target is compared with these:

    kept     = assigned ∩ target          stays
    leaving  = assigned - target          must be let go before the member's epoch moves
    gaining  = target - kept              what of it nobody else holds is assigned at once
    awaited  = target - kept - gained     somebody else still holds it

State        meaning                                          next heartbeat
STABLE       at `epoch`, has what that epoch gives it         compares if the target has a newer epoch
UNREVOKED    told to let go of `revoking`, timed by the       compares, one epoch on, once `owned` has nothing
             rebalance timeout                                of `revoking`; until then nothing changes
UNRELEASED   at the target's epoch, waits for others          compares every time

Comparing leads to, whatever the state was before (`_OUTCOMES`):

leaving and still owned   anything awaited   →  state         epoch
yes                       -                     UNREVOKED     stays (or one on, from UNREVOKED)
no                        yes                   UNRELEASED    the target's
no                        no                    STABLE        the target's

A member that unsubscribes from topics lets go of them at once, before there is a new target (`_trim`).
Nothing here does I/O or knows time; `modern` calls `reconcile` with each heartbeat and keeps the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

from kclient.broker.groups.modern_assignors import Partitions, TopicPartition

LEFT_FOR_GOOD = -1
LEFT_FOR_NOW = -2


class MemberState(IntEnum):
    """The numbers are those of Kafka's records."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What is known of a member that speaks the classic protocol, in a group that is being migrated."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """What is known of a member. Partitions are kept with the epoch at which the member got them."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)
    revoking: Mapping[TopicPartition, int] = field(default_factory=dict)
    classic: ClassicSide | None = None

    @property
    def held(self) -> dict[TopicPartition, int]:
        """What nobody else may have."""
        return {**self.assigned, **self.revoking}

    def is_at(self, epoch: int) -> bool:
        """Has the member all that the target of this epoch gives it?"""
        return self.state is MemberState.STABLE and self.epoch == epoch


def successor(member: Member, member_id: str) -> Member:
    """Who takes the place of a static member: another process with all that the first one had."""
    return replace(member, member_id=member_id, epoch=0, previous_epoch=0)


@dataclass(frozen=True, slots=True)
class Step:
    """What one heartbeat brings to a reconciliation."""

    target: Partitions
    target_epoch: int
    topics: frozenset[UUID]  # what the member is subscribed to, as far as it exists
    resubscribed: bool
    owned: Partitions | None
    is_held: Callable[[TopicPartition], bool]  # by anybody, the member included

    def has_let_go(self, partitions: Mapping[TopicPartition, int]) -> bool:
        return self.owned is not None and self.owned.isdisjoint(partitions)


# (leaving and still owned, anything awaited) -> the state, and whether the member moves to the target's epoch
_OUTCOMES = {
    (True, True): (MemberState.UNREVOKED, False),
    (True, False): (MemberState.UNREVOKED, False),
    (False, True): (MemberState.UNRELEASED, True),
    (False, False): (MemberState.STABLE, True),
}


def reconcile(member: Member, step: Step) -> Member:
    """The member after one more step towards its target; equal to itself where it stays as it is."""
    match member.state:
        case MemberState.STABLE if member.epoch != step.target_epoch:
            return _compare(member, step, member.epoch)
        case MemberState.UNREVOKED if step.has_let_go(member.revoking):
            # A member that is here because it unsubscribed may be at the newest epoch there is.
            return _compare(member, step, min(member.epoch + 1, step.target_epoch))
        case MemberState.UNRELEASED:
            return _compare(member, step, member.epoch)
    return _trim(member, step) if step.resubscribed else member


def _compare(member: Member, step: Step, epoch: int) -> Member:
    target = {partition for partition in step.target if partition[0] in step.topics}
    kept = {partition: since for partition, since in member.assigned.items() if partition in target}
    leaving = {partition: since for partition, since in member.assigned.items() if partition not in target}
    wanted = target - kept.keys()
    awaited = {part for part in wanted if step.is_held(part) and part not in member.revoking}
    gained = {part: member.revoking.get(part, step.target_epoch) for part in wanted - awaited}
    must_let_go = bool(leaving) and not step.has_let_go(leaving)
    state, moves = _OUTCOMES[must_let_go, bool(awaited)]
    return replace(
        member,
        state=state,
        epoch=step.target_epoch if moves else epoch,
        previous_epoch=member.epoch,
        assigned=kept if must_let_go else {**kept, **gained},
        revoking=leaving if must_let_go else {},
    )


def _trim(member: Member, step: Step) -> Member:
    """Let go of the topics that the member has unsubscribed from; its epoch stays."""
    leaving = {part: since for part, since in member.assigned.items() if part[0] not in step.topics}
    if not leaving:
        return member
    kept = {part: since for part, since in member.assigned.items() if part not in leaving}
    revoking = {**member.revoking, **leaving}
    if step.has_let_go(revoking):
        return replace(member, assigned=kept)
    return replace(member, state=MemberState.UNREVOKED, assigned=kept, revoking=revoking)
