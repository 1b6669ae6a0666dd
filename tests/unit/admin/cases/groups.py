"""Cases about groups."""

from __future__ import annotations

from typing import Any

from kclient.admin import ConsumerGroupDescription, GroupListing, GroupState, GroupType, MemberDescription
from kclient.admin.groups import (
    DeleteConsumerGroups,
    DescribeClassicGroups,
    DescribeConsumerGroups,
    ListGroups,
)
from kclient.errors import error_for
from kclient.types import TopicPartition
from kclient.wire.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from kclient.wire.messages.group_admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.unit.admin.cases.base import FIRST, ID, NOT_TOLD, PERMISSIONS, READ_AND_DESCRIBE, Case


def _groups(version: int) -> ListGroupsResponse:
    group = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(
        groups=[
            group(
                group_id="billing",
                protocol_type="consumer",
                group_state="Stable" if version >= 4 else "",
                group_type="Consumer" if version >= 5 else "",
            )
        ]
    )


def _listed_groups(version: int) -> dict[int, Any]:
    kind = GroupType.CONSUMER if version >= 5 else GroupType.UNKNOWN
    state = GroupState.STABLE if version >= 4 else GroupState.UNKNOWN
    return {1: (GroupListing("billing", kind, "consumer", state),)}


def _modern_groups(version: int) -> ConsumerGroupDescribeResponse:
    group = ConsumerGroupDescribeResponse.DescribedGroup

    def assignment(*partitions: int) -> ConsumerGroupDescribeResponseAssignment:
        topic = ConsumerGroupDescribeResponseTopicPartitions
        return ConsumerGroupDescribeResponseAssignment(
            topic_partitions=[topic(topic_id=ID, topic_name="orders", partitions=list(partitions))]
        )

    member = group.Member(
        member_id="m",
        instance_id="i",
        rack_id="r",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        assignment=assignment(0),
        target_assignment=assignment(0, 1),
        member_type=1 if version >= 1 else -1,
    )
    return ConsumerGroupDescribeResponse(
        groups=[
            group(
                group_id="billing",
                group_state="Reconciling",
                group_epoch=5,
                assignment_epoch=4,
                assignor_name="uniform",
                members=[member],
                authorized_operations=READ_AND_DESCRIBE,
            ),
            group(
                error_code=69,
                error_message="no",
                group_id="old",
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=[],
            ),
        ]
    )


def _described_modern_groups(version: int) -> dict[str, Any]:
    member = MemberDescription(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        host="/h",
        subscription=frozenset({"orders"}),
        assignment=frozenset({FIRST}),
        rack_id="r",
        target_assignment=frozenset({FIRST, TopicPartition("orders", 1)}),
        member_epoch=3,
        upgraded=True if version >= 1 else None,
    )
    description = ConsumerGroupDescription(
        group_id="billing",
        type=GroupType.CONSUMER,
        protocol_type="consumer",
        state=GroupState.RECONCILING,
        partition_assignor="uniform",
        members=(member,),
        group_epoch=5,
        target_assignment_epoch=4,
        authorized_operations=PERMISSIONS,
    )
    return {"billing": description, "old": error_for(69, "no", about="group old")}


SUBSCRIBED = ConsumerProtocolSubscription(topics=["orders"], rack_id="r")
ASSIGNED = ConsumerProtocolAssignment(
    assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="orders", partitions=[0])]
)


def _classic_groups(version: int) -> DescribeGroupsResponse:
    group = DescribeGroupsResponse.DescribedGroup
    member = group.DescribedGroupMember(
        member_id="m",
        group_instance_id="i" if version >= 4 else None,
        client_id="c",
        client_host="/h",
        member_metadata=b"\0\3" + SUBSCRIBED.encode(3),
        member_assignment=b"\0\1" + ASSIGNED.encode(1),
    )
    connector = group.DescribedGroupMember(
        member_id="w", client_id="c", client_host="/h", member_metadata=b"\0\1?", member_assignment=b"\0\1?"
    )
    return DescribeGroupsResponse(
        groups=[
            group(
                group_id="billing",
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[member],
                authorized_operations=READ_AND_DESCRIBE if version >= 3 else NOT_TOLD,
            ),
            group(
                group_id="sinks",
                group_state="Stable",
                protocol_type="connect",
                protocol_data="sessioned",
                members=[connector],
            ),
            group(group_id="gone", group_state="Dead", protocol_type="", protocol_data="", members=[]),
            group(
                error_code=30,
                group_id="secret",
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            ),
        ]
    )


def _described_classic_groups(version: int) -> dict[str, Any]:
    member = MemberDescription(
        member_id="m",
        group_instance_id="i" if version >= 4 else None,
        client_id="c",
        host="/h",
        subscription=frozenset({"orders"}),
        assignment=frozenset({FIRST}),
        rack_id="r",
    )
    connector = MemberDescription("w", None, "c", "/h", frozenset(), frozenset())
    described, stable = ConsumerGroupDescription, GroupState.STABLE
    return {
        "billing": described(
            "billing",
            GroupType.CLASSIC,
            "consumer",
            stable,
            "range",
            (member,),
            authorized_operations=PERMISSIONS if version >= 3 else None,
        ),
        "sinks": described("sinks", GroupType.CLASSIC, "connect", stable, "sessioned", (connector,)),
        "gone": error_for(69, about="group gone"),
        "secret": error_for(30, about="group secret"),
    }


def _deleted_groups(version: int) -> DeleteGroupsResponse:
    result = DeleteGroupsResponse.DeletableGroupResult
    told = "it has members" if version >= 3 else None
    return DeleteGroupsResponse(
        results=[result(group_id="billing"), result(group_id="audit", error_code=68, error_message=told)]
    )


CASES = [
    Case(ListGroups([], [GroupType.CLASSIC]), [1], _groups, _listed_groups),
    Case(
        DescribeConsumerGroups(include_authorized_operations=True),
        ["billing", "old"],
        _modern_groups,
        _described_modern_groups,
    ),
    Case(
        DescribeClassicGroups(include_authorized_operations=True),
        ["billing", "sinks", "gone", "secret"],
        _classic_groups,
        _described_classic_groups,
    ),
    Case(
        DeleteConsumerGroups(),
        ["billing", "audit"],
        _deleted_groups,
        lambda version: {
            "billing": None,
            "audit": error_for(68, "it has members" if version >= 3 else None, about="group audit"),
        },
    ),
]
