"""How a classic group gets from one generation to the next; the theory is in `states`.

Functions on a group. `joining` and `syncing` call them when members come, go and change, timers when members
do not do what they should.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kclient.broker.groups.answers import join_refused, joined, sync_refused
from kclient.broker.groups.states import TRANSITIONS, Event, State
from kclient.errors import (
    BrokerError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

if TYPE_CHECKING:
    from kclient.broker.groups.classic import ClassicGroup
    from kclient.broker.groups.members import Member

_JOIN = "join"
_SYNC = "sync"


def keep_alive(group: ClassicGroup, member: Member) -> None:
    """The member was heard of: its session begins anew."""
    expect(group, member.member_id, member.session_timeout_ms)


def expect(group: ClassicGroup, member_id: str, milliseconds: int) -> None:
    """Forget a member, or an id that was handed out, unless it is heard of within so long."""
    group.timers.start(_session(member_id), milliseconds, partial(_session_over, group, member_id))


def changed(group: ClassicGroup) -> None:
    """Members or subscriptions changed: rebalance, or end the rebalance under way if all joined."""
    if (group.state, Event.REBALANCE) in TRANSITIONS:
        begin(group)
    else:
        complete_if_all_joined(group)


def begin(group: ClassicGroup) -> None:
    """Have every member join again."""
    if group.state is State.COMPLETING:
        abandon_assignment(group, RebalanceInProgressError)
    group.members.unsynced.clear()
    group.timers.cancel(_SYNC)
    group.move(Event.REBALANCE)
    if group.previous is State.EMPTY:
        delay = group.host.config.group_initial_rebalance_delay_ms
        _wait_for_first_members(group, delay, max(group.members.rebalance_timeout_ms - delay, 0))
    elif group.members.all_joined:
        complete(group)
    else:
        _wait_for_members(group)


def complete_if_all_joined(group: ClassicGroup) -> None:
    """End a rebalance, unless it is the first one: that waits for its delay to be over."""
    if group.state is State.PREPARING and group.previous is not State.EMPTY and group.members.all_joined:
        complete(group)


def complete(group: ClassicGroup) -> None:
    """The joins are over: begin the next generation with those who joined, or with nobody.

    Static members that did not join stay: they keep their place until their session is over.
    """
    group.timers.cancel(_JOIN)
    for member in group.members:
        if member.joining is None and member.instance_id is None:
            forget(group, member.member_id)
    if not group.members.elect_joined_leader() and len(group.members):
        # Only static members, and all of them away: their sessions end this.
        _wait_for_members(group)
        return
    group.next_generation()
    if group.state is State.EMPTY:
        group.host.append(group.group_id, [group.record()])
        return
    for member in group.members:
        leads = member.member_id == group.members.leader
        member.answer_join(joined(group, member.member_id, show_members=leads))
        member.is_new = False
        keep_alive(group, member)
        group.members.unsynced.add(member.member_id)
    group.timers.start(
        _SYNC, group.members.rebalance_timeout_ms, partial(_sync_over, group, group.generation)
    )


def member_synced(group: ClassicGroup, member_id: str) -> None:
    group.members.unsynced.discard(member_id)
    if not group.members.unsynced:
        group.timers.cancel(_SYNC)


def abandon_assignment(group: ClassicGroup, error: type[BrokerError] | BrokerError) -> None:
    """Nobody gets an assignment in this generation: tell those who wait for one."""
    for member in group.members:
        member.assignment = b""
        if member.answer_sync(sync_refused(error)):
            keep_alive(group, member)


def dismiss(group: ClassicGroup, member: Member) -> None:
    """Take a member out and tell it, if it waits; the caller sees to the rebalance."""
    member.answer_join(join_refused(UnknownMemberIdError))
    member.answer_sync(sync_refused(UnknownMemberIdError))
    forget(group, member.member_id)


def coordinator_moved(group: ClassicGroup) -> None:
    """Tell those who wait to ask the new coordinator, which knows only what was stored.

    So newcomers are strangers to it, and whoever else was refused has its session to come back.
    """
    for member_id in list(group.members.pending):
        forget(group, member_id)
    for member in group.members:
        member.answer_join(join_refused(NotCoordinatorError, member.member_id))
        member.answer_sync(sync_refused(NotCoordinatorError))
        if member.is_new:
            forget(group, member.member_id)
        else:
            keep_alive(group, member)
    complete_if_all_joined(group)


def forget(group: ClassicGroup, member_id: str) -> None:
    """Take a member out, or an id that was handed out."""
    group.members.remove(member_id)
    forget_session(group, member_id)


def forget_session(group: ClassicGroup, member_id: str) -> None:
    """Nobody is expected under this id any more."""
    group.timers.cancel(_session(member_id))


def _session(member_id: str) -> str:
    return f"session {member_id}"


def _session_over(group: ClassicGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        group.members.pending.remove(member_id)
    elif member.needs_no_heartbeat:
        return
    else:
        dismiss(group, member)
        if group.state in (State.STABLE, State.COMPLETING):
            begin(group)
            return
    if group.state is State.PREPARING and group.members.all_joined:
        complete(group)


def _sync_over(group: ClassicGroup, generation: int) -> None:
    """Members that joined and never asked for their assignment are gone, the leader perhaps among them."""
    if generation == group.generation and group.members.unsynced:
        for member_id in list(group.members.unsynced):
            forget(group, member_id)
        begin(group)


def _wait_for_members(group: ClassicGroup) -> None:
    group.timers.start(_JOIN, group.members.rebalance_timeout_ms, partial(complete, group))


def _wait_for_first_members(group: ClassicGroup, delay: int, remaining: int) -> None:
    group.timers.start(_JOIN, delay, partial(_first_delay_over, group, delay, remaining))


def _first_delay_over(group: ClassicGroup, delay: int, remaining: int) -> None:
    if not group.newcomers or remaining == 0:
        complete(group)
        return
    group.newcomers = False
    again = min(group.host.config.group_initial_rebalance_delay_ms, remaining)
    _wait_for_first_members(group, again, max(remaining - delay, 0))
