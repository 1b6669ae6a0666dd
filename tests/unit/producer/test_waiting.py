"""Linger, back-pressure and flush, in virtual time: who waits for what, and for how long."""

from __future__ import annotations

import asyncio

import pytest

from kclient.broker import Broker
from kclient.errors import BufferFullError, ClientClosedError, KafkaTimeoutError
from kclient.producer import AsyncProducer, Delivery
from kclient.wire.api import ApiKey
from tests.support.producing import producing, requests_to, values

PRODUCE = ApiKey.PRODUCE


def now() -> float:
    return asyncio.get_running_loop().time()


def test_records_linger_together_for_as_long_as_they_are_told() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        seen = requests_to(broker)
        began = now()
        first = await producer.send("t", b"1")
        await asyncio.sleep(3)
        await producer.send("t", b"2")
        assert not seen
        await first
        assert 5 <= now() - began < 5.1
        assert len(seen) == 1
        assert values(broker) == [b"1", b"2"]

    producing(check, linger_ms=5_000)


@pytest.mark.parametrize("batch_size", [1, 100, 16_384, 131_072, 250_000])
def test_a_full_batch_does_not_linger(batch_size: int) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        began = now()
        sent: list[Delivery] = []
        while len(sent) * 136 < batch_size:  # what a record of 100 bytes counts for
            sent.append(await producer.send("t", bytes(100)))
        await sent[0]
        await asyncio.gather(*(each for each in sent[:-1]))
        assert now() - began < 1
        # And one batch after the other: lingering is no rate limit.
        for _number in range(20 * len(sent)):
            last = await producer.send("t", bytes(100))
        await sent[-1]
        assert now() - began < 2
        await producer.flush()
        assert last.done()

    producing(check, linger_ms=60_000, batch_size=batch_size, max_request_size=1 << 20)


def test_flush_sends_what_lingers_at_once_for_any_number_of_tasks() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        began = now()
        sent = []

        async def work(number: int) -> None:
            delivery = await producer.send("t", b"%d" % number, partition=number % 8)
            sent.append(delivery)
            await producer.flush()
            assert delivery.done()

        await asyncio.gather(*(work(number) for number in range(100)))
        assert now() - began < 1
        assert len(sent) == 100
        await producer.flush()
        # When nobody flushes any more, records linger again.
        late = await producer.send("t", b"late")
        await asyncio.sleep(10)
        assert not late.done()

    producing(check, linger_ms=60_000, partitions=8)


def test_flush_says_how_much_is_left_when_its_time_is_over() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.delay(PRODUCE, 5)
        began = now()
        for _ in range(3):
            await producer.send("t", b"v")
        with pytest.raises(KafkaTimeoutError, match=r"3 records were not delivered \(3 of topic t\)"):
            await producer.flush(timeout_ms=1_000)
        assert now() - began < 1.1
        await producer.flush()
        assert values(broker)[1:] == [b"v"] * 3

    producing(check)


def test_flush_waits_for_failures_too_and_raises_none_of_them() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        delivery = await producer.send("t", b"v", partition=5)
        await producer.flush()
        assert delivery.exception() is not None

    producing(check)


def test_send_waits_for_room_and_send_nowait_says_that_there_is_none() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.delay(PRODUCE, 5)
        sent = [await producer.send("t", bytes(1000)) for _ in range(9)]
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", bytes(1000))
        assert producer.metrics().buffer_used <= 10_000
        began = now()
        waiting = [asyncio.create_task(producer.send("t", bytes(1000))) for _ in range(20)]
        last = [await task for task in waiting]
        assert 4 < now() - began < 6
        await asyncio.gather(*sent, *last)
        assert producer.metrics().buffer_used == 0
        assert len(values(broker)) == 30

    producing(check, buffer_memory=10_000)


def test_a_buffer_that_stays_full_is_an_error_after_max_block_and_leaves_no_claim() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        fault = broker.faults.drop(PRODUCE, handled=False, times=None)
        for _ in range(9):
            await producer.send("t", bytes(1000))
        began = now()
        for _ in range(3):
            with pytest.raises(BufferFullError, match="stayed full for 2 s"):
                await producer.send("t", bytes(1000))
        with pytest.raises(BufferFullError):
            await producer.send_many("t", [bytes(1000)] * 5)
        assert 8 <= now() - began < 8.1
        fault.remove()
        await producer.flush()
        assert producer.metrics().buffer_used == 0
        assert len(values(broker)) == 10

    producing(check, buffer_memory=10_000, max_block_ms=2_000, request_timeout_ms=20_000)


