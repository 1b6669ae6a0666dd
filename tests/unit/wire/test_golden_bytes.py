"""Messages whose bytes were worked out by hand from Kafka's protocol rules, piece by piece."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.wire.message import Message
from kclient.wire.messages.classic_groups import HeartbeatRequest, HeartbeatResponse
from kclient.wire.messages.connection import ApiVersionsRequest, ApiVersionsResponse, SaslHandshakeRequest
from kclient.wire.messages.control_records import EndTxnMarker, LeaderChangeMessage, LeaderChangeMessageVoter
from kclient.wire.messages.fetch import FetchRequest
from kclient.wire.messages.group_protocol import ConsumerProtocolSubscription
from kclient.wire.messages.headers import RequestHeader, ResponseHeader
from kclient.wire.messages.metadata import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataResponse,
)
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.messages.users import AlterClientQuotasRequest

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
TopicResult = ProduceResponse.TopicProduceResponse
PartitionResult = TopicResult.PartitionProduceResponse

heartbeat = HeartbeatRequest(group_id="grp", generation_id=5, member_id="m-1", group_instance_id=None)
api_versions = ApiVersionsRequest(client_software_name="kc", client_software_version="1.0")
one_topic = MetadataRequest(
    topics=[MetadataRequest.MetadataRequestTopic(name="t")],
    allow_auto_topic_creation=False,
)
produced = ProduceResponse(
    responses=[
        TopicResult(
            name="t",
            partition_responses=[
                PartitionResult(
                    index=1,
                    base_offset=2,
                    log_start_offset=0,
                    current_leader=PartitionResult.LeaderIdAndEpoch(leader_id=3, leader_epoch=4),
                )
            ],
        )
    ],
    node_endpoints=[ProduceResponse.NodeEndpoint(node_id=3, host="h", port=9092)],
)
cluster = MetadataResponse(
    throttle_time_ms=1,
    brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r")],
    cluster_id=None,
    controller_id=1,
    topics=[
        MetadataResponse.MetadataResponseTopic(
            name="t",
            partitions=[
                MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
                    partition_index=0,
                    leader_id=1,
                    leader_epoch=9,
                    replica_nodes=[1, 2],
                    isr_nodes=[1],
                )
            ],
        )
    ],
)

GOLDEN: list[tuple[Message, int, str]] = [
    # Strings with two bytes of length, then the generation.
    (heartbeat, 0, "0003 677270  00000005  0003 6d2d31"),
    # The instance id is null: length -1.
    (heartbeat, 3, "0003 677270  00000005  0003 6d2d31  ffff"),
    # Compact strings with length + 1, a compact null, no tagged fields.
    (heartbeat, 4, "04 677270  00000005  04 6d2d31  00  00"),
    (HeartbeatResponse(error_code=27), 0, "001b"),
    (HeartbeatResponse(throttle_time_ms=100, error_code=27), 1, "00000064 001b"),
    (HeartbeatResponse(throttle_time_ms=100, error_code=27), 4, "00000064 001b 00"),
    (SaslHandshakeRequest(mechanism="PLAIN"), 1, "0005 504c41494e"),
    (ApiVersionsRequest(), 0, ""),
    (api_versions, 3, "03 6b63  04 312e30  00"),
    (ApiVersionsResponse(error_code=35, api_keys=[]), 0, "0023 00000000"),
    (
        ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)],
            supported_features=[
                ApiVersionsResponse.SupportedFeatureKey(name="f", min_version=1, max_version=2)
            ],
            finalized_features_epoch=3,
        ),
        3,
        # error; one key with its own empty tags; throttle time;
        (
            "0000  02 0012 0000 0004 00  00000000"
            # two tagged fields: number 0 of 8 bytes (an array of one struct), number 1 of 8 bytes.
            "02  00 08 02 02 66 0001 0002 00  01 08 0000000000000003"
        ),
    ),
    # Every topic is an empty array in v0 and a null one from v1 on.
    (MetadataRequest(topics=[]), 0, "00000000"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=None), 9, "00 01 00 00 00"),
    (one_topic, 4, "00000001 0001 74 00"),
    # One topic with its tags, three flags, tags.
    (one_topic, 9, "02  02 74 00  00 00 00  00"),
    # The topic's id comes first from v10 on, and the cluster flag is gone in v11.
    (one_topic, 10, "02  00000000000000000000000000000000 02 74 00  00 00 00  00"),
    (one_topic, 11, "02  00000000000000000000000000000000 02 74 00  00 00  00"),
    (
        MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(topic_id=ID, name=None)]),
        12,
        "02  00112233445566778899aabbccddeeff 00 00  01 00  00",
    ),
    (
        cluster,
        9,
        (
            "00000001"
            "02  00000001 02 68 00002384 02 72 00"  # one broker
            "00  00000001"  # no cluster id, the controller
            "02  0000 02 74 00"  # one topic: no error, name, not internal
            "02  0000 00000000 00000001 00000009  03 00000001 00000002  02 00000001  01  00"  # its partition
            "80000000 00"  # its operations and tags
            "80000000 00"
        ),  # the cluster's
    ),
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name="t",
                    partition_data=[
                        ProduceRequest.TopicProduceData.PartitionProduceData(index=1, records=b"RECORDS")
                    ],
                )
            ],
        ),
        7,
        "ffff  ffff  000003e8  00000001  0001 74  00000001  00000001  00000007 5245434f524453",
    ),
    (
        produced,
        10,
        (
            "02  02 74  02  00000001 0000 0000000000000002 ffffffffffffffff 0000000000000000  01 00"
            "01  00 09 00000003 00000004 00"  # the new leader is tag 0 of the partition
            "00"  # tags of the topic
            "00000000"
            "01  00 0d 02 00000003 02 68 00002384 00 00"
        ),  # the leader's address is tag 0 of the response
    ),
    (
        FetchRequest(cluster_id="c", max_wait_ms=500, min_bytes=1, max_bytes=2, topics=[], rack_id="r"),
        12,
        "ffffffff 000001f4 00000001 00000002 00  00000000 ffffffff  01 01  02 72  01  00 02 02 63",
    ),
    # A struct that may be null has one byte before it.
    (DescribeTopicPartitionsRequest(topics=[]), 0, "01 000007d0 ff 00"),
    (
        DescribeTopicPartitionsRequest(
            topics=[],
            cursor=DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=2),
        ),
        0,
        "01 000007d0 01  02 74 00000002 00  00",
    ),
    (
        AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequest.EntryData(
                    entity=[],
                    ops=[AlterClientQuotasRequest.EntryData.OpData(key="k", value=1.5, remove=True)],
                )
            ],
            validate_only=True,
        ),
        0,
        "00000001  00000000  00000001 0001 6b 3ff8000000000000 01  01",
    ),
    (
        ConsumerProtocolSubscription(
            topics=["a", "b"],
            owned_partitions=[ConsumerProtocolSubscription.TopicPartition(topic="a", partitions=[0, 1])],
        ),
        1,
        "00000002 0001 61 0001 62  ffffffff  00000001 0001 61 00000002 00000000 00000001",
    ),
    (EndTxnMarker(coordinator_epoch=7), 0, "00000007"),
    (
        LeaderChangeMessage(
            version=0, leader_id=1, voters=[LeaderChangeMessageVoter(voter_id=1)], granting_voters=[]
        ),
        0,
        "0000 00000001  02 00000001 00  01  00",
    ),
    # The client id keeps its two bytes of length in the flexible header.
    (
        RequestHeader(request_api_key=18, request_api_version=3, correlation_id=1, client_id="kc"),
        2,
        "0012 0003 00000001 0002 6b63 00",
    ),
    (
        RequestHeader(request_api_key=18, request_api_version=0, correlation_id=1, client_id=None),
        1,
        "0012 0000 00000001 ffff",
    ),
    (ResponseHeader(correlation_id=1), 0, "00000001"),
    (ResponseHeader(correlation_id=1), 1, "00000001 00"),
]


every_golden_message = pytest.mark.parametrize(
    ("message", "version", "data"),
    GOLDEN,
    ids=[f"{type(message).__name__}-v{version}" for message, version, _ in GOLDEN],
)


@every_golden_message
def test_a_message_has_the_bytes_of_kafkas_protocol(message: Message, version: int, data: str) -> None:
    assert message.encode(version).hex(" ") == bytes.fromhex(data).hex(" ")


@every_golden_message
def test_the_bytes_of_kafkas_protocol_give_the_message(message: Message, version: int, data: str) -> None:
    assert type(message).decode(bytes.fromhex(data), version) == message
