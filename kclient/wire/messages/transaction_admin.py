"""Looking at producers and transactions."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import Array, Int16, Int32, Int64, NullableString, String, Struct, V


class DescribeProducersResponse(Response, key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    class TopicResponse(Struct):
        class PartitionResponse(Struct):
            class ProducerState(Struct):
                producer_id: Int64
                producer_epoch: Int32
                last_sequence: Int32 = -1
                last_timestamp: Int64 = -1
                coordinator_epoch: Int32
                current_txn_start_offset: Int64 = -1

            partition_index: Int32
            error_code: Int16 = 0
            error_message: NullableString = None
            active_producers: Array[ProducerState]

        name: String
        partitions: Array[PartitionResponse]

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse]


class DescribeProducersRequest(
    Request[DescribeProducersResponse], key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"
):
    class TopicRequest(Struct):
        name: String
        partition_indexes: Array[Int32]

    topics: Array[TopicRequest]


class DescribeTransactionsResponse(Response, key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    class TransactionState(Struct):
        class TopicData(Struct):
            topic: String
            partitions: Array[Int32]

        error_code: Int16 = 0
        transactional_id: String
        transaction_state: String
        transaction_timeout_ms: Int32
        transaction_start_time_ms: Int64
        producer_id: Int64
        producer_epoch: Int16
        topics: Array[TopicData]

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState]


class DescribeTransactionsRequest(
    Request[DescribeTransactionsResponse], key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"
):
    transactional_ids: Array[String]


class ListTransactionsResponse(Response, key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    class TransactionState(Struct):
        transactional_id: String
        producer_id: Int64
        transaction_state: String

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String]
    transaction_states: Array[TransactionState]


class ListTransactionsRequest(
    Request[ListTransactionsResponse], key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"
):
    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Annotated[Int64, V("1+")] = -1
    transactional_id_pattern: Annotated[NullableString, V("2+")] = None
