"""Verbs about groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from kclient.admin.group_descriptions import ConsumerGroupDescription, GroupListing, GroupState, GroupType
from kclient.admin.groups import (
    DeleteConsumerGroups,
    DescribeClassicGroups,
    DescribeConsumerGroups,
    ListGroups,
    coordinator_of,
)
from kclient.admin.outcomes import Outcomes
from kclient.admin.verbs.base import Names, Verbs, several
from kclient.clock import Deadline
from kclient.errors import (
    BrokerNotAvailableError,
    GroupIdNotFoundError,
    IncompatibleBrokerError,
    KafkaError,
    UnsupportedVersionError,
)

# Answers to a question in the new protocol that leave the old one to be asked.
_MAYBE_CLASSIC = (GroupIdNotFoundError, UnsupportedVersionError, IncompatibleBrokerError)


W = TypeVar("W", GroupState, GroupType)


def _known(kind: type[W], wanted: W | Iterable[W]) -> list[str]:
    """The words for a broker, which would take one that it does not know for a filter that nothing passes."""
    words = [kind(word) for word in ([wanted] if isinstance(wanted, str) else wanted)]
    if kind["UNKNOWN"] in words:
        known = ", ".join(word for word in kind if word is not kind["UNKNOWN"])
        raise ValueError(f"groups are listed by a {kind.__name__}: {known}")
    return [str(word) for word in words]


class GroupVerbs(Verbs):
    """List, describe and delete groups."""

    async def list_groups(
        self,
        *,
        states: GroupState | Iterable[GroupState] = (),
        types: GroupType | Iterable[GroupType] = (),
        timeout_ms: float | None = None,
    ) -> dict[str, GroupListing]:
        """The groups of all brokers, by id; `states` (Kafka 2.6) and `types` (3.8) select some of them.

        idle = await admin.list_groups(states=[GroupState.EMPTY])
        """
        cluster = self._open()
        deadline = cluster.deadline(timeout_ms)
        operation = ListGroups(_known(GroupState, states), _known(GroupType, types))
        while True:
            metadata = await cluster.metadata.refreshed(deadline)
            outcomes = await self._run(operation, metadata.brokers, deadline)
            # A broker that has left the cluster has handed its groups to others, who must be asked again.
            if not any(isinstance(error, BrokerNotAvailableError) for error in outcomes.errors.values()):
                break
        outcomes.raise_errors()
        listings = [listing for listings in outcomes.values() for listing in listings]
        return {listing.group_id: listing for listing in sorted(listings, key=lambda each: each.group_id)}

    async def describe_consumer_groups(
        self,
        group_ids: Names,
        *,
        include_authorized_operations: bool = False,
        raise_errors: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, ConsumerGroupDescription]:
        """The members of groups of either protocol: who they are, what they subscribe to and have assigned.

        group = (await admin.describe_consumer_groups("billing"))["billing"]
        """
        deadline = self._open().deadline(timeout_ms)
        modern = await self._run(
            DescribeConsumerGroups(include_authorized_operations), several(group_ids), deadline
        )
        rest = [group_id for group_id, error in modern.errors.items() if isinstance(error, _MAYBE_CLASSIC)]
        classic = await self._run(DescribeClassicGroups(include_authorized_operations), rest, deadline)
        described = modern | classic
        described |= Outcomes(await self._located(described.succeeded, deadline))
        if raise_errors:
            described.raise_errors()
        return described

    async def delete_consumer_groups(
        self, group_ids: Names, *, raise_errors: bool = True, timeout_ms: float | None = None
    ) -> Outcomes[str, None]:
        """Delete groups that have no members, with the offsets they have committed.

        await admin.delete_consumer_groups(["billing", "audit"])
        """
        deadline = self._open().deadline(timeout_ms)
        return await self._run_and_raise(
            DeleteConsumerGroups(), several(group_ids), deadline, raise_errors=raise_errors
        )

    async def _located(
        self, groups: dict[str, ConsumerGroupDescription], deadline: Deadline
    ) -> dict[str, ConsumerGroupDescription]:
        """The same with their coordinators, which are known by now: they have just answered."""
        cluster = self._open()
        located = {}
        for group_id, group in groups.items():
            try:
                node_id = await cluster.coordinators.node(coordinator_of(group_id), deadline)
            except KafkaError:
                located[group_id] = group
            else:
                located[group_id] = replace(group, coordinator=cluster.metadata.snapshot.brokers.get(node_id))
        return located
