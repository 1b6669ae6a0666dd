"""Cases about the cluster."""

from __future__ import annotations

from typing import Any

from kclient.admin import ClusterDescription
from kclient.admin.cluster import DescribeCluster, DescribeClusterByMetadata
from kclient.cluster.metadata import Broker
from kclient.config import Endpoint
from kclient.wire.messages.metadata import DescribeClusterResponse
from tests.unit.admin.cases.base import ONE, PERMISSIONS, READ_AND_DESCRIBE, TWO, Case
from tests.unit.admin.cases.topics import metadata


def _cluster(version: int) -> DescribeClusterResponse:
    broker = DescribeClusterResponse.DescribeClusterBroker
    fenced = [broker(broker_id=3, host="three", port=1, is_fenced=True)] if version >= 2 else []
    return DescribeClusterResponse(
        cluster_id="cluster",
        controller_id=2,
        brokers=[
            broker(broker_id=2, host="two", port=9093),
            broker(broker_id=1, host="one", port=9092, rack="r1"),
            *fenced,
        ],
        cluster_authorized_operations=READ_AND_DESCRIBE,
    )


def _described_cluster(version: int) -> dict[None, Any]:
    fenced = (Broker(3, Endpoint("three", 1)),) if version >= 2 else ()
    return {None: ClusterDescription("cluster", TWO, (ONE, TWO), fenced, PERMISSIONS)}


def _cluster_by_metadata(version: int) -> dict[None, Any]:
    one = ONE if version >= 1 else ONE._replace(rack=None)
    return {
        None: ClusterDescription(
            "cluster" if version >= 2 else None,
            TWO if version >= 1 else None,
            (one, TWO),
            (),
            PERMISSIONS if 8 <= version <= 10 else None,
        )
    }


CASES = [
    Case(
        DescribeCluster(include_authorized_operations=True, include_fenced_brokers=True),
        [None],
        _cluster,
        _described_cluster,
    ),
    Case(
        DescribeClusterByMetadata(include_authorized_operations=True), [None], metadata, _cluster_by_metadata
    ),
]
