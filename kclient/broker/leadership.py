"""Whether a node may answer for a partition, and who may if it may not (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kclient.errors import FencedLeaderEpochError, NotLeaderOrFollowerError, UnknownLeaderEpochError

if TYPE_CHECKING:
    from kclient.broker.api import RequestContext
    from kclient.broker.topics import PartitionState


def check_leader(context: RequestContext, partition: PartitionState) -> None:
    if partition.leader != context.node.node_id:
        raise NotLeaderOrFollowerError(about=f"topic {partition.topic}, partition {partition.index}")


def check_epoch(partition: PartitionState, leader_epoch: int) -> None:
    """A client that knows an older or a newer leader than we do must ask who leads now."""
    if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
        kind = FencedLeaderEpochError if leader_epoch < partition.leader_epoch else UnknownLeaderEpochError
        raise kind(about=f"topic {partition.topic}, partition {partition.index}")


def hint_of(context: RequestContext, node_id: int, endpoint: type[Any]) -> Any:
    """Where a leader listens, as the response that names it wants it."""
    node = context.broker.nodes[node_id]
    listener = node.listeners[context.listener]
    return endpoint(node_id=node_id, host=listener.host, port=listener.advertised_port, rack=node.rack)
