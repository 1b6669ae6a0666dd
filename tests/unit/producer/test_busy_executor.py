"""An application whose `to_thread` calls take all threads of the loop: nothing of ours waits for its turn."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import ClientClosedError, KafkaTimeoutError
from kclient.producer import AsyncProducer, Delivery, Producer, sender
from kclient.producer.batch import Batch
from kclient.testing import RunningBroker
from kclient.threads import DaemonThreads
from kclient.types import TopicPartition

pytestmark = pytest.mark.uvloop

WORKERS = 2
LONG_TO_COMPRESS = bytes(200_000)


def use_few_threads() -> None:
    """The default executor has a few threads more than there are processors; with two it is sooner full."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WORKERS))


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
@pytest.mark.parametrize("io_thread", [False, True])
def test_busy_threads_of_the_application_delay_nothing(
    kafka_broker: RunningBroker, codec: str, io_thread: bool
) -> None:
    async def main() -> None:
        use_few_threads()
        may_end = threading.Event()
        busy = [asyncio.create_task(asyncio.to_thread(may_end.wait)) for _ in range(8)]
        await asyncio.sleep(0)
        servers = kafka_broker.bootstrap_servers.replace("127.0.0.1", "localhost")
        try:
            async with (
                AsyncProducer(
                    bootstrap_servers=servers,
                    compression_type=codec,
                    delivery_timeout_ms=30_000,
                    batch_size=1_000_000,
                ) as producer,
                AsyncConsumer(
                    bootstrap_servers=servers, auto_offset_reset="earliest", io_thread=io_thread
                ) as consumer,
            ):
                sent = [await producer.send("t", LONG_TO_COMPRESS) for _ in range(10)]
                consumer.assign([TopicPartition("t", 0)])
                await asyncio.gather(*sent)
                for expected in range(10):
                    assert (await consumer.getone()).offset == expected
            assert not any(each.done() for each in busy)
        finally:
            may_end.set()
            await asyncio.gather(*busy)

    asyncio.run(main())


def test_a_loop_that_is_gone_does_not_hear_of_a_compression_that_ends_late(
    kafka_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    threads = DaemonThreads("test", 1)
    monkeypatch.setattr(sender, "COMPRESSION", threads)
    begun, may_end = threading.Event(), threading.Event()

    def encode(*_: object) -> None:
        begun.set()
        may_end.wait()

    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, compression_type="zstd") as producer:
        producer.partitions_for("t")
        monkeypatch.setattr(Batch, "encode", encode)
        delivery = producer.send("t", LONG_TO_COMPRESS)
        begun.wait()
        with pytest.raises(KafkaTimeoutError):
            producer.close(timeout_ms=0)
    may_end.set()
    threads.submit(str).result()
    assert isinstance(delivery.exception(), ClientClosedError)
    assert not caplog.records


def test_threads_that_wait_for_deliveries_do_not_keep_them_from_being_delivered(
    kafka_broker: RunningBroker,
) -> None:
    async def main() -> None:
        use_few_threads()
        async with AsyncProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers,
            compression_type="zstd",
            delivery_timeout_ms=30_000,
            linger_ms=100,
        ) as producer:
            sent = [await producer.send("t", LONG_TO_COMPRESS) for _ in range(8)]
            found = await asyncio.gather(*(asyncio.to_thread(Delivery.result, each) for each in sent))
            assert [each.offset for each in found] == list(range(8))

    asyncio.run(main())
