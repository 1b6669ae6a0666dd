"""Producing: batches into logs, as they came. And the ids that make a producer idempotent."""

from __future__ import annotations

from kclient.broker.api import RequestContext, handles
from kclient.broker.handlers.metadata import NO_TRANSACTIONS
from kclient.broker.leadership import check_leader, hint_of
from kclient.broker.log.validate import RecordsRefusedError, TimestampsRefusedError
from kclient.broker.topics import INTERNAL_TOPICS, PartitionState
from kclient.errors import (
    BrokerError,
    CorruptMessageError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ProtocolError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

Answer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
_INVALID_OFFSET = -1
_BEFORE_THE_LOG = (
    CorruptMessageError,
    InvalidTopicError,
    MessageTooLargeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)


@handles(ProduceRequest)
async def produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    if request.acks not in (-1, 0, 1):
        return _refuse_acks(request)
    if request.transactional_id is not None:
        raise TransactionalIdAuthorizationFailedError(NO_TRANSACTIONS)
    responses = [
        ProduceResponse.TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _append(context, request.acks, topic, data) for data in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    if request.acks == 0:
        # No answer is awaited; a connection that ends is the only way to say that something is wrong.
        if any(answer.error_code for topic in responses for answer in topic.partition_responses):
            raise ProtocolError("a record that nobody waits for could not be written")
        return None
    hints = sorted({
        answer.current_leader.leader_id for topic in responses for answer in topic.partition_responses
    })  # fmt: skip
    return ProduceResponse(
        responses=responses,
        node_endpoints=[hint_of(context, node, ProduceResponse.NodeEndpoint) for node in hints if node >= 0]
        if context.version >= 10
        else [],
    )


def _append(
    context: RequestContext,
    acks: int,
    topic: ProduceRequest.TopicProduceData,
    data: ProduceRequest.TopicProduceData.PartitionProduceData,
) -> Answer:
    try:
        partition = context.broker.topics.partition(topic.name, data.index, topic.topic_id)
        if partition.topic in INTERNAL_TOPICS:
            raise InvalidTopicError(about=f"{partition.topic}, which only the cluster itself writes to")
        check_leader(context, partition)
        if acks == -1:
            _check_in_sync(context, partition)
        appended = partition.log.append(data.records or b"", leader_epoch=partition.leader_epoch)
    except NotLeaderOrFollowerError as error:
        leader = Answer.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        answer = _failed(data.index, error)
        if context.version >= 10:
            answer.current_leader = leader
        return answer
    except _BEFORE_THE_LOG as error:
        return _failed(data.index, error)
    except BrokerError as error:
        if isinstance(error, KafkaStorageError):
            context.broker.disk.refused(error)
        answer = _failed(data.index, error)
        # Kafka tells where the log starts once it has come as far as the log.
        if not (error.message or "").startswith("Produce requests"):
            answer.log_start_offset = partition.log.start_offset
        return answer
    partition.wake()
    if context.broker.disk.refusing:
        context.broker.disk.wrote()
    return Answer(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _check_in_sync(context: RequestContext, partition: PartitionState) -> None:
    topic = context.broker.topics.by_name[partition.topic]
    configured = int(
        topic.configs.get("min.insync.replicas")
        or context.broker.settings.topic_defaults(context.node.node_id)["min.insync.replicas"]
    )
    # As Kafka, which never asks for more than there are.
    needed = min(configured, len(partition.replicas))
    if len(context.broker.in_sync(partition)) < needed:
        raise NotEnoughReplicasError(about=f"topic {partition.topic}, partition {partition.index}")


def _failed(index: int, error: BrokerError) -> Answer:
    answer = Answer(index=index, error_code=error.code, base_offset=_INVALID_OFFSET)
    if isinstance(error, RecordsRefusedError | TimestampsRefusedError):
        # Kafka has a message only where it can name records.
        answer.error_message = error.message
        answer.record_errors = [
            Answer.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=reason)
            for number, reason in error.record_errors
        ]
    return answer


def _refuse_acks(request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _failed(data.index, InvalidRequiredAcksError()) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


@handles(InitProducerIdRequest)
async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id == "":
        return InitProducerIdResponse(error_code=InvalidRequestError.code, producer_id=-1, producer_epoch=-1)
    if request.transactional_id is not None:
        raise TransactionalIdAuthorizationFailedError(NO_TRANSACTIONS)
    return InitProducerIdResponse(producer_id=context.broker.producer_ids.take(), producer_epoch=0)
