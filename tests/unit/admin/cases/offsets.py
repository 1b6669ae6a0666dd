"""Cases about offsets."""

from __future__ import annotations

from typing import Any

from kclient.admin import ListedOffset, OffsetSpec
from kclient.admin.group_offsets import AlterGroupOffsets, DeleteGroupOffsets, ListGroupOffsets
from kclient.admin.offsets import ListOffsets
from kclient.errors import error_for
from kclient.types import OffsetAndMetadata, TopicPartition
from kclient.wire.messages.fetch import ListOffsetsResponse
from kclient.wire.messages.group_offsets import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from tests.unit.admin.cases.base import FIRST, SECOND, Case


def _committed(version: int) -> OffsetFetchResponse:
    epoch = 3 if version >= 5 else -1
    if version < 8:
        topic = OffsetFetchResponse.OffsetFetchResponseTopic
        partition = topic.OffsetFetchResponsePartition
        return OffsetFetchResponse(
            topics=[
                topic(
                    name="orders",
                    partitions=[
                        partition(
                            partition_index=0, committed_offset=9, committed_leader_epoch=epoch, metadata="m"
                        ),
                        partition(partition_index=1, committed_offset=-1, metadata=""),
                        partition(partition_index=2, committed_offset=-1, metadata=None, error_code=29),
                    ],
                )
            ]
        )
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    new_topic = group.OffsetFetchResponseTopics
    new_partition = new_topic.OffsetFetchResponsePartitions
    return OffsetFetchResponse(
        groups=[
            group(
                group_id="billing",
                topics=[
                    new_topic(
                        name="orders",
                        partitions=[
                            new_partition(
                                partition_index=0, committed_offset=9, committed_leader_epoch=3, metadata="m"
                            ),
                            new_partition(partition_index=1, committed_offset=-1, metadata=""),
                            new_partition(
                                partition_index=2, committed_offset=-1, metadata=None, error_code=29
                            ),
                        ],
                    )
                ],
            )
        ]
    )


def _listed_group_offsets(version: int) -> dict[str, Any]:
    refused = error_for(29, about="group billing, topic orders, partition 2")
    return {
        "billing": {
            FIRST: OffsetAndMetadata(9, "m", 3 if version >= 5 else None),
            TopicPartition("orders", 1): None,
            TopicPartition("orders", 2): refused,
        }
    }


def _altered_offsets(_version: int) -> OffsetCommitResponse:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    partition = topic.OffsetCommitResponsePartition
    return OffsetCommitResponse(
        topics=[
            topic(name="orders", partitions=[partition(partition_index=0)]),
            topic(name="users", partitions=[partition(partition_index=1, error_code=25)]),
        ]
    )


def _deleted_offsets(_version: int) -> OffsetDeleteResponse:
    topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
    partition = topic.OffsetDeleteResponsePartition
    return OffsetDeleteResponse(
        topics=[
            topic(name="orders", partitions=[partition(partition_index=0)]),
            topic(name="users", partitions=[partition(partition_index=1, error_code=86)]),
        ]
    )


def _offsets(version: int) -> ListOffsetsResponse:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = topic.ListOffsetsPartitionResponse
    epoch = 2 if version >= 4 else -1
    return ListOffsetsResponse(
        topics=[
            topic(
                name="orders",
                partitions=[partition(partition_index=0, offset=5, timestamp=8, leader_epoch=epoch)],
            ),
            topic(name="users", partitions=[partition(partition_index=1, error_code=29)]),
        ]
    )


def _listed_offsets(version: int) -> dict[TopicPartition, Any]:
    return {
        FIRST: ListedOffset(5, 8, 2 if version >= 4 else None),
        SECOND: error_for(29, about="topic users, partition 1"),
    }


GROUP_PARTITION = "group billing, topic users, partition 1"

CASES = [
    Case(ListGroupOffsets([FIRST, SECOND], False), ["billing"], _committed, _listed_group_offsets),
    Case(
        AlterGroupOffsets("billing", {FIRST: OffsetAndMetadata(9, "m", 3), SECOND: OffsetAndMetadata(1)}),
        [FIRST, SECOND],
        _altered_offsets,
        lambda _: {FIRST: None, SECOND: error_for(68, about=GROUP_PARTITION)},
    ),
    Case(
        DeleteGroupOffsets("billing"),
        [FIRST, SECOND],
        _deleted_offsets,
        lambda _: {FIRST: None, SECOND: error_for(86, about=GROUP_PARTITION)},
    ),
    Case(
        ListOffsets({FIRST: OffsetSpec.EARLIEST, SECOND: 1_000}, "read_uncommitted", 30_000),
        [FIRST, SECOND],
        _offsets,
        _listed_offsets,
    ),
]
