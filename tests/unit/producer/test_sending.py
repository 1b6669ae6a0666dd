"""A producer on the embedded broker, in virtual time: what is sent, and how."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.errors import (
    ClientClosedError,
    ConfigurationError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from kclient.producer import AsyncProducer, Delivery, PartitionView, ProducerRecord
from kclient.testing import LeftoverError, Simulation, simulate
from kclient.types import RecordMetadata, TimestampType
from tests.support.producing import producing, requests_to, values, written


def test_the_three_ways_to_send() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        seen: list[Delivery] = []
        await producer.send("t", b"forgotten")
        watched = await producer.send("t", b"watched")
        watched.add_done_callback(seen.append)
        metadata = await producer.send_and_wait("t", b"awaited", key=b"k")
        assert (metadata.topic, metadata.partition, metadata.offset) == ("t", 0, 2)
        assert seen == [watched]
        assert seen[0].result().offset == 1
        assert seen[0].exception() is None
        assert values(broker) == [b"forgotten", b"watched", b"awaited"]

    producing(check)


def test_everything_of_a_record_arrives() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send("t", bytearray(b"v"), memoryview(b"k"), 1, 1234, {"a": b"1", "b": None})
        await producer.send("t", None, b"k", partition=1, headers=[("a", b"1"), ("a", b"2")])
        now = await producer.send("t", partition=1)
        await producer.flush()
        first, second, third = written(broker, partition=1)
        assert first[3:8] == (1234, TimestampType.CREATE_TIME, b"k", b"v", (("a", b"1"), ("b", None)))
        assert second[5:8] == (b"k", None, (("a", b"1"), ("a", b"2")))
        assert third[5:8] == (None, None, ())
        assert third.timestamp == now.result().timestamp
        assert values(broker) == []

    producing(check, partitions=2)


def test_serializers_see_everything_and_answer_bytes() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", 7, "key")
        await producer.send_and_wait("t", b"bytes too", None)
        assert [(record.key, record.value) for record in written(broker)] == [
            (b"'key'", b"7"),
            (b"None", b"b'bytes too'"),
        ]

    producing(check, value_serializer=lambda v: str(v).encode(), key_serializer=lambda k: repr(k).encode())


class Renaming:
    """A hook that moves records to topic `t`, and keeps what it is told."""

    def __init__(self) -> None:
        self.fates: list[tuple[Any, int | None, BaseException | None]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        return record._replace(topic="t", value=record.value + "!") if record.topic == "elsewhere" else None

    def on_delivery(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        self.fates.append((record.value, metadata.offset if metadata else None, error))


class Failing:
    def on_send(self, _: ProducerRecord) -> ProducerRecord | None:
        raise ZeroDivisionError

    def on_delivery(self, *_: object) -> None:
        raise ZeroDivisionError


def test_hooks_change_records_and_see_their_fate_and_their_failures_change_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook = Renaming()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("elsewhere", "one")
        producer.send_nowait("t", "two")
        missing = await producer.send("t", "three", partition=0)
        await producer.flush()
        assert values(broker) == [b"one!", b"two", b"three"]
        assert missing.result().offset == 2
        assert hook.fates == [("one!", 0, None), ("two", 1, None), ("three", 2, None)]

    producing(check, hooks=[Failing(), hook], value_serializer=str.encode)
    assert len(caplog.records) == 6


def test_hooks_are_told_of_records_that_are_refused_at_the_call() -> None:
    hook = Renaming()

    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", "first")
        refused: list[BaseException] = []
        for record in (("t", 17), ("t", "x" * 3_000_000), ("no topic", "v")):
            with pytest.raises((TypeError, KafkaError)) as caught:
                await producer.send(*record)
            refused.append(caught.value)
            with pytest.raises((TypeError, KafkaError)) as caught:
                producer.send_nowait(*record)
            refused.append(caught.value)
        waits = asyncio.ensure_future(producer.send("t", "y" * 900_000))
        waiting = asyncio.ensure_future(producer.send("t", "z" * 900_000))
        await waits
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [error for _, _, error in hook.fates[1:7]] == refused
        assert isinstance(hook.fates[-1][2], asyncio.CancelledError)

    producing(check, hooks=[hook], value_serializer=str.encode, buffer_memory=1_000_000)


def test_partitions_for_and_custom_partitioners() -> None:
    def last(key: bytes | None, everything: list[int], available: list[int]) -> int:
        assert everything == available == [0, 1, 2]
        if key == b"bad":
            raise ZeroDivisionError
        return everything[-1] if key != b"nowhere" else 3

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        assert await producer.partitions_for("t") == {0, 1, 2}
        sent = [producer.send_nowait("t", b"v", key) for key in (b"k", b"bad", b"nowhere", b"k")]
        await producer.flush()
        assert [type(each.exception()) for each in sent] == [
            type(None),
            ConfigurationError,
            ConfigurationError,
            type(None),
        ]
        assert len(written(broker, partition=2)) == 2
        assert producer.metrics().buffer_used == 0

    producing(check, partitions=3, partitioner=last)


def test_a_partition_the_topic_does_not_have_fails_alone() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        good, bad = await producer.send("t", b"1", partition=0), await producer.send("t", b"2", partition=9)
        await producer.flush()
        assert good.result().offset == 0
        with pytest.raises(UnknownTopicOrPartitionError, match="partition 9"):
            bad.result()

    producing(check)


def test_partitions_that_were_added_are_found() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"1", partition=0)
        broker.topics.grow(broker.topics.by_name["t"], broker.place(2, 1))
        assert (await producer.send_and_wait("t", b"2", partition=2)).partition == 2
        assert await producer.partitions_for("t") == {0, 1, 2}

    producing(check)


@pytest.mark.parametrize("topic", [None, 5, b"t"])
def test_a_topic_that_is_no_text_is_refused_and_harms_nobody(topic: Any) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        for send in (producer.send, producer.partitions_for):
            with pytest.raises(TypeError, match="not text"):
                await send(topic)
        with pytest.raises(TypeError, match="not text"):
            await producer.send(topic, b"value")
        with pytest.raises(TypeError, match="not text"):
            await producer.send_many(topic, [b"value"])
        await producer.send_and_wait("t", b"fine")

    producing(check)


@pytest.mark.parametrize("topic", ["", "a b", "\ud800", "x" * 250])
def test_a_name_that_no_topic_can_have_is_refused_and_harms_nobody(topic: str) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        with pytest.raises(InvalidTopicError):
            await producer.send(topic, b"value")
        with pytest.raises(InvalidTopicError):
            producer.send_nowait(topic, b"value")
        broker.create_topic("another")
        await producer.send_and_wait("another", b"fine")

    producing(check)


def test_a_record_that_can_never_be_sent_is_refused_at_once() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            await producer.send("t", bytes(100_000))
        with pytest.raises(RecordTooLargeError, match="buffer_memory"):
            await producer.send("t", bytes(60_000))
        with pytest.raises(RecordTooLargeError):
            await producer.send_many("t", [b"small", bytes(60_000)])
        assert producer.metrics().buffer_used == 0
        assert values(broker) == []

    producing(check, max_request_size=90_000, buffer_memory=50_000)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written_and_counted(codec: str) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        sent = [bytes(1000) + b"%d" % number for number in range(500)]
        for value in sent:
            await producer.send("t", value)
        await producer.flush()
        assert values(broker) == sent
        ratio = producer.metrics().compression_ratio
        assert ratio is not None
        assert ratio < 0.3 if codec != "none" else ratio == 1

    producing(check, compression_type=codec)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(acks: Any) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        seen = requests_to(broker)
        metadata = await producer.send_and_wait("t", b"v")
        await producer.flush()
        await asyncio.sleep(1)
        assert {request.acks for request in seen} == {-1 if acks == "all" else acks}
        assert metadata.offset == (-1 if acks == 0 else 0)
        assert values(broker) == [b"v"]

    producing(check, acks=acks)


def test_no_request_is_larger_than_max_request_size() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        seen = requests_to(broker)
        sent = [bytes([number % 251]) * (1 + number * 97 % 9_000) for number in range(400)]
        for number, value in enumerate(sent):
            producer.send_nowait("t", value, partition=number % 12)
        await producer.flush()
        sizes = [
            sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
            for request in seen
        ]
        assert max(sizes) <= 10_000
        assert sum(len(values(broker, partition=number)) for number in range(12)) == len(sent)
        # And they are filled: single batches would take many more.
        assert len(seen) < 400

    producing(check, partitions=12, max_request_size=10_000, batch_size=100_000)


def test_metrics_count_what_was_done() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        before = producer.metrics()
        assert (before.records, before.queue_latency, before.compression_ratio) == (0, None, None)
        for _number in range(10):
            await producer.send("t", bytes(64))
        assert producer.metrics().buffer_used > 0
        await producer.flush()
        await asyncio.sleep(10)
        after = producer.metrics()
        assert (after.records, after.bytes, after.batches, after.requests) == (10, 640, 1, 1)
        assert (after.errors, after.retries, after.in_flight, after.buffer_used) == (0, 0, 0, 0)
        assert after.records_per_batch == 10
        assert 0.5 < after.record_rate < 1.5
        assert after.request_latency is not None
        await asyncio.sleep(60)
        assert producer.metrics().record_rate == 0
        assert producer.metrics().records == 10

    producing(check)


def test_a_closed_producer_says_so() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        last = await producer.send("t", b"last")
        await producer.close()
        await producer.close()
        assert last.result().offset == 0
        assert producer.closed
        for use in (producer.send("t", b"x"), producer.send_many("t", [b"x"]), producer.partitions_for("t")):
            with pytest.raises(ClientClosedError):
                await use
        with pytest.raises(ClientClosedError):
            producer.send_nowait("t", b"x")
        with pytest.raises(ClientClosedError):
            await producer.flush()
        assert not producer.health().connected

    producing(check)


def test_an_unclosed_producer_warns_and_leaves_nothing() -> None:
    fates: list[Delivery] = []

    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock) as broker:
            broker.create_topic("t")
            producer: AsyncProducer | None = AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, linger_ms=1000
            )
            assert producer is not None
            delivery = await producer.send("t", b"v")
            delivery.add_done_callback(fates.append)
            with pytest.warns(ResourceWarning, match="never closed"):
                producer = None
            gc.collect()
            await asyncio.sleep(1)
            with pytest.raises(ClientClosedError):
                await delivery

    simulate(main)
    assert len(fates) == 1


def test_a_start_that_fails_leaves_nothing_and_may_be_tried_again() -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock) as broker:
            broker.create_topic("t")
            address = broker.bootstrap_servers
            broker.nodes[1].stop()
            producer = AsyncProducer(bootstrap_servers=address, clock=sim.clock)
            with pytest.raises(KafkaTimeoutError):
                await producer.start(500)
            await broker.start_node(1)
            await producer.start()
            await producer.send_and_wait("t", b"v")
            await producer.close()

    simulate(main)


def test_a_producer_belongs_to_one_loop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    left: list[AsyncProducer] = []

    async def main(_: Simulation) -> None:
        producer = AsyncProducer(bootstrap_servers="nowhere:1")
        producer.send_nowait("t", b"v")
        left.append(producer)

    with pytest.raises(LeftoverError):
        simulate(main)

    async def other() -> None:
        for use in (left[0].partitions_for("t"), left[0].flush(), left[0].close()):
            with pytest.raises(RuntimeError, match="another event loop"):
                await use

    asyncio.run(other())
    gc.collect()
    with pytest.warns(ResourceWarning):
        left.clear()


class Backwards:
    """Records go to the last partition."""

    def partition(self, *asked: Any) -> int:
        view: PartitionView = asked[-1]
        return view.count - 1


def test_a_partitioner_may_be_an_object() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        assert (await producer.send_and_wait("t", b"v")).partition == 3

    producing(check, partitions=4, partitioner=Backwards())
