"""The cluster itself: who is in it. DescribeCluster where the broker offers it (2.8), else Metadata."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from kclient.admin.operation import AdminOperation
from kclient.admin.permissions import AclOperation, read_operations
from kclient.cluster.metadata import Broker
from kclient.cluster.routes import AnyBroker
from kclient.config import Endpoint
from kclient.errors import KafkaError, error_for
from kclient.wire.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)

_FIRST_WITH_FENCED_BROKERS = 2
_FIRST_WITHOUT_AUTO_CREATION = 4
_WITH_PERMISSIONS = range(8, 11)


@dataclass(frozen=True)
class ClusterDescription:
    """The brokers of a cluster. Behind a KRaft quorum the controller is the broker that passes requests on.

    `fenced_brokers` are registered but not in service; only Kafka 4.0 and newer tell, and only when asked.
    """

    cluster_id: str | None
    controller: Broker | None
    brokers: tuple[Broker, ...]
    fenced_brokers: tuple[Broker, ...] = ()
    authorized_operations: frozenset[AclOperation] | None = None


class DescribeCluster(AdminOperation[None, ClusterDescription]):
    """Describes the cluster; there is one key, None."""

    request: ClassVar[type[DescribeClusterRequest]] = DescribeClusterRequest

    def __init__(self, include_authorized_operations: bool, include_fenced_brokers: bool) -> None:
        self._include_authorized_operations = include_authorized_operations
        self._include_fenced_brokers = include_fenced_brokers

    def route(self, key: None) -> AnyBroker:
        return AnyBroker()

    def build(self, keys: list[None], version: int) -> DescribeClusterRequest:
        return DescribeClusterRequest(
            include_cluster_authorized_operations=self._include_authorized_operations,
            include_fenced_brokers=self._include_fenced_brokers and version >= _FIRST_WITH_FENCED_BROKERS,
        )

    def read(
        self, response: DescribeClusterResponse, keys: list[None]
    ) -> dict[None, ClusterDescription | KafkaError]:
        def brokers(fenced: bool) -> tuple[Broker, ...]:
            return _in_order(
                Broker(broker.broker_id, Endpoint(broker.host, broker.port), broker.rack)
                for broker in response.brokers
                if broker.is_fenced is fenced
            )

        return {
            None: error_for(response.error_code, response.error_message)
            or _described(
                response.cluster_id,
                response.controller_id,
                brokers(fenced=False),
                brokers(fenced=True),
                response.cluster_authorized_operations,
            )
        }


class DescribeClusterByMetadata(AdminOperation[None, ClusterDescription]):
    """The same from brokers before 2.8."""

    request: ClassVar[type[MetadataRequest]] = MetadataRequest

    def __init__(self, include_authorized_operations: bool) -> None:
        self._include_authorized_operations = include_authorized_operations

    def route(self, key: None) -> AnyBroker:
        return AnyBroker()

    def build(self, keys: list[None], version: int) -> MetadataRequest:
        return MetadataRequest(
            topics=[],
            allow_auto_topic_creation=version < _FIRST_WITHOUT_AUTO_CREATION,
            include_cluster_authorized_operations=(
                self._include_authorized_operations and version in _WITH_PERMISSIONS
            ),
        )

    def read(
        self, response: MetadataResponse, keys: list[None]
    ) -> dict[None, ClusterDescription | KafkaError]:
        return {
            None: error_for(response.error_code)
            or _described(
                response.cluster_id,
                response.controller_id,
                _in_order(
                    Broker(broker.node_id, Endpoint(broker.host, broker.port), broker.rack)
                    for broker in response.brokers
                ),
                (),
                response.cluster_authorized_operations,
            )
        }


def _in_order(brokers: Iterable[Broker]) -> tuple[Broker, ...]:
    return tuple(sorted(brokers, key=lambda broker: broker.node_id))


def _described(
    cluster_id: str | None,
    controller_id: int,
    brokers: tuple[Broker, ...],
    fenced: tuple[Broker, ...],
    permissions: int,
) -> ClusterDescription:
    return ClusterDescription(
        cluster_id=cluster_id,
        controller=next((broker for broker in brokers if broker.node_id == controller_id), None),
        brokers=brokers,
        fenced_brokers=fenced,
        authorized_operations=read_operations(permissions),
    )
