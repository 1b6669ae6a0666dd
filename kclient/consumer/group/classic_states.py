"""The life of a member of a classic group, as a table. `classic` lives it.

The coordinator counts generations. In each, members join, the coordinator names one the leader and tells it
what everyone subscribes to; members sync, the leader with the assignment it has made, and everyone gets its
part. Then they are stable and show with heartbeats that they are alive, until somebody comes, goes or wants
something else: then a heartbeat is answered "rebalance in progress", and all join again.

Before it joins, a member prepares. *Eager* members give up everything, so nobody reads while it is not known
who reads what. *Cooperative* members keep what they have and say so; what moves to somebody else comes back
from the sync as missing, is given up then, and joining once more lets the other have it (KIP-429).
Partitions are given up when the application comes back for more. Commits go on until then: the coordinator
takes those of the generation that ends for as long as it waits for members to join.

A member is *lost* when the coordinator no longer counts it in: its generation is old, or its id unknown
because its session ran out. Others may read its partitions already, so it drops them without committing and
joins anew. It goes *out* by itself when nothing is subscribed any more, and when the application has not
asked for records for `max_poll_interval_ms`.

A member that is *refused* stays in its state: its password was just changed, its token service is down, an
ACL was taken away, the group is full. That may pass without this client, so it tries again, every few seconds
for the sake of those who lock accounts, and keeps what it has: as long as its session lasts, it has missed
some heartbeats and no more. When it was not heard for a session, it takes itself for lost. `refusals` says
how often it tries and what the application is told. *Failed* is final, and for what no attempt of the same
client can change: another process has its instance id, or the cluster cannot do what it was configured for.

Only one task moves through the table. Heartbeats, metadata and the application leave notes and wake it, so no
event is lost while a listener runs, and none is seen half-way through a step.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a member stands. While it is joining or syncing the coordinator needs no heartbeats."""

    OUT = "out"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    FAILED = "failed"


class Event(Enum):
    """What moves a member on."""

    WANTED = "there is a subscription, and an application that asks for records"
    UNWANTED = "there is none any more"
    PREPARED = "given up what must be given up"
    JOINED = "the coordinator has begun a generation with this member"
    SYNCED = "the assignment has been adopted"
    REBALANCE = "the group, or this member, wants another assignment"
    LOST = "the coordinator does not count this member in"
    REFUSED = "the coordinator will never take this member"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.OUT, Event.WANTED): State.PREPARING,
    (State.PREPARING, Event.PREPARED): State.JOINING,
    (State.JOINING, Event.JOINED): State.SYNCING,
    (State.SYNCING, Event.SYNCED): State.STABLE,
    (State.SYNCING, Event.REBALANCE): State.PREPARING,
    (State.STABLE, Event.REBALANCE): State.PREPARING,
    (State.PREPARING, Event.LOST): State.PREPARING,
    (State.JOINING, Event.LOST): State.PREPARING,
    (State.SYNCING, Event.LOST): State.PREPARING,
    (State.STABLE, Event.LOST): State.PREPARING,
    (State.PREPARING, Event.UNWANTED): State.OUT,
    (State.JOINING, Event.UNWANTED): State.OUT,
    (State.SYNCING, Event.UNWANTED): State.OUT,
    (State.STABLE, Event.UNWANTED): State.OUT,
    (State.PREPARING, Event.REFUSED): State.FAILED,
    (State.JOINING, Event.REFUSED): State.FAILED,
    (State.SYNCING, Event.REFUSED): State.FAILED,
    (State.STABLE, Event.REFUSED): State.FAILED,
}

# A heartbeat is due while the coordinator waits for this member, or for its session to run out.
BEATING = frozenset({State.PREPARING, State.SYNCING, State.STABLE})
