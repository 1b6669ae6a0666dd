"""The states of a classic group and what moves it from one to the next. `classic` holds one of them.

    Empty ──rebalance──> PreparingRebalance ──gathered──> CompletingRebalance ──assigned──> Stable
      ^                    │   ^                                  │                           │
      └──────deserted──────┘   └───────────────────rebalance──────┴───────────────────────────┘

Empty: nobody is in the group; it is kept for its committed offsets.

PreparingRebalance: somebody came, went or changed what it wants. Every member is told to join again, and the
joins wait for each other. It ends when all have joined, or when the longest rebalance timeout is over:
dynamic members that did not join by then are out. A group that was empty waits for
`group.initial.rebalance.delay.ms` instead, again for each new member but never beyond the rebalance timeout,
because the consumers of a service start one after another.

CompletingRebalance: a new generation. Every join is answered, the leader's with all members. Members sync and
wait for the leader's assignment. Who has not synced within the rebalance timeout is out.

Stable: the leader's assignment is stored and every sync answered with it. It lasts until a member joins again
with something new, leaves, or is not heard of for its session timeout.

Dead: deleted, or the coordinator stops.

A generation begins with `gathered` or `deserted` and lives until the next of these. Its leader is a member
that joined: the oldest one, until it leaves.
"""

from __future__ import annotations

from enum import Enum

from kclient.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)


class State(Enum):
    """Where a group is, under the names that Kafka shows."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """What happens to a group as a whole."""

    REBALANCE = "membership or subscriptions change"
    GATHERED = "the joins are complete"
    DESERTED = "nobody is left to join"
    ASSIGNED = "the leader's assignment is stored"
    REMOVED = "the group is deleted or the coordinator stops"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.REBALANCE): State.PREPARING,
    (State.COMPLETING, Event.REBALANCE): State.PREPARING,
    (State.STABLE, Event.REBALANCE): State.PREPARING,
    (State.PREPARING, Event.GATHERED): State.COMPLETING,
    (State.PREPARING, Event.DESERTED): State.EMPTY,
    (State.COMPLETING, Event.ASSIGNED): State.STABLE,
    **{(state, Event.REMOVED): State.DEAD for state in State},
}

# What a heartbeat of a member in good standing is told. Consumers may send them before they have synced.
HEARTBEAT_ANSWERS: dict[State, type[BrokerError] | None] = {
    State.EMPTY: UnknownMemberIdError,
    State.PREPARING: RebalanceInProgressError,
    State.COMPLETING: None,
    State.STABLE: None,
    State.DEAD: CoordinatorNotAvailableError,
}
