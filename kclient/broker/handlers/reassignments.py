"""Moving partitions to other nodes: all nodes share every log, so it is done when it is answered."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.handlers.topics import check_assignment
from kclient.errors import BrokerError, NoReassignmentInProgressError, UnknownTopicOrPartitionError
from kclient.wire.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
Outcome = Topic.ReassignablePartitionResponse


@handles(AlterPartitionReassignmentsRequest)
async def alter_partition_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    responses = []
    for topic in request.topics:
        outcomes = []
        for asked in topic.partitions:
            outcome = Outcome(partition_index=asked.partition_index, error_message=None)
            try:
                _reassign(context, topic.name, asked.partition_index, asked.replicas)
            except BrokerError as error:
                outcome.error_code, outcome.error_message = error.code, error.message or None
            outcomes.append(outcome)
        responses.append(Topic(name=topic.name, partitions=outcomes))
    context.broker.topics.save()
    return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)


def _reassign(context: RequestContext, name: str, index: int, replicas: list[int] | None) -> None:
    topic = context.broker.topics.by_name.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
    if replicas is None:  # to end one that is under way
        raise NoReassignmentInProgressError
    check_assignment(context, tuple(replicas))
    partition = topic.partitions[index]
    partition.replicas = tuple(replicas)
    if partition.leader not in replicas:
        partition.lead_by(next(iter(context.broker.in_sync(partition)), -1))


@handles(ListPartitionReassignmentsRequest)
async def list_partition_reassignments(
    context: RequestContext,  # noqa: ARG001
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None, topics=[])
