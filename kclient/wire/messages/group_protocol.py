"""What members of a classic group send each other through the coordinator (protocol type "consumer")."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.message import Data
from kclient.wire.schema import Array, Int32, NullableBytes, NullableString, String, Struct, V


class ConsumerProtocolSubscription(Data, versions="0-3", flexible="none"):
    class TopicPartition(Struct):
        topic: String
        partitions: Array[Int32]

    topics: Array[String]
    user_data: NullableBytes = None
    owned_partitions: Annotated[Array[TopicPartition], V("1+", ignorable=True)] = []
    generation_id: Annotated[Int32, V("2+", ignorable=True)] = -1
    rack_id: Annotated[NullableString, V("3+", ignorable=True)] = None


class ConsumerProtocolAssignment(Data, versions="0-3", flexible="none"):
    class TopicPartition(Struct):
        topic: String
        partitions: Array[Int32]

    assigned_partitions: Array[TopicPartition]
    user_data: NullableBytes = None
