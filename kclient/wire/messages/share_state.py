"""The persisted state of share groups, spoken between brokers on the same listener."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import Array, Int8, Int16, Int32, Int64, NullableString, String, Struct, Uuid, V


class InitializeShareGroupStateResponse(
    Response, key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions="0", flexible="0+"
):
    class InitializeStateResult(Struct):
        class PartitionResult(Struct):
            partition: Int32
            error_code: Int16 = 0
            error_message: NullableString = None

        topic_id: Uuid
        partitions: Array[PartitionResult]

    results: Array[InitializeStateResult]


class InitializeShareGroupStateRequest(
    Request[InitializeShareGroupStateResponse],
    key=ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    versions="0",
    flexible="0+",
):
    class InitializeStateData(Struct):
        class PartitionData(Struct):
            partition: Int32
            state_epoch: Int32
            start_offset: Int64

        topic_id: Uuid
        partitions: Array[PartitionData]

    group_id: String
    topics: Array[InitializeStateData]


class ReadShareGroupStateResponse(Response, key=ApiKey.READ_SHARE_GROUP_STATE, versions="0", flexible="0+"):
    class ReadStateResult(Struct):
        class PartitionResult(Struct):
            class StateBatch(Struct):
                first_offset: Int64
                last_offset: Int64
                delivery_state: Int8
                delivery_count: Int16

            partition: Int32
            error_code: Int16 = 0
            error_message: NullableString = None
            state_epoch: Int32
            start_offset: Int64
            state_batches: Array[StateBatch]

        topic_id: Uuid
        partitions: Array[PartitionResult]

    results: Array[ReadStateResult]


class ReadShareGroupStateRequest(
    Request[ReadShareGroupStateResponse], key=ApiKey.READ_SHARE_GROUP_STATE, versions="0", flexible="0+"
):
    class ReadStateData(Struct):
        class PartitionData(Struct):
            partition: Int32
            leader_epoch: Int32

        topic_id: Uuid
        partitions: Array[PartitionData]

    group_id: String
    topics: Array[ReadStateData]


class WriteShareGroupStateResponse(
    Response, key=ApiKey.WRITE_SHARE_GROUP_STATE, versions="0-1", flexible="0+"
):
    class WriteStateResult(Struct):
        class PartitionResult(Struct):
            partition: Int32
            error_code: Int16 = 0
            error_message: NullableString = None

        topic_id: Uuid
        partitions: Array[PartitionResult]

    results: Array[WriteStateResult]


class WriteShareGroupStateRequest(
    Request[WriteShareGroupStateResponse], key=ApiKey.WRITE_SHARE_GROUP_STATE, versions="0-1", flexible="0+"
):
    class WriteStateData(Struct):
        class PartitionData(Struct):
            class StateBatch(Struct):
                first_offset: Int64
                last_offset: Int64
                delivery_state: Int8
                delivery_count: Int16

            partition: Int32
            state_epoch: Int32
            leader_epoch: Int32
            start_offset: Int64
            delivery_complete_count: Annotated[Int32, V("1+", ignorable=True)] = -1
            state_batches: Array[StateBatch]

        topic_id: Uuid
        partitions: Array[PartitionData]

    group_id: String
    topics: Array[WriteStateData]


class DeleteShareGroupStateResponse(
    Response, key=ApiKey.DELETE_SHARE_GROUP_STATE, versions="0", flexible="0+"
):
    class DeleteStateResult(Struct):
        class PartitionResult(Struct):
            partition: Int32
            error_code: Int16 = 0
            error_message: NullableString = None

        topic_id: Uuid
        partitions: Array[PartitionResult]

    results: Array[DeleteStateResult]


class DeleteShareGroupStateRequest(
    Request[DeleteShareGroupStateResponse], key=ApiKey.DELETE_SHARE_GROUP_STATE, versions="0", flexible="0+"
):
    class DeleteStateData(Struct):
        class PartitionData(Struct):
            partition: Int32

        topic_id: Uuid
        partitions: Array[PartitionData]

    group_id: String
    topics: Array[DeleteStateData]


class ReadShareGroupStateSummaryResponse(
    Response, key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions="0-1", flexible="0+"
):
    class ReadStateSummaryResult(Struct):
        class PartitionResult(Struct):
            partition: Int32
            error_code: Int16 = 0
            error_message: NullableString = None
            state_epoch: Int32
            leader_epoch: Int32
            start_offset: Int64
            delivery_complete_count: Annotated[Int32, V("1+", ignorable=True)] = -1

        topic_id: Uuid
        partitions: Array[PartitionResult]

    results: Array[ReadStateSummaryResult]


class ReadShareGroupStateSummaryRequest(
    Request[ReadShareGroupStateSummaryResponse],
    key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    versions="0-1",
    flexible="0+",
):
    class ReadStateSummaryData(Struct):
        class PartitionData(Struct):
            partition: Int32
            leader_epoch: Int32

        topic_id: Uuid
        partitions: Array[PartitionData]

    group_id: String
    topics: Array[ReadStateSummaryData]
