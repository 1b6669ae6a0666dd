"""Groups: the requests that list, describe and delete them.

There are two ways to describe a consumer group, one for each protocol: `DescribeConsumerGroups` for groups
that the broker assigns (KIP-848), `DescribeClassicGroups` for those whose members do it among themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from kclient.admin.group_descriptions import (
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    read_classic_group,
    read_modern_group,
)
from kclient.admin.operation import AdminOperation, needs
from kclient.cluster.routes import Coordinator, CoordinatorKind, Node
from kclient.errors import KafkaError, error_for
from kclient.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kclient.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

_FIRST_WITH_STATES = 4
_FIRST_WITH_TYPES = 5
_FIRST_WITH_PERMISSIONS = 3


def coordinator_of(group_id: str) -> Coordinator:
    """The way to the broker that answers for a group."""
    return Coordinator(CoordinatorKind.GROUP, group_id)


class ListGroups(AdminOperation[int, tuple[GroupListing, ...]]):
    """Lists the groups that each broker coordinates, by the broker's number."""

    request: ClassVar[type[ListGroupsRequest]] = ListGroupsRequest

    def __init__(self, states: Collection[str], types: Collection[str]) -> None:
        self._states = states
        self._types = types

    def route(self, key: int) -> Node:
        return Node(key)

    def build(self, keys: list[int], version: int) -> ListGroupsRequest:
        if self._states and version < _FIRST_WITH_STATES:
            raise needs("2.6", "listing groups by state")
        types = list(self._types)
        if types and version < _FIRST_WITH_TYPES:
            # Brokers that know no types have classic groups only.
            if GroupType.CLASSIC not in types:
                raise needs("3.8", "listing groups by type")
            types = []
        return ListGroupsRequest(states_filter=list(self._states), types_filter=types)

    def read(
        self, response: ListGroupsResponse, keys: list[int]
    ) -> dict[int, tuple[GroupListing, ...] | KafkaError]:
        (broker,) = keys
        return {
            broker: error_for(response.error_code, about=f"broker {broker}")
            or tuple(
                GroupListing(
                    group.group_id,
                    GroupType(group.group_type),
                    group.protocol_type,
                    GroupState(group.group_state),
                )
                for group in response.groups
            )
        }


class DescribeConsumerGroups(AdminOperation[str, ConsumerGroupDescription]):
    """Describes groups that the broker assigns, by id."""

    request: ClassVar[type[ConsumerGroupDescribeRequest]] = ConsumerGroupDescribeRequest

    def __init__(self, include_authorized_operations: bool) -> None:
        self._include_authorized_operations = include_authorized_operations

    def route(self, key: str) -> Coordinator:
        return coordinator_of(key)

    def build(self, keys: list[str], version: int) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=self._include_authorized_operations
        )

    def read(
        self, response: ConsumerGroupDescribeResponse, keys: list[str]
    ) -> dict[str, ConsumerGroupDescription | KafkaError]:
        return {group.group_id: read_modern_group(group) for group in response.groups}


class DescribeClassicGroups(AdminOperation[str, ConsumerGroupDescription]):
    """Describes classic groups, by id."""

    request: ClassVar[type[DescribeGroupsRequest]] = DescribeGroupsRequest

    def __init__(self, include_authorized_operations: bool) -> None:
        self._include_authorized_operations = include_authorized_operations

    def route(self, key: str) -> Coordinator:
        return coordinator_of(key)

    def build(self, keys: list[str], version: int) -> DescribeGroupsRequest:
        wanted = self._include_authorized_operations and version >= _FIRST_WITH_PERMISSIONS
        return DescribeGroupsRequest(groups=keys, include_authorized_operations=wanted)

    def read(
        self, response: DescribeGroupsResponse, keys: list[str]
    ) -> dict[str, ConsumerGroupDescription | KafkaError]:
        return {group.group_id: read_classic_group(group) for group in response.groups}


class DeleteConsumerGroups(AdminOperation[str, None]):
    """Deletes empty groups with their offsets, by id."""

    request: ClassVar[type[DeleteGroupsRequest]] = DeleteGroupsRequest

    def route(self, key: str) -> Coordinator:
        return coordinator_of(key)

    def build(self, keys: list[str], version: int) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=keys)

    def read(self, response: DeleteGroupsResponse, keys: list[str]) -> dict[str, KafkaError | None]:
        return {
            group.group_id: error_for(group.error_code, group.error_message, about=f"group {group.group_id}")
            for group in response.results
        }