def test_whoever_waits_for_room_is_not_kept_waiting_by_linger() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        began = now()
        # Spread over partitions no batch is full, but the buffer is, again and again.
        for number in range(2_000):
            await producer.send("t", bytes(100), partition=number % 20)
        assert now() - began < 30
        await producer.flush()
        assert sum(len(values(broker, partition=number)) for number in range(20)) == 2_000

    producing(check, partitions=20, buffer_memory=20_000, batch_size=5_000, linger_ms=100_000)


def test_of_many_tasks_that_wait_for_room_each_has_its_turn() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        broker.faults.delay(PRODUCE, 1, times=None)
        turns: list[int] = []

        async def send(who: int) -> None:
            for _ in range(20):
                await producer.send("t", bytes(1_000))
                turns.append(who)

        await asyncio.gather(*map(send, range(20)))
        # The first one finds the buffer empty and fills it; from then on they take turns.
        assert set(turns[:60]) == set(range(20))

    producing(check, buffer_memory=10_000, batch_size=5_000, max_block_ms=600_000)


def test_a_step_that_one_topic_claimed_does_not_keep_another_from_sending() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.create_topic("u")
        await producer.partitions_for("u")
        await producer.partitions_for("t")
        broker.faults.drop(PRODUCE, handled=False, times=None)
        await producer.send("t", b"little, but a step is claimed")
        began = now()
        await producer.send("u", bytes(39_000))
        assert now() == began
        await asyncio.sleep(0.5)
        broker.faults.clear()

    producing(check, buffer_memory=40_000, request_timeout_ms=3_000, linger_ms=100)


def test_closing_ends_the_waiting_for_room() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.drop(PRODUCE, handled=False, times=None)
        await producer.send("t", bytes(9_000))
        waiting = asyncio.create_task(producer.send("t", bytes(9_000)))
        await asyncio.sleep(1)
        with pytest.raises(KafkaTimeoutError):
            await producer.close(timeout_ms=100)
        with pytest.raises(ClientClosedError):
            await waiting

    producing(check, buffer_memory=10_000)


def test_a_record_that_lingers_beside_a_younger_one_of_another_topic_fails_in_its_own_time() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.create_topic("u")
        await producer.partitions_for("t")
        await producer.partitions_for("u")
        broker.faults.drop(PRODUCE, handled=False, times=None)
        began = now()
        older = await producer.send("t", b"lingers")
        await asyncio.sleep(4)
        younger = await producer.send_many("u", [b"leaves at once, and takes the other one along"])
        with pytest.raises(KafkaTimeoutError):
            await older
        assert now() - began < 10.1
        with pytest.raises(KafkaTimeoutError):
            await younger
        assert 13.9 < now() - began < 14.1

    producing(check, linger_ms=5_000, delivery_timeout_ms=10_000)


@pytest.mark.parametrize("turns", range(4))
def test_a_close_that_is_cancelled_twice_fails_what_is_left_and_leaves_nothing(turns: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.nodes[1].stop()
        left = await producer.send("t", b"1")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(1)
        closing.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert isinstance(left.exception(), ClientClosedError)
        await asyncio.sleep(1)  # whatever goes on after that is a leftover

    producing(check)


def test_a_caller_that_never_waits_lets_the_loop_send() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        sent = [await producer.send("t", bytes(1000)) for _ in range(12_000)]
        # Nothing was awaited but `send`, and yet some of it has left.
        assert producer.metrics().requests > 0
        await producer.flush()
        assert [each.result().offset for each in sent] == list(range(12_000))

    producing(check)


def test_a_busy_partition_keeps_no_other_from_its_turn() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        for _ in range(200):
            producer.send_nowait("t", bytes(900), partition=0)
        others = [producer.send_nowait("t", bytes(900), partition=number) for number in range(1, 6)]
        seen = requests_to(broker)
        await asyncio.gather(*others)
        assert len(seen) < 20
        await producer.flush()
        assert len(seen) >= 100

    producing(check, partitions=6, batch_size=2_000, max_request_size=2_100)


def test_delivery_callbacks_may_send_again() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        def again(delivery: Delivery) -> None:
            offset = delivery.result().offset
            if offset < 50:
                producer.send_nowait("t", b"%d" % (offset + 1)).add_done_callback(again)

        (await producer.send("t", b"0")).add_done_callback(again)
        for _ in range(51):
            await producer.flush()
        assert values(broker) == [b"%d" % number for number in range(51)]

    producing(check)


def test_no_record_has_a_future_until_somebody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        await producer.partitions_for("t")
        loop = asyncio.get_running_loop()
        made: list[object] = []
        make = loop.create_future

        def counted() -> asyncio.Future[object]:
            made.append(None)
            return make()

        monkeypatch.setattr(loop, "create_future", counted)
        sent = [await producer.send("t", b"%d" % number) for number in range(5_000)]
        await producer.flush()
        assert all(each.done() for each in sent)
        assert len(made) < 100  # what one request and its answer need, however many records

    producing(check)
