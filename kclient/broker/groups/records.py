"""The records of `__consumer_offsets` that keep classic groups and committed offsets, in Kafka's formats.

A key begins with an int16 that says what it is a key of, a value with the version it is written in.
`coordinator` replays them after a restart; `classic` and `offsets` write them.
"""

from __future__ import annotations

import struct
from typing import Annotated, TypeVar

from kclient.errors import ProtocolError
from kclient.wire.message import Data
from kclient.wire.schema import (
    NO_UUID,
    Array,
    Bytes,
    Int32,
    Int64,
    NullableString,
    String,
    Struct,
    Tag,
    Uuid,
    V,
)

OFFSET_KEYS = frozenset({0, 1})
GROUP_KEY = 2


class OffsetCommitKey(Data, versions="0-1", flexible="none"):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    offset: Int64
    leader_epoch: Annotated[Int32, V("3+", ignorable=True)] = -1
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, V("1", ignorable=True)] = -1
    topic_id: Annotated[Uuid, V("4+", ignorable=True), Tag(0)] = NO_UUID


class GroupMetadataKey(Data, versions="2", flexible="none"):
    group: String


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    class MemberMetadata(Struct):
        member_id: String
        group_instance_id: Annotated[NullableString, V("3+", nullable="3+", ignorable=True)] = None
        client_id: String
        client_host: String
        rebalance_timeout: Annotated[Int32, V("1+", ignorable=True)] = -1
        session_timeout: Int32
        subscription: Bytes
        assignment: Bytes

    protocol_type: String
    generation: Int32
    protocol: NullableString
    leader: NullableString
    current_state_timestamp: Annotated[Int64, V("2+", ignorable=True)] = -1
    members: Array[MemberMetadata]


D = TypeVar("D", bound=Data)


def write(data: Data, version: int) -> bytes:
    """A key or value with its leading version."""
    return struct.pack(">h", version) + data.encode(version)


def read(kind: type[D], data: bytes) -> D:
    """A key or value without it."""
    return kind.decode(memoryview(data)[2:], version_of(data))


def version_of(data: bytes) -> int:
    """What a key is a key of, or the version of a value."""
    if len(data) < 2:
        raise ProtocolError(f"a record of the offsets topic has {len(data)} bytes, too few for its version")
    return int.from_bytes(data[:2], "big", signed=True)
