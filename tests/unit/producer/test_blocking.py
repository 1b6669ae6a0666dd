"""The producer for threads, with the embedded broker on real sockets: threads, callbacks, forks, the end."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kclient.errors import BufferFullError, ClientClosedError, ConfigurationError, KafkaTimeoutError
from kclient.producer import AsyncProducer, Delivery, Producer
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey
from tests.support.producing import values, written
from tests.support.threads import our_threads, wait_for_no_threads
from tools.kafka.ports import free_ports
from tools.kafka.waiting import poll

pytestmark = pytest.mark.uvloop

PRODUCE = ApiKey.PRODUCE


def producer_for(running: RunningBroker, **options: Any) -> Producer:
    return Producer(bootstrap_servers=running.bootstrap_servers, **options)


def test_the_three_ways_to_send(kafka_broker: RunningBroker) -> None:
    told: list[Delivery] = []
    with producer_for(kafka_broker) as producer:
        producer.send("t", b"forgotten")
        watched = producer.send("t", b"watched", key=b"k", headers={"a": b"1"})
        watched.add_done_callback(told.append)
        assert producer.send_and_wait("t", b"awaited").offset == 2
        assert watched.result(timeout=10).offset == 1
        assert producer.send_nowait("t", b"at once").result(timeout=10).offset == 3
        assert producer.partitions_for("t") == {0}
        assert producer.health().connected
        assert producer.metrics().records == 4
        with pytest.raises(TypeError, match="value_serializer"):
            producer.send("t", "text")
    assert told == [watched]
    assert values(kafka_broker.broker) == [b"forgotten", b"watched", b"awaited", b"at once"]
    assert written(kafka_broker.broker)[1].headers == (("a", b"1"),)
    wait_for_no_threads()


def test_where_a_loop_runs_as_in_a_notebook_calls_that_wait_do_so_too(kafka_broker: RunningBroker) -> None:
    async def cell(producer: Producer) -> list[int]:
        first = producer.send_and_wait("t", b"first").offset
        second = producer.send("t", b"second")
        producer.flush()
        return [first, second.result().offset, (await producer.send("t", b"third")).offset]

    with producer_for(kafka_broker) as producer:
        assert asyncio.run(cell(producer)) == [0, 1, 2]


def test_sixteen_threads_share_a_producer_and_each_keeps_its_order(kafka_broker: RunningBroker) -> None:
    count, threads = 2_000, 16
    pending: set[Delivery] = set()

    def work(producer: Producer, who: int) -> None:
        for number in range(count):
            delivery = producer.send("t", b"%d %d" % (who, number))
            pending.add(delivery)
            delivery.add_done_callback(pending.discard)

    with producer_for(kafka_broker, buffer_memory=400_000, batch_size=20_000) as producer:
        with ThreadPoolExecutor(threads) as pool:
            for working in [pool.submit(work, producer, who) for who in range(threads)]:
                working.result(timeout=60)
        producer.flush()
        assert pending == set()
        assert producer.metrics().buffer_used == 0
    found = [value.split() for value in values(kafka_broker.broker) if value]
    for who in range(threads):
        assert [int(number) for other, number in found if int(other) == who] == list(range(count))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_on_other_threads_keeps_the_order(kafka_broker: RunningBroker, codec: str) -> None:
    sent = [b"%05d" % number + bytes(2_000) for number in range(2_000)]
    with producer_for(kafka_broker, compression_type=codec, batch_size=200_000) as producer:
        deliveries = [producer.send("t", value) for value in sent]
        producer.flush()
        assert [each.result().offset for each in deliveries] == list(range(len(sent)))
    assert values(kafka_broker.broker) == sent


def test_closing_while_batches_are_compressed_leaves_nothing(kafka_broker: RunningBroker) -> None:
    with producer_for(kafka_broker) as warm:
        warm.send_and_wait("t", b"0")
    for _ in range(5):
        producer = producer_for(kafka_broker, compression_type="gzip", batch_size=500_000)
        producer.partitions_for("t")
        many = producer.send_many("t", [os.urandom(50_000)] * 20)
        try:
            producer.close(timeout_ms=1)
        except KafkaTimeoutError:
            assert many.errors()
        assert many.done()
    wait_for_no_threads()


def test_send_many_and_its_result(kafka_broker: RunningBroker) -> None:
    with producer_for(kafka_broker) as producer:
        sent = [b"%d" % number for number in range(10_000)]
        deliveries = producer.send_many("t", sent, keys=sent)
        assert deliveries.result(timeout=30)[9_999].offset == 9_999
        assert len(producer.send_many("t", []).result(timeout=1)) == 0
    assert values(kafka_broker.broker) == sent


def test_a_full_buffer_blocks_up_to_max_block_and_a_callback_not_at_all(kafka_broker: RunningBroker) -> None:
    raised: list[BaseException] = []

    with producer_for(kafka_broker, buffer_memory=2_000, max_block_ms=300) as producer:
        producer.send_and_wait("t", b"0")
        fault = kafka_broker.broker.faults.delay(PRODUCE, 2, times=None)
        blocker = producer.send("t", bytes(1_900))
        for _ in range(3):
            with pytest.raises(BufferFullError, match="max_block_ms"):
                producer.send("t", bytes(1_900))
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", bytes(1_900))
        assert not producer._core.accumulator.pressed  # nobody waits any more

        def send_on(_: Delivery) -> None:
            producer.send("t", bytes(1_900))
            try:
                producer.send("t", bytes(1_900))
            except BufferFullError as error:
                raised.append(error)

        blocker.add_done_callback(send_on)
        fault.remove()
        blocker.result(timeout=30)
        poll(lambda: raised, timeout=10, failure=lambda: "the callback was not told")
        assert "callback" in str(raised[0])
        producer.flush()


def test_threads_that_wait_for_room_get_it(kafka_broker: RunningBroker) -> None:
    def work(producer: Producer) -> None:
        for _ in range(100):
            producer.send("t", bytes(700))

    with producer_for(kafka_broker, buffer_memory=2_000) as producer:
        with ThreadPoolExecutor(4) as pool:
            for working in [pool.submit(work, producer) for _ in range(4)]:
                working.result(timeout=60)
        producer.flush()
        assert producer.metrics().records == 400


def test_closing_ends_the_waiting_of_other_threads(kafka_broker: RunningBroker) -> None:
    producer = producer_for(kafka_broker, buffer_memory=2_000)
    producer.send_and_wait("t", b"0")
    kafka_broker.broker.faults.drop(PRODUCE, handled=False, times=None)
    sent = producer.send("t", bytes(1_900))
    with ThreadPoolExecutor(3) as pool:
        waits: list[Future[Any]] = [
            pool.submit(producer.send, "t", bytes(1_900)),
            pool.submit(sent.result),
            pool.submit(producer.flush),
        ]
        poll(lambda: producer._core.accumulator.pressed, timeout=10, failure=lambda: "nobody waits")
        with pytest.raises(KafkaTimeoutError, match="1 records were not delivered"):
            producer.close(timeout_ms=100)
        errors = [wait.exception(timeout=10) for wait in waits]
    assert isinstance(errors[0], ClientClosedError)
    assert isinstance(errors[1], ClientClosedError)
    for use in (lambda: producer.send("t", b"x"), producer.flush, lambda: producer.send_many("t", [b"x"])):
        with pytest.raises(ClientClosedError):
            use()
    assert not producer.health().connected
    producer.close()
    wait_for_no_threads()


def test_threads_may_close_it_at_the_same_time(kafka_broker: RunningBroker) -> None:
    for _ in range(5):
        producer = producer_for(kafka_broker)
        delivery = producer.send("t", b"v")
        with ThreadPoolExecutor(4) as pool:
            for closing in [pool.submit(producer.close) for _ in range(4)]:
                closing.result(timeout=10)
        assert delivery.done()
    wait_for_no_threads()


def test_a_callback_that_closes_the_producer_is_refused_and_nothing_is_lost(
    kafka_broker: RunningBroker,
) -> None:
    told: Future[BaseException] = Future()

    def close(_: Delivery) -> None:
        try:
            producer.close()
        except RuntimeError as error:
            told.set_result(error)

    # It lingers until the flush: a callback for a record that is delivered already runs here.
    with producer_for(kafka_broker, linger_ms=60_000) as producer:
        producer.send("t", b"first").add_done_callback(close)
        producer.flush()
        assert "cannot close it" in str(told.result(timeout=10))
        second = producer.send("t", b"second")
        producer.flush()
        assert second.result().offset == 1
    assert producer.closed
    wait_for_no_threads()


def test_close_ends_with_all_brokers_gone() -> None:
    (port,) = free_ports(1)
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}")
    sent = producer.send_nowait("t", b"v")
    with pytest.raises(KafkaTimeoutError, match="1 of topic t"):
        producer.close(timeout_ms=200)
    with pytest.raises(ClientClosedError):
        sent.result()
    with (
        pytest.raises(KafkaTimeoutError),
        Producer(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=200),
    ):
        pass
    wait_for_no_threads()


def test_an_unclosed_producer_warns_delivers_and_leaves_no_thread(kafka_broker: RunningBroker) -> None:
    producers = [producer_for(kafka_broker, linger_ms=50_000)]
    delivery = producers[0].send("t", b"v")
    gc.collect()
    with pytest.warns(ResourceWarning, match="never closed"):
        producers.clear()
    wait_for_no_threads()
    assert delivery.result(timeout=10).offset == 0


def test_options_that_cannot_work_leave_no_thread(tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError):
        Producer(partitioner="murmur4")
    with pytest.raises(Exception, match="missing"):
        Producer(security_protocol="SSL", ssl_cafile=tmp_path / "missing.pem")
    gc.collect()
    assert our_threads() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_in_a_forked_child_every_use_fails_at_once(kafka_broker: RunningBroker) -> None:
    with producer_for(kafka_broker, linger_ms=60_000) as producer:
        producer.send("t", b"before")  # the topic is known and its chunk open: the quickest way in
        lock = producer._core.accumulator.lock
        reading, writing = os.pipe()
        with lock:  # as a thread might hold it that is not there in the child
            child = os.fork()
        if not child:  # pragma: no cover - another process
            outcome = "\n".join(_tried(producer))
            os.write(writing, outcome.encode())
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reading) as answers:
            assert answers.read().splitlines() == ["ClientClosedError"] * 6
        assert status == 0
        producer.flush()
    assert values(kafka_broker.broker) == [b"before"]


def _tried(producer: Producer) -> list[str]:  # pragma: no cover - another process
    outcomes = []
    for use in (
        lambda: producer.send("t", b"x"),
        lambda: producer.send("t", b"x", partition=0),
        lambda: producer.send_nowait("t", b"x"),
        lambda: producer.send_many("t", [b"x"]),
        producer.flush,
        lambda: producer.partitions_for("t"),
    ):
        try:
            use()
            outcomes.append("no error")
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent compares it
            outcomes.append(type(error).__name__)
    producer.close()
    return outcomes


def test_serializers_hooks_and_partitions_work_from_threads(kafka_broker: RunningBroker) -> None:
    fates: list[object] = []

    class Hook:
        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value * 2)

        def on_delivery(self, *fate: object) -> None:
            fates.append((threading.current_thread().name, *fate[1:]))

    kafka_broker.broker.create_topic("t", 3)
    with producer_for(kafka_broker, hooks=[Hook()], value_serializer=str.encode) as producer:
        metadata = producer.send_and_wait("t", "ab", partition=2)
        assert metadata.partition == 2
    assert values(kafka_broker.broker, partition=2) == [b"abab"]
    assert fates == [("kclient producer kclient", metadata, None)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_in_a_forked_child_an_asyncio_producer_takes_nothing_either(kafka_broker: RunningBroker) -> None:
    async def main() -> None:
        async with AsyncProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=60_000
        ) as producer:
            await producer.send("t", b"before")
            child = os.fork()
            if not child:  # pragma: no cover - another process
                os._exit(_refused_elsewhere(producer))
            _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
            assert os.waitstatus_to_exitcode(status) == 7
            await producer.flush()
            assert producer.metrics().retries == 0

    asyncio.run(main())
    assert values(kafka_broker.broker) == [b"before"]


def _refused_elsewhere(producer: AsyncProducer) -> int:  # pragma: no cover - another process
    async def use() -> int:
        refused = 0
        for each in (producer.send("t", b"x"), producer.flush(), producer.partitions_for("t")):
            try:
                await each
            except RuntimeError:
                refused += 1
        await producer.close()  # must not touch the parent's connections, and has nothing of its own
        return refused + 4 * producer.closed

    loop = asyncio.new_event_loop()
    return loop.run_until_complete(use())
