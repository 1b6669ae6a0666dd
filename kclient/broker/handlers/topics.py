"""Creating, growing and deleting topics; every node does it for the controller, as with KRaft."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.topic_settings import check_topic_configs, effective_configs
from kclient.broker.topics import TopicState
from kclient.errors import (
    BrokerError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
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


def _repeated(names: list[str]) -> list[str]:
    """The names that a request has more than once: Kafka answers them once, and does nothing about them."""
    return sorted({name for name in names if names.count(name) > 1})


@handles(CreateTopicsRequest)
async def create_topics(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    names = [topic.name for topic in request.topics]
    results = [
        Created(name=name, error_code=InvalidRequestError.code, error_message="Duplicate topic name.")
        for name in _repeated(names)
    ]
    for asked in request.topics:
        if names.count(asked.name) > 1:
            continue
        try:
            results.append(_create(context, asked, request.validate_only))
        except BrokerError as error:
            results.append(Created(name=asked.name, error_code=error.code, error_message=error.message))
    return CreateTopicsResponse(topics=results)


def _create(
    context: RequestContext, asked: CreateTopicsRequest.CreatableTopic, validate_only: bool
) -> CreateTopicsResponse.CreatableTopicResult:
    broker = context.broker
    null = [config.name for config in asked.configs if config.value is None]
    if null:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(null)}")
    configs = {config.name: config.value or "" for config in asked.configs}
    replicas = _replicas(context, asked)
    broker.topics.check_new(asked.name, replicas)
    check_topic_configs(configs)
    # Kafka picks an id even where it makes nothing.
    topic_id = (
        broker.topics.new_id()
        if validate_only
        else broker.topics.create(asked.name, replicas, configs).topic_id
    )
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
            for config in effective_configs(configs, broker.settings, context.node.node_id)
        ],
    )


def _replicas(context: RequestContext, asked: CreateTopicsRequest.CreatableTopic) -> list[tuple[int, ...]]:
    broker = context.broker
    if asked.assignments:
        for value, what in (
            (asked.replication_factor, "replication factor"),
            (asked.num_partitions, "numPartitions"),
        ):
            if value != -1:
                raise InvalidRequestError(
                    f"A manual partition assignment was specified, but {what} was not set to -1."
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
            f"cannot be reached because only {len(broker.running())} broker(s) are registered or "
            "some brokers have all their log directories cordoned."
        )
    return broker.place(partitions, factor)


def _assigned(context: RequestContext, asked: CreateTopicsRequest.CreatableTopic) -> list[tuple[int, ...]]:
    by_index = {item.partition_index: tuple(item.broker_ids) for item in asked.assignments}
    if sorted(by_index) != list(range(len(asked.assignments))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    for index in sorted(by_index):
        check_assignment(context, by_index[index])
    return [by_index[index] for index in sorted(by_index)]


def check_assignment(context: RequestContext, nodes: tuple[int, ...]) -> None:
    if not nodes:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    twice = next((node for node in nodes if nodes.count(node) > 1), None)
    if twice is not None:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes the broker {twice} more than once."
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
    if not context.broker.settings.flag("delete.topic.enable"):
        raise TopicDeletionDisabledError(about="delete.topic.enable=false")
    names = [one.name for one in asked if one.name is not None]
    responses = [
        _not_deleted(state(name=name, topic_id=NO_UUID), InvalidRequestError("Duplicate topic name."))
        for name in _repeated(names)
    ]
    for one in asked:
        if one.name is not None and names.count(one.name) > 1:
            continue
        try:
            topic = _deletable(context, one)
            context.broker.topics.delete(topic)
            responses.append(Deleted(name=topic.name, topic_id=topic.topic_id))
        except BrokerError as error:
            responses.append(_not_deleted(one, error))
    return DeleteTopicsResponse(responses=responses)


def _deletable(context: RequestContext, asked: DeleteTopicsRequest.DeleteTopicState) -> TopicState:
    topics = context.broker.topics
    if asked.topic_id.int and asked.name is not None:
        raise InvalidRequestError("You may not specify both topic name and topic id.")
    if asked.topic_id.int:
        if asked.topic_id not in topics.by_id:
            raise UnknownTopicIdError("This server does not host this topic ID.")
        return topics.by_id[asked.topic_id]
    if asked.name is None:
        raise InvalidRequestError("Neither topic name nor id were specified.")
    if asked.name not in topics.by_name:
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    return topics.by_name[asked.name]


def _not_deleted(asked: DeleteTopicsRequest.DeleteTopicState, error: BrokerError) -> Deleted:
    return Deleted(
        name=asked.name, topic_id=asked.topic_id, error_code=error.code, error_message=error.message
    )


@handles(CreatePartitionsRequest)
async def create_partitions(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    names = [asked.name for asked in request.topics]
    results = [
        Grown(name=name, error_code=InvalidRequestError.code, error_message="Duplicate topic name.")
        for name in _repeated(names)
    ]
    for asked in request.topics:
        if names.count(asked.name) > 1:
            continue
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
        check_assignment(context, tuple(item.broker_ids))
    return [tuple(item.broker_ids) for item in asked.assignments]
