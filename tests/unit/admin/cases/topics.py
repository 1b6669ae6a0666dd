"""Cases about topics."""

from __future__ import annotations

from typing import Any

from kclient.admin import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from kclient.admin.topics import CreatePartitions, CreateTopics, DeleteTopics, DescribeTopics, ListTopics
from kclient.errors import error_for
from kclient.wire.messages.metadata import MetadataResponse
from kclient.wire.messages.topics import CreatePartitionsResponse, CreateTopicsResponse, DeleteTopicsResponse
from kclient.wire.schema import NO_UUID
from tests.unit.admin.cases.base import ID, NOT_TOLD, PERMISSIONS, READ_AND_DESCRIBE, Case


def _created(version: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[
            result(
                name="orders",
                error_message=None,
                topic_id=ID if version >= 7 else NO_UUID,
                num_partitions=6 if version >= 5 else -1,
                replication_factor=3 if version >= 5 else -1,
            ),
            result(name="users", error_code=36, error_message="it is there"),
        ]
    )


def _deleted(version: int) -> DeleteTopicsResponse:
    result = DeleteTopicsResponse.DeletableTopicResult
    return DeleteTopicsResponse(
        responses=[
            result(name="orders"),
            result(name="users", error_code=73, error_message="not here" if version >= 5 else None),
        ]
    )


def _grown(_version: int) -> CreatePartitionsResponse:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[result(name="orders"), result(name="users", error_code=37, error_message="too few")]
    )


def metadata(version: int) -> MetadataResponse:
    topic = MetadataResponse.MetadataResponseTopic
    broker = MetadataResponse.MetadataResponseBroker
    partitions = [
        topic.MetadataResponsePartition(
            partition_index=1, leader_id=-1, replica_nodes=[2], isr_nodes=[], error_code=5
        ),
        topic.MetadataResponsePartition(
            partition_index=0,
            leader_id=1,
            leader_epoch=4 if version >= 7 else -1,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[2] if version >= 5 else [],
        ),
    ]
    return MetadataResponse(
        brokers=[
            broker(node_id=2, host="two", port=9093),
            broker(node_id=1, host="one", port=9092, rack="r1" if version >= 1 else None),
        ],
        cluster_id="cluster" if version >= 2 else None,
        controller_id=2 if version >= 1 else -1,
        topics=[
            topic(
                name="orders",
                topic_id=ID if version >= 10 else NO_UUID,
                is_internal=version >= 1,
                partitions=partitions,
                topic_authorized_operations=READ_AND_DESCRIBE if version >= 8 else NOT_TOLD,
            ),
            topic(name="nothing", error_code=3, partitions=[]),
        ],
        cluster_authorized_operations=READ_AND_DESCRIBE if 8 <= version <= 10 else NOT_TOLD,
    )


def _described_topics(version: int) -> dict[str, Any]:
    return {
        "orders": TopicDescription(
            name="orders",
            topic_id=ID if version >= 10 else NO_UUID,
            internal=version >= 1,
            partitions=(
                PartitionDescription(
                    0, 1, 4 if version >= 7 else -1, (1, 2), (1,), (2,) if version >= 5 else ()
                ),
                PartitionDescription(1, None, -1, (2,), (), ()),
            ),
            authorized_operations=PERMISSIONS if version >= 8 else None,
        ),
        "nothing": error_for(3, about="topic nothing"),
    }


def _listed_topics(version: int) -> dict[None, Any]:
    orders = TopicListing("orders", ID if version >= 10 else NO_UUID, version >= 1)
    return {None: {"nothing": TopicListing("nothing", NO_UUID, False), "orders": orders}}


CASES = [
    Case(
        CreateTopics(
            {
                "orders": NewTopic("orders", 6, 3, configs={"cleanup.policy": "compact"}),
                "users": NewTopic("users", assignments={0: [1, 2], 1: [2, 1]}),
                "plain": NewTopic("plain"),
            },
            30_000,
            validate_only=True,
        ),
        ["orders", "users", "plain"],
        _created,
        lambda version: {
            "orders": CreatedTopic(
                "orders",
                ID if version >= 7 else NO_UUID,
                6 if version >= 5 else -1,
                3 if version >= 5 else -1,
            ),
            "users": error_for(36, "it is there", about="topic users"),
        },
    ),
    Case(
        DeleteTopics(30_000),
        ["orders", "users"],
        _deleted,
        lambda version: {
            "orders": None,
            "users": error_for(73, "not here" if version >= 5 else None, about="topic users"),
        },
    ),
    Case(
        CreatePartitions(
            {"orders": NewPartitions(6), "users": NewPartitions(2, [[1, 2]])}, 30_000, validate_only=True
        ),
        ["orders", "users"],
        _grown,
        lambda _: {"orders": None, "users": error_for(37, "too few", about="topic users")},
    ),
    Case(
        DescribeTopics(include_authorized_operations=True),
        ["orders", "nothing"],
        metadata,
        _described_topics,
    ),
    Case(ListTopics(), [None], metadata, _listed_topics),
]
