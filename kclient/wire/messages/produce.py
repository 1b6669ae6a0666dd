"""Producing: the records of one or more partitions."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.schema import (
    DEFAULT,
    NO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    Struct,
    Tag,
    Uuid,
    V,
)


class ProduceResponse(Response, key=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    class TopicProduceResponse(Struct):
        class PartitionProduceResponse(Struct):
            class BatchIndexAndErrorMessage(Struct):
                batch_index: Int32
                batch_index_error_message: NullableString = None

            class LeaderIdAndEpoch(Struct):
                leader_id: Int32 = -1
                leader_epoch: Int32 = -1

            index: Int32
            error_code: Int16 = 0
            base_offset: Int64
            log_append_time_ms: Int64 = -1
            log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
            record_errors: Annotated[Array[BatchIndexAndErrorMessage], V("8+", ignorable=True)] = []
            error_message: Annotated[NullableString, V("8+", ignorable=True)] = None
            current_leader: Annotated[LeaderIdAndEpoch, V("10+"), Tag(0)] = DEFAULT

        name: Annotated[String, V("0-12", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("13+", ignorable=True)] = NO_UUID
        partition_responses: Array[PartitionProduceResponse]

    class NodeEndpoint(Struct):
        node_id: Int32
        host: String
        port: Int32
        rack: NullableString = None

    responses: Array[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[Array[NodeEndpoint], V("10+"), Tag(0)] = []


class ProduceRequest(Request[ProduceResponse], key=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    class TopicProduceData(Struct):
        class PartitionProduceData(Struct):
            index: Int32
            records: Records

        name: Annotated[String, V("0-12", ignorable=True)] = ""
        topic_id: Annotated[Uuid, V("13+", ignorable=True)] = NO_UUID
        partition_data: Array[PartitionProduceData]

    transactional_id: NullableString = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]
