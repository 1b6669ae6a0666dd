"""The life of a member of a group that the broker assigns (KIP-848), as a table. `modern` lives it.

There are no joins and no leader. Heartbeats carry everything: the member says what it subscribes to and what
it holds, each only when it changes; the coordinator answers with what the member should hold, again only
when that changes, and with an epoch that counts these. The coordinator gives a partition to a member only
after the one that had it has said that it holds it no more, so it may take over all it is given at once.

A member *joins* with epoch 0. What it is given it *reconciles*: first it gives up what it should not hold,
then it takes over the rest, and the next heartbeat says so. When the coordinator does not know it or its
epoch any more, it *loses* everything, without committing, and joins again under the same id. To *leave* it
gives everything up first and says good-bye after that: nobody else may read while this one still commits.

Partitions are given up when the application comes back for more. As long as the coordinator has not heard
that they are, the member's epoch stays, and commits with it are taken.

As in `classic_states`, a member that is *refused* stays in its state and tries again with its heartbeats; it
takes itself for lost when it was refused for a session. *Failed* is for what cannot pass (`refusals.FINAL`).

As there, one task moves through the table; another one sends heartbeats and leaves notes.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a member stands."""

    OUT = "out"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    LOSING = "losing"
    LEAVING = "leaving"
    FAILED = "failed"


class Event(Enum):
    """What moves a member on."""

    WANTED = "there is a subscription, and an application that asks for records"
    UNWANTED = "there is none any more"
    ADMITTED = "the coordinator has given an epoch"
    ASSIGNED = "the coordinator wants this member to hold something else"
    RECONCILED = "it holds that"
    LOST = "the coordinator does not know this member, or not its epoch"
    DROPPED = "it holds nothing any more"
    LEFT = "good-bye was said"
    REFUSED = "the coordinator will never take this member"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.OUT, Event.WANTED): State.JOINING,
    (State.JOINING, Event.ADMITTED): State.STABLE,
    (State.STABLE, Event.ASSIGNED): State.RECONCILING,
    (State.RECONCILING, Event.RECONCILED): State.STABLE,
    (State.JOINING, Event.LOST): State.LOSING,
    (State.STABLE, Event.LOST): State.LOSING,
    (State.LOSING, Event.DROPPED): State.JOINING,
    (State.JOINING, Event.UNWANTED): State.LEAVING,
    (State.STABLE, Event.UNWANTED): State.LEAVING,
    (State.LEAVING, Event.LEFT): State.OUT,
    (State.JOINING, Event.REFUSED): State.FAILED,
    (State.STABLE, Event.REFUSED): State.FAILED,
}

BEATING = frozenset({State.JOINING, State.STABLE, State.RECONCILING, State.LEAVING})
