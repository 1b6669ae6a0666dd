"""Lists, Arrow tables and pandas frames as records, and the fate of many."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kclient.broker import Broker
from kclient.errors import (
    BufferFullError,
    ConfigurationError,
    KafkaError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from kclient.producer import AsyncProducer, ProducerConfig
from kclient.producer.many import Many, columns_from, pieces_of
from kclient.wire.api import ApiKey
from tests.support.producing import producing, values, written


def columns(*args: Any, config: ProducerConfig | None = None, **named: Any) -> Any:
    return columns_from(config or ProducerConfig(), Many("t", *args, **named), 99)


def test_many_records_arrive_in_order_with_all_they_have() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        sent = [b"%05d" % number for number in range(20_000)]
        deliveries = await producer.send_many("t", sent, keys=[b"k"] * len(sent))
        with pytest.raises(LookupError, match="not known yet"):
            deliveries[0]
        assert not deliveries.done()
        metadata = await deliveries
        assert metadata is deliveries
        assert [each.offset for each in deliveries] == list(range(20_000))
        assert (deliveries[-1].offset, [each.offset for each in deliveries[2:4]]) == (19_999, [2, 3])
        assert values(broker) == sent
        assert len(await producer.send_many("t", [])) == 0
        full = await producer.send_many(
            "t", (b"a", None), (None, b"k"), partition=0, timestamp_ms=[5, 6], headers=[{"h": b"x"}, ()]
        )
        await full
        first, second = written(broker)[-2:]
        assert (first.timestamp, first.key, first.value, first.headers) == (5, None, b"a", (("h", b"x"),))
        assert (second.timestamp, second.key, second.value, second.headers) == (6, b"k", None, ())
        assert producer.metrics().buffer_used == 0

    producing(check)


def test_of_many_each_failure_is_told_by_its_number() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        deliveries = await producer.send_many("t", [b"v"] * 100, [b"k"] * 50 + [b"bad"] + [b"k"] * 49)
        with pytest.raises(ConfigurationError) as info:
            await deliveries
        assert info.value.__notes__ == ["record 50 of 100; 1 of them were not delivered"]
        assert list(deliveries.errors()) == [50]
        assert deliveries[51].offset == 50
        with pytest.raises(ConfigurationError):
            deliveries[50]
        assert repr(deliveries) == "<Deliveries of 100 records, done>"

    def partitioner(key: bytes, *_: object) -> int:
        return 0 if key == b"k" else 1 // 0

    producing(check, partitioner=partitioner)


@pytest.mark.parametrize("topic", ["t", "made on first use"])
def test_of_many_none_is_sent_where_one_has_no_such_partition(topic: str) -> None:
    name = topic.replace(" ", "-")

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for partition in ([0, 7], [5, 6], 6):
            with pytest.raises(UnknownTopicOrPartitionError, match="has the partitions 0 to 5"):
                await producer.send_many(name, [b"v", b"v"], partition=partition)
        table = pa.table({"value": [b"v", b"v"], "partition": [0, 7]})
        with pytest.raises(UnknownTopicOrPartitionError, match="has the partitions 0 to 5"):
            await producer.send_arrow(name, table)
        await producer.flush()
        assert not any(values(broker, name, number) for number in range(6))
        await (await producer.send_many(name, [b"v"] * 6, partition=range(6)))
        assert [values(broker, name, number) for number in range(6)] == [[b"v"]] * 6

    producing(check, partitions=6, settings={"num.partitions": "6"})


def test_of_many_a_partition_that_was_just_added_is_found() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"v")
        broker.topics.grow(broker.topics.by_name["t"], broker.place(2, 1))
        deliveries = await (await producer.send_many("t", [b"v"] * 3, partition=[0, 1, 2]))
        assert [each.offset for each in deliveries] == [1, 0, 0]

    producing(check)


def test_many_more_than_the_buffer_takes_go_through_it_and_none_runs_out_of_time_in_front_of_it() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.delay(ApiKey.PRODUCE, 1, times=None)
        sent = [b"%04d" % number + bytes(996) for number in range(1_000)]
        await (await producer.send_many("t", sent))
        assert values(broker) == sent
        assert producer.metrics().buffer_used == 0

    producing(check, buffer_memory=100_000, delivery_timeout_ms=5_000)


def test_where_room_is_there_for_the_first_only_the_rest_fails_and_says_so() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.delay(ApiKey.PRODUCE, 20, times=None)
        deliveries = await producer.send_many("t", [bytes(64)] * 1_000)
        with pytest.raises(BufferFullError):
            await deliveries
        assert list(deliveries.errors()) == list(range(500, 1_000))
        await producer.flush()
        assert len(values(broker)) == 501

    producing(check, buffer_memory=50_000, max_block_ms=1_000)


def test_what_is_wrong_with_one_is_said_before_any_is_sent() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for arguments, error in (
            ({"values": [b"v", "text"]}, TypeError),
            ({"values": [b"v"] * 2, "keys": [b"k"]}, ValueError),
            ({"values": [b"v"] * 2, "keys": np.array([b"k"], object)}, ValueError),
            ({"values": [b"v"] * 2, "keys": iter([b"k"])}, ValueError),
            ({"values": [b"v"] * 2, "headers": [()]}, ValueError),
            ({"values": [b"v"] * 2, "partition": np.array([0])}, ValueError),
            ({"values": [b"v"] * 2, "partition": [0]}, ValueError),
            ({"values": [b"v"] * 2, "partition": [0, -1]}, ValueError),
            ({"values": [b"v"] * 2, "partition": True}, ValueError),
            ({"values": [b"v"] * 2, "timestamp_ms": [1, -1]}, ValueError),
            ({"values": [b"v"] * 2, "timestamp_ms": -1}, ValueError),
            ({"values": [b"v"] * 2, "headers": [(), [("h", "text")]]}, TypeError),
            ({"values": [b"v", bytes(2_000_000)]}, RecordTooLargeError),
        ):
            with pytest.raises(error):
                await producer.send_many("t", **arguments)
        await producer.flush()
        assert values(broker) == []

    producing(check)


def test_columns_may_be_anything_that_has_one_for_each_record() -> None:
    found = columns(
        np.array([b"a", b"b"], object),
        iter([b"k", None]),
        partition=np.array([1, 0]),
        timestamp_ms=[np.int64(5), None],
    )
    assert found == ([b"k", None], [b"a", b"b"], [5, 99], None, [1, 0], None)
    assert [type(number) for number in (*found.given, *found.times)] == [int] * 4
    assert columns([b"a"], partition=np.int64(3), timestamp_ms=np.int64(4))[2:] == (4, None, [3], None)


def test_serializers_are_asked_about_columns_too() -> None:
    config = ProducerConfig(value_serializer=lambda v: str(v).encode(), key_serializer=lambda k: b"<%d>" % k)
    found = columns([1, "b"], [3, 4], config=config)
    assert (found.values, found.keys, found.times, found.headers) == (
        [b"1", b"b"],
        [b"<3>", b"<4>"],
        99,
        None,
    )
    assert columns([bytearray(b"x"), memoryview(b"y")]).values == [b"x", b"y"]


@pytest.mark.parametrize("seed", range(20))
def test_pieces_cover_everything_within_their_size(seed: int) -> None:
    random = Random(seed)
    sent = [random.randbytes(random.randrange(3_000)) for _ in range(random.randrange(1, 400))]
    headers = [{"h": b"x"} if random.random() < 0.5 else None for _ in sent]
    times = list(range(len(sent)))
    whole = columns(sent, timestamp_ms=times, headers=headers)
    pieces = list(pieces_of(whole, whole.sizes(), 10_000))
    assert [value for piece, _ in pieces for value in piece.values] == sent
    assert [time for piece, _ in pieces for time in piece.times] == times  # type: ignore[union-attr]
    assert all(size == sum(piece.sizes()) <= 10_000 for piece, size in pieces)


def test_closing_fails_what_of_many_was_not_delivered() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.drop(ApiKey.PRODUCE, handled=False, times=None)
        deliveries = await producer.send_many("t", [b"v"] * 10)
        with pytest.raises(KafkaError, match="10 records were not delivered"):
            await producer.close(timeout_ms=10)
        assert deliveries.done()
        assert len(deliveries.errors()) == 10

    producing(check)
