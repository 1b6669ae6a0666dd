"""Who is in the cluster and who leads what."""

from __future__ import annotations

import logging

from kclient.broker.api import RequestContext, handles
from kclient.broker.errors_to_answers import MALFORMED
from kclient.broker.topics import PartitionState, TopicState, check_name
from kclient.errors import (
    BrokerError,
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.messages.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

log: logging.Logger = logging.getLogger(__name__)

ALL_TOPIC_OPERATIONS = 3576  # a bit for each that an anonymous user has where there are no ACLs
_FIRST_BATCHED_FIND = 4
_KEY_TYPES = (0, 1, 2)  # groups, transactional ids, share groups
_TRANSACTION = 1
NO_TRANSACTIONS = (
    "The embedded broker of kclient has no transactions yet: leave out the transactional id, or use a "
    "real Kafka."
)


@handles(MetadataRequest)
async def metadata(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    broker = context.broker
    # Version 0 had no null: there an empty list stands for all.
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        topics = [_topic(context, topic) for topic in broker.topics.by_name.values()]
    else:
        # Kafka answers once what is asked twice.
        asked_topics = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
        topics = [_asked_topic(context, asked, request) for asked in asked_topics.values()]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node.node_id,
                host=node.listeners[context.listener].host,
                port=node.listeners[context.listener].advertised_port,
                rack=node.rack,
            )
            for node in broker.running()
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        topics=topics,
    )


def _asked_topic(
    context: RequestContext, asked: MetadataRequest.MetadataRequestTopic, request: MetadataRequest
) -> MetadataResponse.MetadataResponseTopic:
    broker = context.broker
    try:
        try:
            return _topic(context, broker.topics.topic(asked.name, asked.topic_id))
        except UnknownTopicOrPartitionError:
            if asked.name is not None:
                check_name(asked.name)
            wanted = request.allow_auto_topic_creation and broker.settings.flag("auto.create.topics.enable")
            if asked.name is None or not wanted:
                raise
            return _topic(context, broker.create_topic(asked.name))
    except BrokerError as error:
        return _failed(asked, error)


def _failed(
    asked: MetadataRequest.MetadataRequestTopic, error: BrokerError
) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        error_code=error.code, name=asked.name, topic_id=asked.topic_id, partitions=[]
    )


def _topic(context: RequestContext, topic: TopicState) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition(context, partition) for partition in topic.partitions],
    )


def _partition(
    context: RequestContext, partition: PartitionState
) -> MetadataResponse.MetadataResponseTopic.MetadataResponsePartition:
    in_sync = context.broker.in_sync(partition)
    return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        error_code=LeaderNotAvailableError.code if partition.leader < 0 else 0,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=in_sync,
        offline_replicas=[node for node in partition.replicas if node not in in_sync],
    )


@handles(FindCoordinatorRequest)
async def find_coordinator(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if context.version < _FIRST_BATCHED_FIND:
        found = _coordinator(context, request.key, request.key_type)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    return FindCoordinatorResponse(
        coordinators=[_coordinator(context, key, request.key_type) for key in request.coordinator_keys]
    )


def _coordinator(context: RequestContext, key: str, key_type: int) -> FindCoordinatorResponse.Coordinator:
    if key_type not in _KEY_TYPES:
        return _nobody(key, InvalidRequestError(MALFORMED))
    if key_type == _TRANSACTION:
        log.warning("%s asks for the transactional id %r. %s", context.client_id, key, NO_TRANSACTIONS)
        # This is where an answer has a text. Of all codes only those about rights end librdkafka's clients,
        # which try anything else again until their time is up; and Java's show the text with this one.
        return _nobody(key, ClusterAuthorizationFailedError(NO_TRANSACTIONS))
    node = context.broker.nodes.get(context.broker.coordinator_of(key))
    if node is None:
        return _nobody(key, CoordinatorNotAvailableError("The coordinator is not available."))
    listener = node.listeners[context.listener]
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=node.node_id,
        host=listener.host,
        port=listener.advertised_port,
        error_code=0,
        error_message="NONE" if context.version < _FIRST_BATCHED_FIND else "",
    )


def _nobody(key: str, error: BrokerError) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
    )
