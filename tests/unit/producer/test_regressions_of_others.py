"""What releases of other clients have broken in producing, planted on the embedded broker in virtual time.

Each test names where it happened. Those of groups and reading are beside them, in `tests/unit/consumer`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.broker.api import APIS, RequestContext
from kclient.errors import (
    EncodeError,
    KafkaTimeoutError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
)
from kclient.producer import AsyncProducer
from kclient.producer.batch import Batch
from kclient.wire.api import ApiKey
from kclient.wire.message import Request, Response
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.versions import VersionRange
from tests.support.producing import producing, requests_to, values

PRODUCE = ApiKey.PRODUCE


def not_leader(request: ProduceRequest, leader: int, epoch: int, port: int) -> ProduceResponse:
    """A broker that says who leads."""
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    return ProduceResponse(
        responses=[
            topic(
                name=asked.name,
                topic_id=asked.topic_id,
                partition_responses=[
                    part(
                        index=each.index,
                        error_code=NotLeaderOrFollowerError.code,
                        base_offset=-1,
                        current_leader=part.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
                    )
                    for each in asked.partition_data
                ],
            )
            for asked in request.topic_data
        ],
        node_endpoints=[ProduceResponse.NodeEndpoint(node_id=leader, host="127.0.0.1", port=port)],
    )


@pytest.mark.parametrize("named", ["itself", "each other", "each other, ever newer"])
def test_leaders_that_are_named_in_vain_are_not_asked_without_a_pause(named: str) -> None:
    """franz-go#1413: a hint with the same leader and epoch gave 475 requests in five seconds."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        state = broker.topics.partition("t", 0)
        seen: list[float] = []
        loop = asyncio.get_running_loop()

        def hook(context: RequestContext, request: Request[Any]) -> Response | None:
            if not isinstance(request, ProduceRequest):
                return None
            seen.append(loop.time())
            own = context.node.node_id
            leader = own if named == "itself" else 3 - own
            epoch = state.leader_epoch + (len(seen) if named.endswith("newer") else 0)
            port = broker.nodes[leader].listeners["PLAINTEXT"].port
            return not_leader(request, leader, epoch, port)

        broker.faults.hook = hook
        sent = await producer.send("t", b"1")
        await asyncio.sleep(5)
        broker.faults.hook = None
        await sent
        assert values(broker) == [b"0", b"1"]
        # With a back-off from 100 ms up to a second it is a dozen; an epoch that grows is news each time.
        assert len(seen) < 100, len(seen)

    producing(check, nodes=2)


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_a_number_of_a_batch_whose_fate_is_unknown_is_not_used_again(how: str) -> None:
    """franz-go#1217: a time-out is not "not written"; the next batch with its number was taken for it."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.drop(PRODUCE, handled=True, times=None)  # written, and never answered
        first = await producer.send("t", b"1")
        if how == "cancelled":
            waiting = asyncio.ensure_future(first)
            await asyncio.sleep(0.5)
            waiting.cancel()
        else:
            with pytest.raises(KafkaTimeoutError):
                await first
        broker.faults.clear()
        for number in range(2, 6):
            await producer.send_and_wait("t", b"%d" % number)
        assert values(broker) == [b"%d" % number for number in range(6)]

    producing(check, delivery_timeout_ms=3_000, request_timeout_ms=1_000)


def test_a_batch_that_cannot_be_made_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """franz-go, 2026-07-02: one that failed while a request was made corrupted those beside it."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        requests = requests_to(broker)
        sent = [await producer.send("t", b"%d" % partition, partition=partition) for partition in range(3)]
        await producer.flush()
        assert [type(each.exception()) for each in sent] == [type(None), EncodeError, type(None)]
        assert [values(broker, partition=partition) for partition in range(3)] == [[b"0"], [], [b"2"]]
        # Partition 1 has lost no number over it.
        monkeypatch.setattr(Batch, "encode", encode)
        await producer.send_and_wait("t", b"again", partition=1)
        assert values(broker, partition=1) == [b"again"]
        assert len(requests[0].topic_data[0].partition_data) == 2

    encode = Batch.encode

    def failing(batch: Batch, *arguments: Any) -> None:
        if batch.parts[0].partition == 1:
            raise ValueError("no such thing")
        encode(batch, *arguments)

    monkeypatch.setattr(Batch, "encode", failing)
    producing(check, partitions=3, linger_ms=1_000)


