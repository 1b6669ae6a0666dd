"""What the leader of a classic group does: find out about topics, let the assignor share them, watch them.

And what every member does: tell the assignor what it got. Metadata of topics that only others subscribe to
is kept fresh by looking them up, for as long as one leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kclient.clock import Deadline
from kclient.cluster.client import Cluster
from kclient.cluster.metadata import Metadata
from kclient.consumer.group.assignors.base import Assignment, Assignor, Layout, Member
from kclient.errors import KafkaError
from kclient.types import TopicPartition
from kclient.usercode import failure, let_out, report

log: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Basis:
    """What an assignment rests on: while it stays as it is, so does the assignment."""

    topics: frozenset[str]
    with_racks: bool
    layout: Layout

    def still_true(self, snapshot: Metadata) -> bool:
        return self.layout == layout_of(snapshot, self.topics, self.with_racks)


async def find_basis(cluster: Cluster, members: Iterable[Member], deadline: Deadline) -> Basis:
    """How the topics of all members look now."""
    members = list(members)
    topics = frozenset(topic for member in members for topic in member.topics)
    look_up(cluster, topics)
    snapshot = cluster.metadata.snapshot
    if any(topic not in snapshot.topics and topic not in snapshot.errors for topic in topics):
        snapshot = await cluster.metadata.refreshed(deadline)
    with_racks = any(member.rack for member in members)
    return Basis(topics, with_racks, layout_of(snapshot, topics, with_racks))


def look_up(cluster: Cluster, topics: Iterable[str]) -> None:
    """Keep topics in the metadata, and ask again for those that are not there, as they may be created."""
    for topic in topics:
        cluster.metadata.look_up(topic)
        if topic not in cluster.metadata.snapshot.topics:
            cluster.metadata.ask()


def layout_of(snapshot: Metadata, topics: Iterable[str], with_racks: bool) -> Layout:
    """The partitions of each topic that is there, with the racks of their replicas where they count."""

    def racks(replicas: Iterable[int]) -> frozenset[str]:
        if not with_racks:
            return frozenset()
        brokers = (snapshot.brokers.get(replica) for replica in replicas)
        return frozenset(broker.rack for broker in brokers if broker is not None and broker.rack)

    return {
        topic: [racks(partition.replicas) for _, partition in sorted(known.partitions.items())]
        for topic in sorted(topics)
        if (known := snapshot.topics.get(topic)) is not None and known.partitions
    }


def share(assignor: Assignor, basis: Basis, members: Mapping[str, Member]) -> Assignment:
    """Who gets what; members that the assignor forgot get nothing. Raises what is wrong with its answer."""
    try:
        given = assignor.assign(basis.layout, members)
        return {
            member: [_existing(each, basis.layout) for each in given.get(member, ())] for member in members
        }
    except BaseException as error:
        let_out(error)
        raise failure("the assignor's", assignor.assign, error) from error


def _existing(given: object, layout: Layout) -> TopicPartition:
    """A partition that an assignor gave somebody: anything else, all members would be told to read."""
    match given:
        case (str(topic), int(number)) if 0 <= number < len(layout.get(topic, ())):
            return TopicPartition(topic, number)
    raise ValueError(f"it gives away {given!r}, which is no partition of the topics that it was shown")


def remind(
    assignor: Assignor, given: Iterable[TopicPartition], generation: int, show: Callable[[KafkaError], None]
) -> None:
    """Tell an assignor what its member got. One that raises forgets it, and the member has its partitions."""
    try:
        assignor.assigned(sorted(given), generation)
    except BaseException as error:  # noqa: BLE001 - shown and reported
        show(failure("the assignor's", assignor.assigned, error))
        report(log, "the assignor's", assignor.assigned, error)
