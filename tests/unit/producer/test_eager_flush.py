"""A callback that begins a `flush` in an eager task (Python 3.12 on), so that it drains within the call."""

from __future__ import annotations

import asyncio

from kclient.broker import Broker
from kclient.errors import KafkaTimeoutError
from kclient.producer import AsyncProducer, Delivery
from kclient.wire.api import ApiKey
from tests.support.producing import producing


def test_records_of_every_partition_run_out_of_time_where_a_callback_drains_new_ones() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.create_topic("u", 1)
        await producer.partitions_for("t")
        await producer.partitions_for("u")
        dispatcher = producer._core.dispatcher if producer._core else None
        assert dispatcher is not None
        broker.faults.delay(ApiKey.PRODUCE, 3_600, times=None)

        def again(_: Delivery) -> None:
            producer.send_nowait("u", b"again")
            dispatcher.drain()  # as `flush` does before it waits

        deliveries = [producer.send_nowait("t", b"late", partition=number) for number in range(3)]
        for delivery in deliveries:
            delivery.add_done_callback(again)
        await asyncio.sleep(3)
        assert all(isinstance(delivery.exception(), KafkaTimeoutError) for delivery in deliveries)

    producing(check, partitions=3, delivery_timeout_ms=1_000)
