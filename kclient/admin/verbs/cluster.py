"""The verb about the cluster."""

from __future__ import annotations

from kclient.admin.cluster import ClusterDescription, DescribeCluster, DescribeClusterByMetadata
from kclient.admin.verbs.base import Verbs
from kclient.errors import IncompatibleBrokerError


class ClusterVerbs(Verbs):
    """Describe the cluster."""

    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout_ms: float | None = None,
    ) -> ClusterDescription:
        """The cluster's id, brokers and controller.

        addresses = [str(broker.endpoint) for broker in (await admin.describe_cluster()).brokers]
        """
        deadline = self._open().deadline(timeout_ms)
        try:
            return await self._run_one(
                DescribeCluster(include_authorized_operations, include_fenced_brokers), deadline
            )
        except IncompatibleBrokerError:
            return await self._run_one(DescribeClusterByMetadata(include_authorized_operations), deadline)
