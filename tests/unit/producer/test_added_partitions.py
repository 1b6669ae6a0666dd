"""Records for a partition that metadata does not name: it was added a moment ago, or does not exist."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.errors import ClientClosedError, KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.producer import AsyncProducer
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.metadata import MetadataRequest
from tests.support.producing import producing, values


def grow(broker: Broker, partitions: int) -> None:
    topic = broker.topics.by_name["t"]
    broker.topics.grow(topic, broker.place(partitions - len(topic.partitions), 1))


def questions_to(broker: Broker) -> list[MetadataRequest]:
    seen: list[MetadataRequest] = []

    def hook(_: RequestContext, request: Request[Any]) -> None:
        if isinstance(request, MetadataRequest):
            seen.append(request)

    broker.faults.hook = hook
    return seen


@pytest.mark.parametrize("count", [1, 2, 200])
def test_records_for_a_partition_that_was_just_added_are_written_in_order(count: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"before")
        grow(broker, 3)
        asked = questions_to(broker)
        sent = []
        for number in range(count):
            sent.append(producer.send_nowait("t", b"%d" % number, partition=2))
            sent.append(producer.send_nowait("t", b"%d" % number, partition=0))
            if number % 10 == 0:  # others come while it is being asked, and as the answer comes
                await asyncio.sleep(0)
        await asyncio.gather(*sent)
        assert values(broker, partition=2) == [b"%d" % number for number in range(count)]
        assert values(broker, partition=0) == [b"before", *(b"%d" % number for number in range(count))]
        assert len(asked) <= 2
        assert producer.metrics().buffer_used == 0

    producing(check)


def test_a_partition_that_is_not_there_fails_its_records_alone_and_after_one_question() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"before")
        asked = questions_to(broker)
        bad = [producer.send_nowait("t", b"bad", partition=number) for number in (9, 7, 9)]
        good = producer.send_nowait("t", b"good", partition=0)
        await good
        assert not any(each.done() for each in bad)
        outcomes = await asyncio.gather(*bad, return_exceptions=True)
        assert [type(each) for each in outcomes] == [UnknownTopicOrPartitionError] * 3
        assert "partition 7" in str(outcomes[1])
        assert "topic t has the partitions 0 to 0" in str(outcomes[1])
        assert len(asked) == 1
        assert producer.metrics().errors == 3
        # Then it comes into being.
        grow(broker, 10)
        assert (await producer.send_nowait("t", b"now", partition=9)).partition == 9

    producing(check)


def test_a_partition_is_sought_for_no_longer_than_a_delivery_may_take() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"before")
        broker.faults.drop(ApiKey.METADATA, times=1_000)
        sent = producer.send_nowait("t", b"bad", partition=9)
        with pytest.raises(KafkaTimeoutError, match=r"topic t, partition 9 .* within 3 s \(delivery_timeout"):
            await sent

    producing(check, delivery_timeout_ms=3_000, request_timeout_ms=1_000)


def test_what_waits_for_a_partition_fails_when_the_producer_is_closed() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"before")
        broker.faults.drop(ApiKey.METADATA, times=1_000)
        sent = producer.send_nowait("t", b"bad", partition=9)
        with pytest.raises(KafkaTimeoutError, match="1 records were not delivered"):
            await producer.close(timeout_ms=100)
        assert isinstance(sent.exception(), ClientClosedError)
        left = {task.get_name() for task in asyncio.all_tasks()}
        assert not [name for name in left if name.startswith("kclient partitions")]

    producing(check)
