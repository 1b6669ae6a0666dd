"""Records to which no broker answers (acks=0): what `flush` and `close` wait for."""

from __future__ import annotations

import pytest

from kclient.errors import KafkaTimeoutError
from kclient.producer import Delivery, Producer
from kclient.testing import RunningBroker
from tests.support.producing import values
from tests.support.threads import busy, wait_for_no_threads
from tools.kafka.waiting import poll

pytestmark = pytest.mark.uvloop

SIZE = 400_000


def unwritten(producer: Producer) -> int:
    """Bytes that the system has not taken."""
    (sender,) = producer._core.dispatcher._routing.senders.values()
    assert sender._connection is not None
    assert sender._connection._transport is not None
    return sender._connection._transport.get_write_buffer_size()


def filled(producer: Producer) -> list[Delivery]:
    """Records until the system takes no more of them; all count as delivered."""
    sent: list[Delivery] = []
    while not sent or not unwritten(producer):
        sent.append(producer.send("t", bytes(SIZE)))
        sent[-1].result(timeout=30)
    return sent


def test_flush_and_close_wait_until_all_of_them_are_written(kafka_broker: RunningBroker) -> None:
    producer = Producer(bootstrap_servers=kafka_broker.bootstrap_servers, acks=0, enable_idempotence=False)
    producer.send("t", b"first")
    producer.flush()
    with busy(kafka_broker._thread):  # the broker reads nothing
        sent = filled(producer)
        with pytest.raises(KafkaTimeoutError, match="acks=0, records that the network had not taken"):
            producer.flush(timeout_ms=100)
    producer.close()
    poll(
        lambda: len(values(kafka_broker.broker)) == 1 + len(sent),
        timeout=30,
        failure=lambda: f"{len(values(kafka_broker.broker))} of {1 + len(sent)} came",
    )
    wait_for_no_threads()


def test_a_close_that_has_no_time_for_them_says_so(kafka_broker: RunningBroker) -> None:
    producer = Producer(bootstrap_servers=kafka_broker.bootstrap_servers, acks=0, enable_idempotence=False)
    producer.send("t", b"first")
    producer.flush()
    with busy(kafka_broker._thread):  # the broker reads nothing
        filled(producer)
        with pytest.raises(KafkaTimeoutError, match=r"acks=0, records .* were given up"):
            producer.close(timeout_ms=100)
    wait_for_no_threads()
