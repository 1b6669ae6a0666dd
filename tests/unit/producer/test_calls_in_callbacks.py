"""What callbacks and hooks may call: to send elsewhere, dead letters for example, and to ask how it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kclient.broker import Broker
from kclient.errors import ClientClosedError, KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.producer import AsyncProducer, Delivery, Producer, ProducerRecord
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey
from tests.support.producing import producing, values
from tests.support.threads import wait_for_no_threads

on_both_loops = pytest.mark.uvloop


class DeadLetters:
    """Sends what failed to another topic, and, for ever, what has arrived there once more."""

    def __init__(self, *, for_ever: bool = False) -> None:
        self.for_ever = for_ever
        self.send: Callable[[str, Any], Delivery]
        self.refused: list[str] = []

    def on_send(self, _: ProducerRecord) -> None:
        """Every record goes as it is."""

    def on_delivery(self, record: ProducerRecord, _: object, error: BaseException | None) -> None:
        if error is not None if record.topic == "t" else error is None and self.for_ever:
            try:
                self.send("dead", record.value)
            except ClientClosedError:
                self.refused.append(record.topic)


class Listening:
    """Keeps the topics of which it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_send(self, _: ProducerRecord) -> None:
        """Every record goes as it is."""

    def on_delivery(self, record: ProducerRecord, *_: object) -> None:
        self.told.append(record.topic)


def in_callback(running: RunningBroker, use: Callable[[Producer], Any]) -> Any:
    """What comes of using a producer in a callback, on its own thread."""
    told: list[Any] = []
    # It lingers until the flush: a callback of a record that is delivered already runs where it is given.
    with Producer(bootstrap_servers=running.bootstrap_servers, linger_ms=60_000) as producer:
        producer.send("t", b"v").add_done_callback(lambda _: told.append(use(producer)))
        producer.flush()
    wait_for_no_threads()
    (outcome,) = told
    return outcome


@on_both_loops
@pytest.mark.parametrize(
    "use",
    [
        lambda producer: producer.send("dead", b"v"),
        lambda producer: producer.send("dead", b"v", partition=0, headers={"a": b"1"}),
        lambda producer: producer.send_nowait("dead", b"v"),
        lambda producer: producer.send_many("dead", [b"v"]),
        lambda producer: producer.send_many("dead", [b"v"], partition=[0]),
    ],
    ids=["send", "send with more", "send_nowait", "send_many", "send_many with more"],
)
def test_a_callback_sends_to_a_topic_of_which_nothing_is_known_yet(
    kafka_broker: RunningBroker, use: Callable[[Producer], Any]
) -> None:
    outcome = in_callback(kafka_broker, use)
    assert (outcome.result() if isinstance(outcome, Delivery) else outcome[0]).offset == 0
    assert values(kafka_broker.broker, "dead") == [b"v"]


@on_both_loops
def test_a_callback_that_sends_to_no_partition_hears_of_it(kafka_broker: RunningBroker) -> None:
    delivery = in_callback(kafka_broker, lambda producer: producer.send("t", b"v", partition=99))
    assert isinstance(delivery.exception(), UnknownTopicOrPartitionError)

    def send_many(producer: Producer) -> None:
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 0"):
            producer.send_many("t", [b"v"] * 2, partition=[0, 99])

    in_callback(kafka_broker, send_many)
    assert values(kafka_broker.broker) == [b"v", b"v"]


@on_both_loops
def test_a_callback_asks_for_health_and_metrics(kafka_broker: RunningBroker) -> None:
    health, metrics = in_callback(kafka_broker, lambda producer: (producer.health(), producer.metrics()))
    assert health.connected
    assert (metrics.records, metrics.errors) == (0, 0)


def test_dead_letters_of_records_that_fail_while_the_producer_closes_are_written() -> None:
    hook = DeadLetters(for_ever=True)

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        hook.send = producer.send_nowait
        await producer.send("t", b"bad", partition=99)
        await producer.send("t", b"bad too", partition=99)
        await producer.close()
        assert values(broker, "dead") == [b"bad", b"bad too"]
        # Those of the dead letters themselves are too late: it would never end.
        assert hook.refused == ["dead"] * 2
        with pytest.raises(ClientClosedError, match="after it had been closed"):
            producer.send_nowait("t", b"v")

    producing(check, hooks=[hook], linger_ms=60_000)


@on_both_loops
def test_dead_letters_are_written_where_a_blocking_producer_closes_too(kafka_broker: RunningBroker) -> None:
    hook = DeadLetters()
    options: dict[str, Any] = {"linger_ms": 60_000, "hooks": [hook]}
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, **options) as producer:
        hook.send = producer.send
        producer.send("t", b"good")
        bad = producer.send("t", b"bad", partition=99)
    assert isinstance(bad.exception(), UnknownTopicOrPartitionError)
    assert values(kafka_broker.broker) == [b"good"]
    assert values(kafka_broker.broker, "dead") == [b"bad"]
    assert not hook.refused
    wait_for_no_threads()


def test_a_hook_that_sends_again_whatever_fails_does_not_go_round_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[tuple[str, bool]] = []
    sends: list[Callable[[str, Any], Delivery]] = []

    class Stubborn:
        def on_send(self, _: ProducerRecord) -> None:
            """Every record goes as it is."""

        def on_delivery(self, record: ProducerRecord, _: object, error: BaseException | None) -> None:
            heard.append((record.topic, error is None))
            if error is not None:
                sends[0]("dead", record.value)

    other = Listening()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        sends.append(producer.send_nowait)
        broker.faults.delay(ApiKey.PRODUCE, 20, times=None)
        await producer.send("t", b"v")
        with pytest.raises(KafkaTimeoutError):
            await producer.close(timeout_ms=100)
        assert heard == [("t", False)]
        assert other.told == ["dead", "t"]

    producing(check, hooks=[Stubborn(), other])
    (record,) = caplog.records
    assert "Stubborn.on_delivery failed: ClientClosedError" in record.getMessage()


def test_what_a_callback_sends_when_records_are_given_up_is_refused() -> None:
    hook = DeadLetters()

    async def check(broker: Broker, producer: AsyncProducer) -> None:
        hook.send = producer.send_nowait
        broker.faults.delay(ApiKey.PRODUCE, 20, times=None)
        await producer.send("t", b"v")
        with pytest.raises(KafkaTimeoutError, match="1 records were not delivered"):
            await producer.close(timeout_ms=100)
        assert hook.refused == ["t"]

    producing(check, hooks=[hook])
