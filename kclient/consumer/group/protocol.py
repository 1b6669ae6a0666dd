"""What members of a classic group tell each other through the coordinator, as bytes.

A version number comes first. Newer versions only add fields at the end, so bytes of a version that kclient
does not know are read as the newest it does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from struct import Struct
from typing import TypeVar

from kclient.consumer.group.assignors.base import Member
from kclient.errors import ProtocolError
from kclient.types import TopicPartition
from kclient.wire.message import Data
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

PROTOCOL_TYPE = "consumer"
NEWEST = 3

D = TypeVar("D", bound=Data)
_VERSION = Struct(">h")


def encode_subscription(member: Member, version: int = NEWEST) -> bytes:
    """What a member wants and has; older versions leave out what they cannot say."""
    topic = ConsumerProtocolSubscription.TopicPartition
    subscription = ConsumerProtocolSubscription(
        topics=list(member.topics),
        user_data=member.user_data,
        owned_partitions=[
            topic(topic=name, partitions=numbers) for name, numbers in grouped(member.owned).items()
        ],
        generation_id=-1 if member.generation is None else member.generation,
        rack_id=member.rack,
    )
    return _VERSION.pack(version) + subscription.encode(version)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Member:
    """Read what a member wrote; its instance id comes from outside."""
    said = _decode(ConsumerProtocolSubscription, data)
    return Member(
        topics=tuple(said.topics),
        user_data=None if said.user_data is None else bytes(said.user_data),
        owned=tuple(
            TopicPartition(topic.topic, number)
            for topic in said.owned_partitions
            for number in topic.partitions
        ),
        generation=said.generation_id if said.generation_id >= 0 else None,
        rack=said.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], version: int = NEWEST) -> bytes:
    """What the leader gives a member."""
    topic = ConsumerProtocolAssignment.TopicPartition
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            topic(topic=name, partitions=numbers) for name, numbers in grouped(partitions).items()
        ]
    )
    return _VERSION.pack(version) + assignment.encode(version)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """What a member was given. No bytes at all are an empty assignment: a leader may leave members out."""
    if not data:
        return []
    given = _decode(ConsumerProtocolAssignment, data)
    return [
        TopicPartition(topic.topic, number)
        for topic in given.assigned_partitions
        for number in topic.partitions
    ]


def grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, sorted."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        topics[topic].append(number)
    return dict(topics)


def _decode(kind: type[D], data: bytes) -> D:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{kind.__name__}: {len(data)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"{kind.__name__}: there is no version {version}")
    return kind.decode_from(data, _VERSION.size, min(version, NEWEST))[0]
