"""The cluster itself: its nodes, its partitions page by page, and which node leads."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.handlers.metadata import ALL_TOPIC_OPERATIONS
from kclient.broker.topics import check_name
from kclient.errors import (
    BrokerError,
    ElectionNotNeededError,
    InvalidRequestError,
    InvalidTopicError,
    MismatchedEndpointTypeError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedEndpointTypeError,
)
from kclient.wire.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kclient.wire.messages.replicas import ElectLeadersRequest, ElectLeadersResponse
from kclient.wire.schema import NO_UUID

_PREFERRED, _UNCLEAN = 0, 1
_BROKERS, _CONTROLLERS = 1, 2
Result = ElectLeadersResponse.ReplicaElectionResult
DescribedTopic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


@handles(DescribeClusterRequest)
async def describe_cluster(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        return _not_described(
            MismatchedEndpointTypeError(
                "The request was sent to an endpoint of type BROKER, "
                "but we wanted an endpoint of type CONTROLLER"
            )
        )
    if request.endpoint_type != _BROKERS:
        return _not_described(
            UnsupportedEndpointTypeError(f"Unsupported endpoint type {request.endpoint_type}")
        )
    return DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.controller_id,
        endpoint_type=request.endpoint_type,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.listeners[context.listener].host,
                port=node.listeners[context.listener].advertised_port,
                rack=node.rack,
            )
            for node in context.broker.running()
        ],
    )


def _not_described(error: BrokerError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=error.code, error_message=error.message, cluster_id="", controller_id=-1, brokers=[]
    )


@handles(DescribeTopicPartitionsRequest)
async def describe_topic_partitions(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequestError(f"DescribeTopicPartitions cursor partition must be valid: {cursor}")
    names = sorted({topic.name for topic in request.topics}) or sorted(context.broker.topics.by_name)
    if cursor is not None and cursor.topic_name not in names:
        raise InvalidRequestError(f"DescribeTopicPartitions cursor topic is not requested: {cursor}")
    start = (request.cursor.topic_name, request.cursor.partition_index) if request.cursor else ("", 0)
    left = max(1, request.response_partition_limit)
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    for name in names:
        if name < start[0]:
            continue
        if left <= 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
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
    described = DescribedTopic(
        name=name,
        topic_id=NO_UUID,
        is_internal=False,
        partitions=[],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )
    try:
        check_name(name)
        topic = context.broker.topics.topic(name)
    except (InvalidTopicError, UnknownTopicOrPartitionError) as error:
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
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[node for node in partition.replicas if node not in in_sync],
            )
        )
    end = first + len(chosen)
    return described, len(chosen), end if end < len(topic.partitions) else None


@handles(ElectLeadersRequest)
async def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequestError(f"Unknown election type {request.election_type}")
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
    context.broker.topics.save()
    return ElectLeadersResponse(replica_election_results=results)


def _elect(context: RequestContext, name: str, index: int, election_type: int) -> None:
    if name not in context.broker.topics.by_name:
        raise UnknownTopicOrPartitionError(f"No such topic as {name}")
    if not 0 <= index < len(context.broker.topics.by_name[name].partitions):
        raise UnknownTopicOrPartitionError(f"No such partition as {name}-{index}")
    partition = context.broker.topics.partition(name, index)
    alive = context.broker.in_sync(partition)
    chosen = partition.replicas[0] if election_type == _PREFERRED else next(iter(alive), -1)
    if partition.leader == chosen or (election_type != _PREFERRED and partition.leader >= 0):
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    if chosen not in alive:
        raise PreferredLeaderNotAvailableError
    partition.lead_by(chosen)
