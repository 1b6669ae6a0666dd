"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup answered by KIP-848.

While a group is migrated, members of both protocols are in it (KIP-848, "online migration"). To a classic
member its member epoch is the generation, and its way to a new target is a chain of rebalances of its own:

    Heartbeat   told to rebalance when there is a newer target, when it has to let go of partitions, or when
                those it waits for are free
    JoinGroup   says what it still owns, as a heartbeat of the other protocol does; answered at once
    SyncGroup   is told what it may have now; nobody leads, so nothing is brought along

What has to be let go is left out of the answer to SyncGroup, and the next JoinGroup shows that it is done.
Who does not join or sync within its rebalance timeout is out. `coordinator` calls this.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kclient.broker.groups.answers import join_refused
from kclient.broker.groups.classic import CONSUMER
from kclient.broker.groups.embedded import read_subscription, write_assignment
from kclient.broker.groups.joining import MEMBER_ID_REQUIRED_FROM, Applicant
from kclient.broker.groups.modern import ConsumerGroup
from kclient.broker.groups.modern_assignors import Partitions
from kclient.broker.groups.modern_member import ClassicSide, Member, MemberState, successor
from kclient.broker.groups.modern_messages import new_member_id
from kclient.broker.groups.syncing import left
from kclient.errors import (
    BrokerError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    ProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from kclient.wire.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kclient.wire.messages.group_protocol import ConsumerProtocolSubscription


def join(group: ConsumerGroup, applicant: Applicant, random: Random) -> JoinGroupResponse:
    """Take the applicant in, or on to its target. Unlike a classic group, a refusal does not name it."""
    try:
        return _join(group, applicant, random)
    except BrokerError as error:
        return join_refused(error)


def _join(group: ConsumerGroup, applicant: Applicant, random: Random) -> JoinGroupResponse:
    request = applicant.request
    member_id = request.member_id or new_member_id(random)
    if not (group.config.upgrades or group.config.downgrades):
        raise InconsistentGroupProtocolError(
            f"Cannot join the consumer group {group.group_id} with the classic protocol "
            "because the group migration is disabled."
        )
    group.check_room(member_id)
    _check_protocols(group, applicant, member_id)
    if (
        not request.member_id
        and request.group_instance_id is None
        and applicant.version >= MEMBER_ID_REQUIRED_FROM
    ):
        return join_refused(MemberIdRequiredError, member_id)
    before, replaced = _find(group, applicant, member_id)
    subscription = _subscription(applicant)
    after = group.advance(
        before, _updated(before, applicant, subscription), _owned(group, subscription), replaced
    )
    group.timers.joins.stop(after.member_id)
    group.timers.syncs.start(after.member_id, applicant.rebalance_timeout_ms)
    if replaced is not None and group.is_ready_for_classic:
        # All go on where they are if they are where they should be; others might hold what this one gets.
        group.become_classic(rebalance=group.state_name != "Stable")
    else:
        group.save()
    name, _ = _side(after).protocols[0]
    return JoinGroupResponse(
        generation_id=after.epoch,
        protocol_type=CONSUMER,
        protocol_name=name,
        leader="",
        member_id=after.member_id,
        members=[],
    )


def sync(group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    """What the member may have now. Raises what is wrong with the request."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    name, metadata = _side(member).protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise InconsistentGroupProtocolError(about=f"group {group.group_id}")
    if member.epoch < group.assignment_epoch and member.state is not MemberState.UNREVOKED:
        _have_it_join(group, member)
    group.timers.syncs.stop(member.member_id)
    group.keep_alive(member)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(group.subscriptions.by_name(member.assigned), metadata),
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest) -> None:
    """A member shows that it is alive. Raises what it should do instead of carrying on."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    group.keep_alive(member)
    if (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED
        or (member.state is MemberState.UNRELEASED and not group.awaits_others(member))
    ):
        _have_it_join(group, member)


def leave(
    group: ConsumerGroup, leaving: list[LeaveGroupRequest.MemberIdentity]
) -> list[LeaveGroupResponse.MemberResponse]:
    """Take members out, of either protocol: admin clients remove both like this."""
    answers, gone = [], set()
    for identity in leaving:
        code = 0
        try:
            gone.add(_leaving_member(group, identity).member_id)
        except BrokerError as error:
            code = error.code
        answers.append(left(identity, code))
    if gone:
        group.part_with(gone)
    return answers


def _check_protocols(group: ConsumerGroup, applicant: Applicant, member_id: str) -> None:
    """It has to speak something that all classic members speak: the group may be theirs again one day."""
    spoken = [dict(member.classic.protocols) for member in group.members.values() if member.classic]
    common = (name for name in applicant.protocols if all(name in protocols for protocols in spoken))
    if applicant.request.protocol_type != CONSUMER or next(common, None) is None:
        raise InconsistentGroupProtocolError(f"Member {member_id}'s protocols are not supported.")


def _find(group: ConsumerGroup, applicant: Applicant, member_id: str) -> tuple[Member, str | None]:
    """The member as it was, and the id of the static member that it takes the place of."""
    instance_id = applicant.request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id), None
    if applicant.request.member_id:
        return group.holder(member_id, instance_id), None
    if instance_id not in group.static:
        return Member(member_id), None
    # Unlike among members of the new protocol, the old holder need not have left.
    old = group.static_member(instance_id)
    return successor(old, member_id), old.member_id


def _subscription(applicant: Applicant) -> ConsumerProtocolSubscription:
    """All protocols come with the same one."""
    try:
        return read_subscription(next(iter(applicant.protocols.values())))
    except ProtocolError as error:
        raise UnknownServerError(about="a subscription that cannot be read") from error


def _updated(member: Member, applicant: Applicant, subscription: ConsumerProtocolSubscription) -> Member:
    request = applicant.request
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=applicant.client_id,
        client_host=applicant.client_host,
        rebalance_timeout_ms=applicant.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        classic=ClassicSide(request.session_timeout_ms, tuple(applicant.protocols.items())),
    )


def _owned(group: ConsumerGroup, subscription: ConsumerProtocolSubscription) -> Partitions:
    """Consumers that give everything up before they join own nothing, and so do those of old versions."""
    owned = {topic.topic: topic.partitions for topic in subscription.owned_partitions}
    return group.subscriptions.by_id(owned)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    member = group.holder(member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGenerationError(about=f"generation {generation} of group {group.group_id}")
    return member


def _leaving_member(group: ConsumerGroup, identity: LeaveGroupRequest.MemberIdentity) -> Member:
    if identity.group_instance_id is not None and not identity.member_id:
        return group.static_member(identity.group_instance_id)
    return group.holder(identity.member_id, identity.group_instance_id)


def _have_it_join(group: ConsumerGroup, member: Member) -> None:
    group.timers.joins.start_if_absent(member.member_id, member.rebalance_timeout_ms)
    raise RebalanceInProgressError(about=f"group {group.group_id}")


def _side(member: Member) -> ClassicSide:
    assert member.classic is not None
    return member.classic
