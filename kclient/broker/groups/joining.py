"""JoinGroup on a classic group: who is taken in, under which id, and whether that needs a rebalance.

The answer is a future: most joins wait until the other members have joined too. `coordinator` calls `join`.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

from kclient.broker.groups import rebalance
from kclient.broker.groups.answers import join_refused, joined, sync_refused
from kclient.broker.groups.classic import ClassicGroup
from kclient.broker.groups.members import Member
from kclient.broker.groups.states import State
from kclient.errors import (
    BrokerError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownServerError,
)
from kclient.wire.messages.classic_groups import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
_SKIPS_ASSIGNMENT = 9
# A new member has no id to send heartbeats with. If its client gave up waiting, this is when that is noticed.
NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True, eq=False)
class Applicant:
    """Who asks to join, with what, and where the answer goes."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    answer: asyncio.Future[JoinGroupResponse]

    @property
    def protocols(self) -> dict[str, bytes]:
        return {protocol.name: bytes(protocol.metadata) for protocol in self.request.protocols}

    @property
    def rebalance_timeout_ms(self) -> int:
        """The first version has one timeout for both."""
        return self.request.session_timeout_ms if self.version == 0 else self.request.rebalance_timeout_ms


def join(group: ClassicGroup, applicant: Applicant) -> None:
    """Take the applicant in, or answer why not."""
    member_id = applicant.request.member_id
    if not _has_room(group, member_id):
        rebalance.forget(group, member_id)
        _answer(applicant, join_refused(GroupMaxSizeReachedError))
    elif not group.supports(applicant.request.protocol_type, applicant.protocols):
        _answer(applicant, join_refused(InconsistentGroupProtocolError, member_id))
    elif not member_id:
        _join_without_id(group, applicant)
    elif member_id in group.members.pending and applicant.request.group_instance_id is not None:
        # Ids are handed out to dynamic members only; Kafka has no answer to this either.
        _answer(applicant, join_refused(UnknownServerError))
    elif member_id in group.members.pending:
        _take_in(group, applicant, member_id)
    else:
        _join_again(group, applicant)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Joins that wait count during a rebalance, so that a group above its limit loses those who come last."""
    limit = group.host.config.group_max_size
    member = group.members.get(member_id)
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING:
        return (member is not None and member.joining is not None) or group.members.joined < limit
    return member is not None or len(group.members) < limit


def _join_without_id(group: ClassicGroup, applicant: Applicant) -> None:
    request = applicant.request
    prefix = applicant.client_id if request.group_instance_id is None else request.group_instance_id
    member_id = f"{prefix}-{_new_uuid(group)}"
    holder = group.members.static(request.group_instance_id)
    if holder is not None:
        _replace(group, applicant, holder, member_id)
    elif request.group_instance_id is None and applicant.version >= MEMBER_ID_REQUIRED_FROM:
        # A client that never saw this answer joins once more without an id; it must not be in twice.
        group.members.pending.add(member_id)
        rebalance.expect(group, member_id, request.session_timeout_ms)
        _answer(applicant, join_refused(MemberIdRequiredError, member_id))
    else:
        _take_in(group, applicant, member_id)


def _new_uuid(group: ClassicGroup) -> uuid.UUID:
    return uuid.UUID(int=group.host.random.getrandbits(128), version=4)


def _take_in(group: ClassicGroup, applicant: Applicant, member_id: str) -> None:
    """A member that was not there before."""
    member = Member(
        member_id=member_id,
        instance_id=applicant.request.group_instance_id,
        client_id=applicant.client_id,
        client_host=applicant.client_host,
        rebalance_timeout_ms=applicant.rebalance_timeout_ms,
        session_timeout_ms=applicant.request.session_timeout_ms,
        protocols=applicant.protocols,
        is_new=True,
        joining=applicant.answer,
    )
    if group.state is State.PREPARING and group.previous is State.EMPTY:
        group.newcomers = True
    group.add(member, applicant.request.protocol_type)
    rebalance.expect(group, member_id, NEW_MEMBER_TIMEOUT_MS)
    rebalance.changed(group)


def _join_again(group: ClassicGroup, applicant: Applicant) -> None:
    """A member that is there already. Only a change, or its leader's wish, makes a stable group rebalance."""
    request = applicant.request
    try:
        group.members.check(request.member_id, request.group_instance_id)
    except BrokerError as error:
        _answer(applicant, join_refused(error, request.member_id))
        return
    member = group.members[request.member_id]
    leads = group.members.leader == member.member_id
    same = list(member.protocols.items()) == list(applicant.protocols.items())
    if group.state is State.COMPLETING and same:
        # It did not get the answer to its first join.
        _answer(applicant, joined(group, member.member_id, show_members=leads))
    elif group.state is State.STABLE and same and not leads:
        _answer(applicant, joined(group, member.member_id, show_members=False))
    else:
        _update(member, applicant)
        rebalance.changed(group)


def _replace(group: ClassicGroup, applicant: Applicant, holder: Member, member_id: str) -> None:
    """A static member restarted: it takes its own place. Whoever waits under the old id is fenced off."""
    holder.answer_join(join_refused(FencedInstanceIdError, holder.member_id))
    holder.answer_sync(sync_refused(FencedInstanceIdError))
    old_leader = group.members.leader or ""
    rebalance.forget_session(group, holder.member_id)
    member = group.members.rename(holder, member_id)
    rebalance.keep_alive(group, member)
    _update(member, applicant)
    if group.state is State.STABLE and group.members.select_protocol() == group.protocol_name:
        group.host.append(group.group_id, [group.record()])
        _welcome_back(group, member, old_leader, applicant.version)
    else:
        # In CompletingRebalance too: the leader may be assigning partitions to the old id right now.
        rebalance.changed(group)


def _welcome_back(group: ClassicGroup, member: Member, old_leader: str, version: int) -> None:
    """The generation goes on. Versions that cannot say "do not assign" are told that somebody else leads."""
    if version >= _SKIPS_ASSIGNMENT:
        leads = group.members.leader == member.member_id
        member.answer_join(joined(group, member.member_id, show_members=leads, skip_assignment=leads))
    else:
        response = joined(group, member.member_id, show_members=False)
        response.leader = old_leader
        member.answer_join(response)


def _update(member: Member, applicant: Applicant) -> None:
    """What it says now counts. A join that it no longer waits for, on a connection it gave up, is ended."""
    member.answer_join(join_refused(RebalanceInProgressError, member.member_id))
    member.protocols = applicant.protocols
    member.rebalance_timeout_ms = applicant.rebalance_timeout_ms
    member.session_timeout_ms = applicant.request.session_timeout_ms
    member.joining = applicant.answer


def _answer(applicant: Applicant, response: JoinGroupResponse) -> None:
    applicant.answer.set_result(response)
