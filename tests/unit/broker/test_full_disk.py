"""A full disk is said once, answered as by Kafka, and over when there is room again."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kclient import AsyncConsumer, AsyncProducer, TopicPartition
from kclient.broker.broker import Broker
from kclient.errors import KafkaStorageError
from kclient.net.connection import Connection
from kclient.testing import until
from tests.broker.records_script import produce, records
from tests.support.embedded import simulated, within

FULL = KafkaStorageError.code


@contextmanager
def full_disk() -> Iterator[None]:
    """Every write takes ten bytes and no more, as one that meets the end of a disk."""
    write = os.pwrite

    def short(descriptor: int, data: Any, position: int) -> int:
        write(descriptor, bytes(data)[:10], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        yield


async def written(connection: Connection, topic: str) -> int:
    answer = await connection.call(produce(topic, records(b"x" * 50)), within(5), version=12)
    code = answer.responses[0].partition_responses[0].error_code
    assert isinstance(code, int)
    return code


def test_a_full_disk_is_answered_with_a_storage_error_said_once_and_then_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(broker: Broker, connection: Connection) -> None:
        for name in ("orders", "bills"):
            broker.create_topic(name)
        assert await written(connection, "orders") == 0
        with full_disk():
            for name in ("orders", "bills", "orders"):
                assert await written(connection, name) == FULL
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"{tmp_path}/orders-0/{0:020}.log failed: [Errno 28] No space left" in caplog.text
        assert "answered with KAFKA_STORAGE_ERROR" in caplog.text
        caplog.clear()
        assert [await written(connection, "orders"), await written(connection, "bills")] == [0, 0]
        assert [record.message for record in caplog.records] == ["the disk can be written to again"]
        assert broker.topics.partition("orders", 0).log.end_offset == 2

    caplog.set_level("WARNING", "kclient.broker")
    simulated(check, data=tmp_path)


def test_a_producer_waits_for_room_and_writes_every_record_once(tmp_path: Path) -> None:
    async def check(broker: Broker, _: Connection) -> None:
        servers = broker.bootstrap_servers
        broker.create_topic("orders")
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            await producer.send("orders", b"0", partition=0)
            with full_disk():
                sent = [producer.send_nowait("orders", b"%d" % n, partition=0) for n in range(1, 50)]
                await until(lambda: broker.disk.refusing)
            for delivery in sent:
                await delivery
        async with AsyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            found = [(await consumer.getone()).value for _ in range(50)]
        assert found == [b"%d" % n for n in range(50)]
        assert broker.topics.partition("orders", 0).log.end_offset == 50

    # The producer stamps records with the time of day, which the simulation does not have.
    simulated(check, data=tmp_path, config={"log.message.timestamp.after.max.ms": str(1 << 60)})
