"""The embedded consumer protocol: what classic consumers tell each other through JoinGroup and SyncGroup.

To a classic group it is bytes; who migrates groups has to read and write them. They begin with an int16
version, and a newer version only adds to the end. What cannot be read raises `ProtocolError`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar

from kclient.errors import ProtocolError
from kclient.wire.message import Data
from kclient.wire.messages.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

D = TypeVar("D", bound=Data)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    return _read(ConsumerProtocolAssignment, assignment)


def write_assignment(partitions: Mapping[str, list[int]], metadata: bytes) -> bytes:
    """Partitions by topic, in the version of the subscription that they answer."""
    kind = ConsumerProtocolAssignment
    version = _version(kind, metadata)
    given = [kind.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in partitions.items()]
    return struct.pack(">h", version) + kind(assigned_partitions=given).encode(version)


def _read(kind: type[D], data: bytes) -> D:
    return kind.decode_from(data, 2, _version(kind, data))[0]


def _version(kind: type[Data], data: bytes) -> int:
    """The version that the data has, as far as we know it."""
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes of the consumer protocol, too few for a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol")
    return min(version, kind.versions.last)
