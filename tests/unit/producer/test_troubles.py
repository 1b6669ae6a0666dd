"""A producer and a cluster in trouble, in virtual time: each has its retry or its typed error, in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.broker.api import RequestContext
from kclient.errors import (
    BrokerError,
    ClientClosedError,
    ClusterAuthorizationFailedError,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaStorageError,
    KafkaTimeoutError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownProducerIdError,
    UnknownTopicOrPartitionError,
)
from kclient.producer import AsyncProducer, Delivery
from kclient.testing import Simulation, simulate
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.versions import VersionRange
from tests.support.producing import producing, requests_to, values

PRODUCE = ApiKey.PRODUCE
Plan = Callable[[Broker], object]


async def burst(producer: AsyncProducer, count: int = 40) -> list[Delivery]:
    """Records in many batches, several of them in flight at a time."""
    sent = []
    for number in range(count):
        sent.append(await producer.send("t", b"%03d" % number))
        await asyncio.sleep(0.001)
    return sent


def numbers(count: int = 40) -> list[bytes | None]:
    return [b"%03d" % number for number in range(count)]


PASSING: list[Plan] = [
    lambda broker: broker.faults.answer_with(PRODUCE, NotLeaderOrFollowerError, times=3),
    lambda broker: broker.faults.answer_with(PRODUCE, KafkaStorageError, times=3),
    lambda broker: broker.faults.answer_with(PRODUCE, NotEnoughReplicasError, times=3),
    lambda broker: broker.faults.answer_with(PRODUCE, RequestTimedOutError, times=7),
    lambda broker: broker.faults.answer_with(PRODUCE, OutOfOrderSequenceNumberError, times=1),
    lambda broker: broker.faults.answer_with(PRODUCE, OutOfOrderSequenceNumberError, times=4),
    lambda broker: broker.faults.answer_with(PRODUCE, UnknownProducerIdError, times=1),
    lambda broker: broker.faults.answer_with(PRODUCE, InvalidProducerEpochError, times=2),
    lambda broker: broker.faults.answer_with(ApiKey.INIT_PRODUCER_ID, KafkaStorageError, times=3),
    lambda broker: broker.faults.close(PRODUCE, times=3),
    lambda broker: broker.faults.close(PRODUCE, handled=True, times=3),
    lambda broker: broker.faults.drop(PRODUCE, times=2),
    lambda broker: broker.faults.drop(PRODUCE, handled=False, times=2),
    lambda broker: broker.faults.half_open(PRODUCE, times=2),
    lambda broker: broker.faults.throttle(PRODUCE, 700, times=3),
    lambda broker: broker.faults.delay(PRODUCE, 3.0, times=5),
    lambda broker: broker.faults.slow(PRODUCE, 20, times=2),
    lambda broker: broker.faults.close(ApiKey.METADATA, times=3),
]


@pytest.mark.parametrize("number", range(len(PASSING)))
def test_after_a_trouble_that_passes_everything_is_there_once_and_in_order(number: int) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        # Only a producer that it knows does a broker hold to the order of its numbers.
        await producer.send_and_wait("t", b"first")
        PASSING[number](broker)
        sent = await burst(producer)
        await producer.flush()
        assert [each.exception() for each in sent] == [None] * len(sent)
        assert values(broker) == [b"first", *numbers()]
        assert producer.metrics().buffer_used == producer.metrics().in_flight == 0

    producing(check, request_timeout_ms=5_000)


LASTING: list[Plan] = [
    *(
        lambda broker, error=error: broker.faults.answer_with(PRODUCE, error, times=None)
        for error in (
            NotLeaderOrFollowerError,
            KafkaStorageError,
            OutOfOrderSequenceNumberError,
            UnknownProducerIdError,
            InvalidProducerEpochError,
        )
    ),
    lambda broker: broker.faults.answer_with(ApiKey.INIT_PRODUCER_ID, KafkaStorageError, times=None),
    lambda broker: broker.faults.answer_with(ApiKey.METADATA, KafkaStorageError, times=None),
    lambda broker: broker.faults.close(PRODUCE, times=None),
    lambda broker: broker.faults.close(PRODUCE, handled=True, times=None),
    lambda broker: broker.faults.drop(PRODUCE, times=None),
    lambda broker: broker.faults.drop(times=None),
    lambda broker: broker.faults.half_open(times=None),
    lambda broker: broker.faults.delay(PRODUCE, 60, times=None),
    lambda broker: broker.faults.throttle(PRODUCE, 60_000, times=None),
    lambda broker: broker.nodes[1].stop(),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("number", range(len(LASTING)))
def test_by_the_delivery_timeout_every_record_has_succeeded_or_failed(number: int, known: bool) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        loop = asyncio.get_running_loop()
        if known:
            await producer.send_and_wait("t", b"first")
        LASTING[number](broker)
        late = []
        for _ in range(20):
            due = loop.time() + 10
            delivery = producer.send_nowait("t", b"v")
            delivery.add_done_callback(lambda _, due=due: late.append(loop.time() - due))  # type: ignore[misc]
            await asyncio.sleep(0.3)
        await asyncio.sleep(10)
        assert len(late) == 20
        # A chunk's time is its first record's, and this is virtual time: not a measurement.
        assert max(late) <= 0.001
        assert producer.metrics().buffer_used == 0
        broker.faults.clear()
        if not broker.nodes[1].running:
            await broker.start_node(1)
        await producer.flush(60_000)

    producing(check, delivery_timeout_ms=10_000, request_timeout_ms=4_000)


def test_the_error_says_why_records_were_not_delivered_in_time() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        broker.faults.answer_with(PRODUCE, NotEnoughReplicasError, times=None)
        with pytest.raises(
            KafkaTimeoutError, match=r"within 5 s \(delivery_timeout_ms\).*NOT_ENOUGH"
        ) as info:
            await producer.send_and_wait("t", b"v")
        assert isinstance(info.value.__cause__, NotEnoughReplicasError)
        assert producer.metrics().errors == 1

    producing(check, delivery_timeout_ms=5_000)


@pytest.mark.parametrize(
    "error", [TopicAuthorizationFailedError, ClusterAuthorizationFailedError, MessageTooLargeError]
)
def test_what_cannot_pass_fails_at_once_and_others_go_on(error: type[BrokerError]) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"first")
        broker.faults.answer_with(PRODUCE, error)
        with pytest.raises(error):
            await producer.send_and_wait("t", b"lost")
        for number in range(3):
            await producer.send_and_wait("t", b"%d" % number)
        assert values(broker) == [b"first", b"0", b"1", b"2"]

    producing(check)


def test_without_the_right_to_an_id_records_fail_with_that_reason_until_it_is_granted() -> None:
    async def check(broker: Broker, _: AsyncProducer) -> None:
        fault = broker.faults.answer_with(
            ApiKey.INIT_PRODUCER_ID, ClusterAuthorizationFailedError, times=None
        )
        other = AsyncProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")
        for _number in range(3):
            with pytest.raises(ClusterAuthorizationFailedError):
                await other.send_and_wait("t", b"v", timestamp_ms=1)
        fault.remove()
        await other.send_and_wait("t", b"v", timestamp_ms=1)
        await other.close()

    producing(check)


def test_a_right_to_a_topic_that_is_granted_later_is_noticed() -> None:
    def forbid(_: RequestContext, request: Request[Any]) -> Any:
        if request.api_key != ApiKey.METADATA or not request.topics:  # type: ignore[attr-defined]
            return None
        from kclient.wire.messages.metadata import MetadataResponse  # noqa: PLC0415

        topic = MetadataResponse.MetadataResponseTopic(
            error_code=TopicAuthorizationFailedError.code, name="secret", partitions=[]
        )
        node = MetadataResponse.MetadataResponseBroker(node_id=1, host=host, port=int(port))
        return MetadataResponse(brokers=[node], topics=[topic])

    host = port = ""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        nonlocal host, port
        host, port = broker.bootstrap_servers.split(":")
        broker.create_topic("secret")
        broker.faults.hook = forbid
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send("secret", b"v")
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_nowait("secret", b"v")
        await asyncio.sleep(1)
        broker.faults.hook = None
        # Who cannot wait is refused once more, and has asked by that.
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_nowait("secret", b"v")
        await asyncio.sleep(1)
        await producer.send_nowait("secret", b"1")
        await producer.send_and_wait("secret", b"2")
        assert values(broker, "secret") == [b"1", b"2"]

    producing(check)


def test_a_batch_that_is_too_large_for_the_topic_is_split_until_it_fits() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        sent = [producer.send_nowait("t", b"%03d" % number + bytes(100)) for number in range(200)]
        giant = producer.send_nowait("t", bytes(3000))
        last = producer.send_nowait("t", b"last")
        await producer.flush()
        assert [each.result().offset for each in sent] == list(range(200))
        with pytest.raises(
            MessageTooLargeError, match=r"topic t, partition 0, a record of 3,070 bytes .*max.message"
        ):
            giant.result()
        assert last.result().offset == 200
        assert [value[:3] for value in values(broker) if value] == [b"%03d" % n for n in range(200)] + [
            b"las"
        ]
        assert producer.metrics().buffer_used == 0

    producing(check, topic={"max.message.bytes": "1000"})


def test_of_an_invalid_record_the_reason_is_told_and_of_the_others_that_they_were_with_it() -> None:
    async def check(_: Broker, producer: AsyncProducer) -> None:
        sent = [producer.send_nowait("t", b"v", key=b"k" if number != 1 else None) for number in range(3)]
        await producer.flush()
        errors = [each.exception() for each in sent]
        assert all(isinstance(error, InvalidRecordError) for error in errors)
        assert isinstance(errors[1], InvalidRecordError)
        assert "key" in str(errors[1].message)
        assert str(errors[0]) != str(errors[1])
        await producer.send_and_wait("t", b"v", key=b"k")

    producing(check, topic={"cleanup.policy": "compact"})


def test_records_follow_the_leader_without_waiting_where_the_old_one_names_it() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        loop = asyncio.get_running_loop()
        await producer.send_and_wait("t", b"0")
        leader = broker.topics.partition("t", 0).leader
        broker.move_leader("t", 0, leader % 3 + 1)
        asked = []
        broker.faults.hook = lambda _, request: asked.append(request.api_key)
        broker.faults.delay(ApiKey.METADATA, 5, times=None)
        began = loop.time()
        await producer.send_and_wait("t", b"1")
        # Virtual time: no back-off, and no metadata, was waited for.
        assert loop.time() - began < 0.1
        assert asked.count(PRODUCE) == 2
        assert values(broker) == [b"0", b"1"]

    producing(check, nodes=3, retry_backoff_ms=1_000)


def test_nodes_that_come_and_go_and_leaders_that_move_disturb_nothing() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        async def stir() -> None:
            for number in range(1, 4):
                await broker.stop_node(number)
                await asyncio.sleep(0.3)
                await broker.start_node(number)
                broker.move_leader("t", 0, number)
                await asyncio.sleep(0.3)

        stirring = asyncio.create_task(stir())
        sent = await burst(producer, 1500)
        await stirring
        await producer.flush()
        assert [each.exception() for each in sent] == [None] * 1500
        assert values(broker) == [b"%03d" % number for number in range(1500)]

    producing(check, nodes=3)


def test_a_topic_without_a_leader_is_waited_for() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.topics.partition("t", 0).lead_by(-1)
        sent = await producer.send("t", b"1")
        await asyncio.sleep(5)
        assert not sent.done()
        broker.topics.partition("t", 0).lead_by(2)
        await sent
        broker.topics.partition("t", 0).lead_by(-1)
        with pytest.raises(KafkaTimeoutError, match="not delivered within 20 s"):
            await producer.send_and_wait("t", b"2")

    producing(check, nodes=2, delivery_timeout_ms=20_000)


def test_records_that_wait_longer_than_metadata_is_kept_are_delivered_all_the_same() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.move_leader("t", 0, 1)
        await producer.send_and_wait("t", b"0")
        broker.nodes[1].stop()  # and for a while nobody notices
        sent = await producer.send("t", b"1")
        await asyncio.sleep(20)
        await broker.stop_node(1)
        await sent
        assert values(broker) == [b"0", b"1"]

    producing(check, nodes=2, metadata_max_age_ms=1_000)


@pytest.mark.parametrize("creates", ["true", "false"])
def test_a_topic_that_is_deleted_while_records_are_sent(creates: str) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.topics.delete(broker.topics.by_name["t"])
        sent = await producer.send("t", b"1")
        if creates == "true":
            await sent
            assert values(broker) == [b"1"]
        else:
            with pytest.raises(KafkaTimeoutError, match="UNKNOWN_TOPIC"):
                await sent
            broker.create_topic("t")
            await producer.send_and_wait("t", b"2")
            assert values(broker) == [b"2"]

    producing(check, settings={"auto.create.topics.enable": creates}, delivery_timeout_ms=10_000)


@pytest.mark.parametrize("with_ids", [True, False])
def test_records_for_a_topic_that_was_made_anew_keep_their_order(with_ids: bool) -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        if not with_ids:
            versions = producer._open().cluster
            connection = await versions.connection(1, versions.deadline(None))
            connection.versions[PRODUCE] = VersionRange(3, 12)
        await producer.send_and_wait("t", b"before")
        topic = broker.topics.by_name["t"]
        broker.topics.delete(topic)
        sent = [await producer.send("t", b"%03d" % number + bytes(100)) for number in range(200)]
        await asyncio.sleep(1)
        # The first batch that comes to the new log is refused, and the second is on its way by then.
        broker.faults.answer_with(PRODUCE, NotEnoughReplicasError, times=1)
        broker.create_topic("t")
        await producer.flush()
        assert [each.exception() for each in sent] == [None] * 200
        assert [value[:3] for value in values(broker) if value] == [b"%03d" % n for n in range(200)]

    producing(check, settings={"auto.create.topics.enable": "false"}, batch_size=1_000)


@pytest.mark.parametrize("lost", [TopicAuthorizationFailedError, UnknownTopicOrPartitionError])
def test_records_without_a_leader_wait_as_long_as_they_may_and_then_say_why(lost: type[BrokerError]) -> None:
    """What is refused or gone may be granted or made again: as Java does."""

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.topics.partition("t", 0).lead_by(-1)
        sent = await producer.send("t", b"1")
        await asyncio.sleep(2)
        broker.faults.answer_with(ApiKey.METADATA, lost, times=None)
        await asyncio.sleep(6)
        assert not sent.done()
        with pytest.raises(KafkaTimeoutError, match="delivery_timeout_ms") as late:
            await sent
        assert isinstance(late.value.__cause__, lost)

    producing(check, delivery_timeout_ms=10_000)


def test_an_unknown_topic_is_waited_for_up_to_max_block_and_may_come_into_being() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        with pytest.raises(KafkaTimeoutError, match=r"max_block_ms.*UNKNOWN_TOPIC"):
            await producer.send("later", b"v")
        with pytest.raises(KafkaTimeoutError):
            await producer.partitions_for("later")
        waiting = asyncio.create_task(producer.send_and_wait("later", b"1"))
        at_once = producer.send_nowait("later", b"0")
        await asyncio.sleep(1)
        broker.create_topic("later")
        await asyncio.gather(waiting, at_once)
        assert sorted(map(str, values(broker, "later"))) == ["b'0'", "b'1'"]
        never = producer.send_nowait("never", b"0")
        with pytest.raises(KafkaTimeoutError, match="UNKNOWN_TOPIC"):
            await never

    producing(
        check, settings={"auto.create.topics.enable": "false"}, max_block_ms=3_000, delivery_timeout_ms=9_000
    )


def test_with_retries_0_nothing_is_sent_twice() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        broker.faults.answer_with(PRODUCE, KafkaStorageError)
        seen = requests_to(broker)
        with pytest.raises(KafkaStorageError):
            await producer.send_and_wait("t", b"v")
        assert len(seen) == 1

    producing(check, retries=0)


Close = Callable[[Broker], Awaitable[None] | None]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "plan",
    [
        lambda broker: broker.nodes[1].stop(),
        lambda broker: broker.faults.drop(times=None),
        lambda broker: broker.faults.half_open(times=None),
        lambda broker: broker.faults.answer_with(PRODUCE, KafkaStorageError, times=None),
        lambda broker: broker.faults.close(times=None),
    ],
)
def test_close_ends_in_its_time_and_says_what_was_not_delivered(plan: Plan, known: bool) -> None:
    async def main(sim: Simulation) -> None:
        async with Broker(clock=sim.clock) as broker:
            broker.create_topic("t")
            producer = AsyncProducer(bootstrap_servers=broker.bootstrap_servers, clock=sim.clock)
            if known:
                await producer.send_and_wait("t", b"first")
            plan(broker)
            sent = [producer.send_nowait("t", b"v") for _ in range(3)]
            await asyncio.sleep(1)
            sent.append(producer.send_nowait("t", b"v"))
            waiting = asyncio.create_task(producer.send("unknown", b"v"))
            await asyncio.sleep(0)
            began = sim.loop.time()
            with pytest.raises(KafkaTimeoutError, match=r"4 records were not delivered \(4 of topic t\)"):
                await producer.close(timeout_ms=2_000)
            assert sim.loop.time() - began <= 2.1
            for each in sent:
                with pytest.raises(ClientClosedError):
                    await each
            with pytest.raises(ClientClosedError):
                await waiting

    simulate(main)


def test_an_answer_that_leaves_a_partition_out_is_a_reason_to_ask_again() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        def silent(_: RequestContext, request: Request[Any]) -> ProduceResponse | None:
            broker.faults.hook = None if isinstance(request, ProduceRequest) else silent
            return ProduceResponse(responses=[]) if isinstance(request, ProduceRequest) else None

        broker.faults.hook = silent
        await producer.send_and_wait("t", b"v")
        assert values(broker) == [b"v"]
        assert producer.metrics().retries == 1

    producing(check)


def test_an_answer_that_comes_after_its_record_was_given_up_changes_nothing() -> None:
    async def check(broker: Broker, producer: AsyncProducer) -> None:
        await producer.send_and_wait("t", b"0")
        broker.faults.delay(PRODUCE, 5)
        late = await producer.send("t", b"late")
        with pytest.raises(KafkaTimeoutError):
            await late
        await asyncio.sleep(5)
        assert isinstance(late.exception(), KafkaTimeoutError)
        assert producer.metrics().buffer_used == producer.metrics().in_flight == 0
        await producer.send_and_wait("t", b"1")
        assert values(broker) == [b"0", b"late", b"1"]

    producing(check, delivery_timeout_ms=2_000)
