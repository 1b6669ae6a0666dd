"""Creating, growing and deleting topics; every node does it for the controller, as with KRaft."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.topic_settings import check_topic_configs, effective_configs
from kclient.broker.topics import TopicState
from kclient.errors import (
    BrokerError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
)
from kclient.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kclient.wire.schema import NO_UUID

_FIRST_DELETE_BY_ID = 6
Created = CreateTopicsResponse.CreatableTopicResult
Deleted = DeleteTopicsResponse.DeletableTopicResult
Grown = CreatePartitionsResponse.CreatePartitionsTopicResult


@handles(CreateTopicsRequest)
async def create_topics(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    names = [topic.name for topic in request.topics]
    results = []
    for asked in request.topics:
        try:
            if names.count(asked.name) > 1:
                raise InvalidRequestError("Duplicate topic name.")
            results.append(_create(context, asked, request.validate_only))
        except BrokerError as error:
            results.append(Created(name=asked.name, error_code=error.code, error_message=error.message))
    return CreateTopicsResponse(topics=results)


def _create(
    context: RequestContext, asked: CreateTopicsRequest.CreatableTopic, validate_only: bool
) -> CreateTopicsResponse.CreatableTopicResult:
    broker = context.broker
    configs = {config.name: config.value or "" for config in asked.configs}
    replicas = _replicas(context, asked)
    broker.topics.check_new(asked.name, replicas)
    check_topic_configs(configs)
    topic_id = NO_UUID if validate_only else broker.topics.create(asked.name, replicas, configs).topic_id
    return Created(
        name=asked.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=[
            Created.CreatableTopicConfigs(
                name=config.name,
                value=config.value,
                read_only=False,
                config_source=config.source,
                is_sensitive=False,
            )
            for config in effective_configs(configs, broker.settings)
        ],
    )


def _replicas(context: RequestContext, asked: CreateTopicsRequest.CreatableTopic) -> list[tuple[int, ...]]:
    broker = context.broker
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise InvalidRequestError(
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            )
        return _assigned(context, asked)
    partitions = asked.num_partitions
    if partitions == -1:
        partitions = broker.settings.number("num.partitions")
    factor = asked.replication_factor
    if factor == -1:
        factor = broker.settings.number("default.replication.factor")
    if partitions < 1:
        raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
    if factor < 1:
        raise InvalidReplicationFactorError(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if factor > len(broker.running()):
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(broker.running())} broker(s) are registered."
        )
    return broker.place(partitions, factor)


def _assigned(context: RequestContext, asked: CreateTopicsRequest.CreatableTopic) -> list[tuple[int, ...]]:
    by_index = {item.partition_index: tuple(item.broker_ids) for item in asked.assignments}
    if sorted(by_index) != list(range(len(asked.assignments))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence.")
    for index in sorted(by_index):
        _check_assignment(context, by_index[index])
    return [by_index[index] for index in sorted(by_index)]


def _check_assignment(context: RequestContext, nodes: tuple[int, ...]) -> None:
    if not nodes or len(set(nodes)) != len(nodes):
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes duplicates or is empty: {nodes}"
        )
    unknown = [node for node in nodes if node not in context.broker.nodes]
    if unknown:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
        )


@handles(DeleteTopicsRequest)
async def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    state = DeleteTopicsRequest.DeleteTopicState
    if context.version >= _FIRST_DELETE_BY_ID:
        asked = request.topics
    else:
        asked = [state(name=name, topic_id=NO_UUID) for name in request.topic_names]
    responses = []
    for one in asked:
        try:
            topic = context.broker.topics.topic(one.name, one.topic_id)
            context.broker.topics.delete(topic)
            responses.append(Deleted(name=topic.name, topic_id=topic.topic_id))
        except BrokerError as error:
            responses.append(
                Deleted(
                    name=one.name, topic_id=one.topic_id, error_code=error.code, error_message=error.message
                )
            )
    return DeleteTopicsResponse(responses=responses)


@handles(CreatePartitionsRequest)
async def create_partitions(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    results = []
    for asked in request.topics:
        try:
            topic = context.broker.topics.topic(asked.name)
            added = _growth(context, topic, asked)
            if not request.validate_only:
                context.broker.topics.grow(topic, added)
            results.append(Grown(name=asked.name))
        except BrokerError as error:
            results.append(Grown(name=asked.name, error_code=error.code, error_message=error.message))
    return CreatePartitionsResponse(results=results)


def _growth(
    context: RequestContext, topic: TopicState, asked: CreatePartitionsRequest.CreatePartitionsTopic
) -> list[tuple[int, ...]]:
    have = len(topic.partitions)
    if topic.internal:
        raise InvalidTopicError(f"Topic {topic.name} is internal.")
    if asked.count == have:
        raise InvalidPartitionsError(f"Topic already has {have} partition(s).")
    if asked.count < have:
        raise InvalidPartitionsError(
            f"The topic {topic.name} currently has {have} partition(s); "
            f"{asked.count} would not be an increase."
        )
    if asked.assignments is None:
        return context.broker.place(asked.count - have, len(topic.partitions[0].replicas), have)
    if len(asked.assignments) != asked.count - have:
        raise InvalidReplicaAssignmentError(
            f"Attempted to add {asked.count - have} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified."
        )
    for item in asked.assignments:
        _check_assignment(context, tuple(item.broker_ids))
    return [tuple(item.broker_ids) for item in asked.assignments]
