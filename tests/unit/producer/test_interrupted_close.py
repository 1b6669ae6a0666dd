"""A `close` that a signal handler ends by raising: closing goes on, and nothing is left behind.

These tests send real signals to the thread of pytest.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from kclient.admin import Admin
from kclient.consumer import Consumer
from kclient.errors import ClientClosedError, KafkaTimeoutError
from kclient.producer import Delivery, Producer
from kclient.testing import RunningBroker
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from tests.support.threads import busy, wait_for_no_threads
from tools.kafka.waiting import poll

pytestmark = [
    pytest.mark.uvloop,
    pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread"),
]

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted_when(condition: Callable[[], bool], number: int = signal.SIGINT) -> Iterator[None]:
    """Send this thread a signal as soon as the condition holds."""
    main = threading.get_ident()

    def interrupt() -> None:
        poll(condition, timeout=PATIENCE, failure=lambda: "there is nothing to interrupt")
        signal.pthread_kill(main, number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    thread.join()


@contextmanager
def holding(running: RunningBroker, kind: ApiKey) -> Iterator[None]:
    """Requests of a kind are not answered meanwhile."""
    answering = asyncio.Event()

    async def hold(_: object, request: Request[Any]) -> None:
        if request.api_key == kind:
            await answering.wait()

    async def answer() -> None:
        answering.set()

    running.broker.faults.hook = hold
    try:
        yield
    finally:
        running.call(answer())


def open_producer(running: RunningBroker, **options: Any) -> Producer:
    producer = Producer(bootstrap_servers=running.bootstrap_servers, **options)
    producer.send("t", b"0")
    producer.flush()
    return producer


def closes(producer: Producer) -> bool:
    """Whether a call of `close` waits for deliveries."""
    return producer._core.dispatcher._flushing > 0


def test_one_that_ends_before_the_loop_has_seen_it_delivers_what_is_there(
    kafka_broker: RunningBroker,
) -> None:
    producer = open_producer(kafka_broker, linger_ms=60_000)
    told: list[Delivery] = []
    with busy(producer._thread):
        delivery = producer.send("t", b"1")
        delivery.add_done_callback(told.append)
        with interrupted_when(lambda: bool(producer._thread._calls)), pytest.raises(KeyboardInterrupt):
            producer.close()
    assert delivery.result(timeout=PATIENCE).offset == 1
    wait_for_no_threads()
    assert told == [delivery]
    producer.close()


def test_one_that_is_called_again_waits_for_what_is_there(kafka_broker: RunningBroker) -> None:
    producer = open_producer(kafka_broker)
    with holding(kafka_broker, ApiKey.PRODUCE):
        delivery = producer.send("t", b"1")
        with interrupted_when(lambda: closes(producer)), pytest.raises(KeyboardInterrupt):
            producer.close()
        assert not delivery.done()
    producer.close()
    assert delivery.result().offset == 1
    wait_for_no_threads()


def test_one_that_nobody_calls_again_gives_up_at_the_end_of_its_time(kafka_broker: RunningBroker) -> None:
    producer = open_producer(kafka_broker)
    with holding(kafka_broker, ApiKey.PRODUCE):
        delivery = producer.send("t", b"1")
        with interrupted_when(lambda: closes(producer)), pytest.raises(KeyboardInterrupt):
            producer.close(timeout_ms=1_000)
        assert not delivery.done()
        with pytest.raises(ClientClosedError):
            delivery.result(timeout=PATIENCE)
        wait_for_no_threads()


def test_the_next_call_gives_up_at_the_end_of_its_own_time(kafka_broker: RunningBroker) -> None:
    producer = open_producer(kafka_broker)
    with holding(kafka_broker, ApiKey.PRODUCE):
        delivery = producer.send("t", b"1")
        with interrupted_when(lambda: closes(producer)), pytest.raises(KeyboardInterrupt):
            producer.close(timeout_ms=600_000)
        with pytest.raises(KafkaTimeoutError, match="were given up"):
            producer.close(timeout_ms=1)
        assert isinstance(delivery.exception(), ClientClosedError)
    wait_for_no_threads()


def test_a_loop_that_comes_too_late_for_its_time_still_settles_everything(
    kafka_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.producer.blocking._GRACE", 0.0)
    producer = open_producer(kafka_broker, linger_ms=60_000)
    with holding(kafka_broker, ApiKey.PRODUCE):
        with busy(producer._thread):
            delivery = producer.send("t", b"1")
            with pytest.raises(KafkaTimeoutError, match="did not come to an end"):
                producer.close(timeout_ms=1)
        with pytest.raises(ClientClosedError):
            delivery.result(timeout=PATIENCE)
        wait_for_no_threads()


def test_a_handler_that_closes_with_less_time_takes_nothing_from_the_call_it_interrupts(
    kafka_broker: RunningBroker,
) -> None:
    producer = open_producer(kafka_broker)
    hasty: list[str] = []
    held = holding(kafka_broker, ApiKey.PRODUCE)

    def handle(_: int, __: FrameType | None) -> None:
        try:
            producer.close(timeout_ms=1)
        except KafkaTimeoutError as error:
            hasty.append(str(error))
        held.__exit__(None, None, None)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        held.__enter__()
        delivery = producer.send("t", b"1")
        with interrupted_when(lambda: closes(producer), signal.SIGTERM):
            producer.close()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert delivery.result().offset == 1
    assert len(hasty) == 1
    assert "another call still waits" in hasty[0]
    wait_for_no_threads()


def test_a_call_that_finds_the_loop_ended_says_what_another_gave_up(kafka_broker: RunningBroker) -> None:
    producer = open_producer(kafka_broker)
    with holding(kafka_broker, ApiKey.PRODUCE):
        producer.send("t", b"1")
        with pytest.raises(KafkaTimeoutError, match="were given up"):
            producer.close(timeout_ms=1)
        producer._thread._ended = False  # as it was when a handler interrupted the call that comes now
        with pytest.raises(KafkaTimeoutError, match=r"1 of topic t\) when another call gave them up"):
            producer.close()
        producer._thread._ended = True
    wait_for_no_threads()


def test_a_handler_that_closes_while_send_wakes_the_loop_takes_nothing_from_send(
    kafka_broker: RunningBroker,
) -> None:
    producer = open_producer(kafka_broker)
    wakes = type(producer._core)._wake_from_thread.__code__

    def close(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is wakes:
            sys.settrace(None)
            producer.close()

    sys.settrace(close)
    try:
        delivery = producer.send("t", b"1")
    finally:
        sys.settrace(None)
    assert delivery.result().offset == 1
    wait_for_no_threads()


def test_an_admin_client_whose_close_was_interrupted_ends_by_itself(kafka_broker: RunningBroker) -> None:
    admin = Admin(bootstrap_servers=kafka_broker.bootstrap_servers)
    admin.start()
    with (
        busy(admin._thread),
        interrupted_when(lambda: bool(admin._thread._calls)),
        pytest.raises(KeyboardInterrupt),
    ):
        admin.close()
    wait_for_no_threads()
    admin.close()


def test_a_consumer_whose_close_was_interrupted_ends_by_itself(kafka_broker: RunningBroker) -> None:
    kafka_broker.broker.create_topic("t")
    consumer = Consumer[bytes | None, bytes | None](
        "t", bootstrap_servers=kafka_broker.bootstrap_servers, group_id="g", session_timeout_ms=60_000
    )
    consumer.start()
    poll(
        lambda: consumer.poll(timeout_ms=100) or consumer.assignment(),
        timeout=PATIENCE,
        failure=lambda: "nothing is assigned",
    )
    with (
        holding(kafka_broker, ApiKey.LEAVE_GROUP),
        interrupted_when(lambda: consumer._engine.ending.begun),
        pytest.raises(KeyboardInterrupt),
    ):
        consumer.close()
    wait_for_no_threads()
    consumer.close()
