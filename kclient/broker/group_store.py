"""Groups and their offsets as records of `__consumer_offsets`, in the partitions that Kafka uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kclient.broker.log.validate import Origin
from kclient.broker.topics import OFFSETS_TOPIC
from kclient.errors import KafkaStorageError
from kclient.records import encode_batch, read_batches

if TYPE_CHECKING:
    from kclient.broker.broker import Broker

_READ_SIZE = 16 * 1024 * 1024


class OffsetsTopicStore:
    """A `GroupStore` over the internal topic."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def append(self, group_id: str, records: list[tuple[bytes, bytes | None]]) -> None:
        if not records:
            return
        now = int(self._broker.clock.wall() * 1000)
        partition = self._broker.offsets_partition(group_id)
        batch = encode_batch([(key, value, now, ()) for key, value in records])
        try:
            partition.log.append(batch, leader_epoch=partition.leader_epoch, origin=Origin.COORDINATOR)
        except KafkaStorageError as error:
            self._broker.disk.refused(error)
            raise
        partition.wake()

    def load(self) -> Iterator[tuple[bytes, bytes | None]]:
        topic = self._broker.topics.by_name.get(OFFSETS_TOPIC)
        for partition in topic.partitions if topic else ():
            offset = partition.log.start_offset
            while offset < partition.log.end_offset:
                data = partition.log.read(offset, _READ_SIZE)
                for batch in read_batches(data):
                    offset = batch.next_offset
                    for record in batch.records(OFFSETS_TOPIC, partition.index):
                        if record.key is not None:
                            yield record.key, record.value
