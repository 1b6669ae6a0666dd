"""Producer ids and transactions."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    NO_UUID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Struct,
    Uuid,
    V,
)


class InitProducerIdResponse(Response, key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, V("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, V("6+")] = -1


class InitProducerIdRequest(
    Request[InitProducerIdResponse],
    key=ApiKey.INIT_PRODUCER_ID,
    versions="0-6",
    flexible="2+",
    latest_unstable=True,
):
    transactional_id: NullableString
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, V("3+")] = -1
    producer_epoch: Annotated[Int16, V("3+")] = -1
    enable2_pc: Annotated[Bool, V("6+")] = False
    keep_prepared_txn: Annotated[Bool, V("6+")] = False


class AddPartitionsToTxnTopicResult(Struct):
    name: String
    results_by_partition: Array[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnResponse(Response, key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    class AddPartitionsToTxnResult(Struct):
        transactional_id: String
        topic_results: Array[AddPartitionsToTxnTopicResult]

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("4+", ignorable=True)] = 0
    results_by_transaction: Annotated[Array[AddPartitionsToTxnResult], V("4+")] = []
    results_by_topic_v3_and_below: Annotated[Array[AddPartitionsToTxnTopicResult], V("0-3")] = []


class AddPartitionsToTxnTopic(Struct):
    name: String
    partitions: Array[Int32]


class AddPartitionsToTxnRequest(
    Request[AddPartitionsToTxnResponse], key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"
):
    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: String
        producer_id: Int64
        producer_epoch: Int16
        verify_only: Bool = False
        topics: Array[AddPartitionsToTxnTopic]

    transactions: Annotated[Array[AddPartitionsToTxnTransaction], V("4+")] = []
    v3_and_below_transactional_id: Annotated[String, V("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, V("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, V("0-3")] = 0
    v3_and_below_topics: Annotated[Array[AddPartitionsToTxnTopic], V("0-3")] = []


class AddOffsetsToTxnResponse(Response, key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class AddOffsetsToTxnRequest(
    Request[AddOffsetsToTxnResponse], key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"
):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class TxnOffsetCommitResponse(Response, key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    class TxnOffsetCommitResponseTopic(Struct):
        class TxnOffsetCommitResponsePartition(Struct):
            partition_index: Int32
            error_code: Int16 = 0

        name: Annotated[String, V("0-5", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("6+", ignorable=True)] = NO_UUID
        partitions: Array[TxnOffsetCommitResponsePartition]

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic]


class TxnOffsetCommitRequest(
    Request[TxnOffsetCommitResponse], key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"
):
    class TxnOffsetCommitRequestTopic(Struct):
        class TxnOffsetCommitRequestPartition(Struct):
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
            committed_metadata: NullableString

        name: Annotated[String, V("0-5", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("6+", ignorable=True)] = NO_UUID
        partitions: Array[TxnOffsetCommitRequestPartition]

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Annotated[Int32, V("3+")] = -1
    member_id: Annotated[String, V("3+")] = ""
    group_instance_id: Annotated[NullableString, V("3+")] = None
    topics: Array[TxnOffsetCommitRequestTopic]


class EndTxnResponse(Response, key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, V("5+", ignorable=True)] = -1
    producer_epoch: Annotated[Int16, V("5+", ignorable=True)] = -1


class EndTxnRequest(Request[EndTxnResponse], key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class WriteTxnMarkersResponse(Response, key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+"):
    class WritableTxnMarkerResult(Struct):
        class WritableTxnMarkerTopicResult(Struct):
            class WritableTxnMarkerPartitionResult(Struct):
                partition_index: Int32
                error_code: Int16 = 0

            name: String
            partitions: Array[WritableTxnMarkerPartitionResult]

        producer_id: Int64
        topics: Array[WritableTxnMarkerTopicResult]

    markers: Array[WritableTxnMarkerResult]


class WriteTxnMarkersRequest(
    Request[WriteTxnMarkersResponse], key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+"
):
    class WritableTxnMarker(Struct):
        class WritableTxnMarkerTopic(Struct):
            name: String
            partition_indexes: Array[Int32]

        producer_id: Int64
        producer_epoch: Int16
        transaction_result: Bool
        topics: Array[WritableTxnMarkerTopic]
        coordinator_epoch: Int32
        transaction_version: Annotated[Int8, V("2+", ignorable=True)] = 0

    markers: Array[WritableTxnMarker]