@pytest.mark.parametrize("newest", [9, 8, 1])
def test_without_topic_ids_in_metadata_none_are_sent(newest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """franz-go#1312: Event Hubs knows new Produce and Fetch, but Metadata below 10, which has no ids."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        versions: list[int] = []

        def hook(context: RequestContext, request: Request[Any]) -> None:
            if isinstance(request, ProduceRequest):
                versions.append(context.version)
                assert request.topic_data[0].name == "t"

        broker.faults.hook = hook
        await producer.send_and_wait("t", b"v")
        assert values(broker) == [b"v"]
        assert versions == [12]

    known = APIS[ApiKey.METADATA]
    monkeypatch.setitem(APIS, ApiKey.METADATA, replace(known, versions=VersionRange(0, newest)))
    producing(check)


def test_a_partition_that_a_broker_behind_does_not_name_yet_keeps_its_records() -> None:
    """franz-go 1.21.4: stale metadata that lacked a partition just added failed what was meant for it."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0", partition=1)
        broker.faults.answer_with(PRODUCE, NotLeaderOrFollowerError, times=3)
        behind = broker.topics.topic("t")
        whole = behind.partitions
        sent = [await producer.send("t", b"%d" % number, partition=1) for number in range(1, 4)]
        behind.partitions = whole[:1]
        await asyncio.sleep(2)
        behind.partitions = whole
        assert [(await each).partition for each in sent] == [1, 1, 1]
        assert values(broker, partition=1) == [b"0", b"1", b"2", b"3"]

    producing(check, partitions=2)


@pytest.mark.parametrize("handled", [True, False])
def test_a_partition_that_lost_count_does_not_make_another_write_twice(handled: bool) -> None:
    """librdkafka#4953: a new epoch for one partition while another had batches in flight: duplicates."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        for partition in (0, 1):
            await producer.send_and_wait("t", b"0", partition=partition)
        met = 0

        def hook(_: RequestContext, request: Request[Any]) -> None:
            nonlocal met
            if isinstance(request, ProduceRequest) and met < 4:
                met += 1
                only = {each.index for topic in request.topic_data for each in topic.partition_data}
                if 0 in only:
                    broker.faults.answer_with(PRODUCE, OutOfOrderSequenceNumberError)
                else:
                    broker.faults.drop(PRODUCE, handled=handled)

        broker.faults.hook = hook
        for number in range(1, 30):
            for partition in (0, 1):
                await producer.send("t", b"%d" % number, partition=partition)
            await asyncio.sleep(0.01)
        await producer.flush()
        for partition in (0, 1):
            assert values(broker, partition=partition) == [b"%d" % number for number in range(30)]

    producing(check, partitions=2, nodes=2, request_timeout_ms=1_000)


def test_bytes_that_are_under_way_when_their_batch_expires_are_never_others() -> None:
    """KAFKA-19012: a buffer used again while it was being sent put records into the wrong topic."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.create_topic("u", 1)
        for topic in ("t", "u"):
            await producer.send_and_wait(topic, topic.encode() * 10)
        broker.faults.slow(PRODUCE, 5, times=3)
        sent = []
        for number in range(60):
            sent += [await producer.send(topic, topic.encode() * (1_000 + number)) for topic in ("t", "u")]
            await asyncio.sleep(0.2)
        await producer.flush()
        failed = [each for each in sent if each.exception() is not None]
        assert failed  # some have expired
        for topic in ("t", "u"):
            assert {bytes(set(value or b"")) for value in values(broker, topic)} == {topic.encode()}

    producing(check, delivery_timeout_ms=2_000, request_timeout_ms=1_000)


def test_a_partition_without_a_leader_still_counts_where_keys_are_hashed() -> None:
    """kafka_ex#594: the count of partitions shrank, and keys moved for as long as one had no leader."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        keys = [b"key %d" % number for number in range(60)]
        places = [(await producer.send_and_wait("t", b"v", key=key)).partition for key in keys]
        assert set(places) == {0, 1, 2}
        state = broker.topics.partition("t", 1)
        leader = state.leader
        state.lead_by(-1)
        await producer._open().cluster.metadata.refreshed(producer._max_block())
        sent = [await producer.send("t", b"v", key=key) for key in keys]
        await asyncio.sleep(5)
        assert {place for place, each in zip(places, sent, strict=True) if not each.done()} == {1}
        state.lead_by(leader)
        assert [(await each).partition for each in sent] == places

    producing(check, partitions=3)
