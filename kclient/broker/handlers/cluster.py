"""The cluster itself: its nodes, its partitions page by page, and which node leads."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.errors import (
    BrokerError,
    ElectionNotNeededError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kclient.wire.messages.replicas import ElectLeadersRequest, ElectLeadersResponse
from kclient.wire.schema import NO_UUID

_PREFERRED = 0
Result = ElectLeadersResponse.ReplicaElectionResult
DescribedTopic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


@handles(DescribeClusterRequest)
async def describe_cluster(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.controller_id,
        endpoint_type=request.endpoint_type,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.listeners[context.listener].spec.host,
                port=node.listeners[context.listener].port,
                rack=node.rack,
            )
            for node in context.broker.running()
        ],
    )


@handles(DescribeTopicPartitionsRequest)
async def describe_topic_partitions(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in request.topics}) or sorted(context.broker.topics.by_name)
    start = (request.cursor.topic_name, request.cursor.partition_index) if request.cursor else ("", 0)
    left = request.response_partition_limit
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    for name in names:
        if name < start[0]:
            continue
        first = start[1] if name == start[0] else 0
        described, taken, following = _describe(context, name, first, left)
        response.topics.append(described)
        left -= taken
        if following is not None:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=following
            )
            break
    return response


def _describe(
    context: RequestContext, name: str, first: int, room: int
) -> tuple[DescribedTopic, int, int | None]:
    """A topic from a partition on, how many partitions were taken, and where to go on if not all were."""
    described = DescribedTopic(name=name, topic_id=NO_UUID, is_internal=False, partitions=[])
    try:
        topic = context.broker.topics.topic(name)
    except UnknownTopicOrPartitionError as error:
        described.error_code = error.code
        return described, 0, None
    described.topic_id = topic.topic_id
    described.is_internal = topic.internal
    chosen = topic.partitions[first : first + room]
    for partition in chosen:
        in_sync = context.broker.in_sync(partition)
        described.partitions.append(
            DescribedTopic.DescribeTopicPartitionsResponsePartition(
                partition_index=partition.index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=in_sync,
                offline_replicas=[node for node in partition.replicas if node not in in_sync],
            )
        )
    end = first + len(chosen)
    return described, len(chosen), end if end < len(topic.partitions) else None


@handles(ElectLeadersRequest)
async def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.topic_partitions is None:
        wanted = [
            (topic.name, list(range(len(topic.partitions))))
            for topic in context.broker.topics.by_name.values()
        ]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    results = []
    for name, partitions in wanted:
        result = Result(topic=name, partition_result=[])
        for index in partitions:
            outcome = Result.PartitionResult(partition_id=index, error_message=None)
            try:
                _elect(context, name, index, request.election_type)
            except BrokerError as error:
                outcome.error_code, outcome.error_message = error.code, error.message or None
            result.partition_result.append(outcome)
        results.append(result)
    return ElectLeadersResponse(replica_election_results=results)


def _elect(context: RequestContext, name: str, index: int, election_type: int) -> None:
    partition = context.broker.topics.partition(name, index)
    alive = context.broker.in_sync(partition)
    chosen = partition.replicas[0] if election_type == _PREFERRED else next(iter(alive), -1)
    if partition.leader == chosen or (election_type != _PREFERRED and partition.leader >= 0):
        raise ElectionNotNeededError
    if chosen not in alive:
        raise PreferredLeaderNotAvailableError
    partition.lead_by(chosen)
