"""What users give consumers with a thread of their own: listeners and callbacks may raise anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import KafkaError
from kclient.testing import RunningBroker
from kclient.types import TopicPartition
from tests.support.misbehaviour import EXITS, RAISED, gathers_cancelled_workers
from tests.support.threads import wait_for_no_threads
from tests.unit.consumer.reading import part
from tests.unit.consumer.test_blocking_consumer import fill
from tools.kafka.waiting import poll

PATIENCE_MS = 30_000
IN_GROUPS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with RunningBroker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        running.broker.create_topic("orders", 1)
        fill(running, part(0))
        yield running


class Listener:
    """Does something when it is given partitions."""

    def __init__(self, does: Callable[[], object]) -> None:
        self.does = does

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> object:
        return self.does() if assigned else None


def options(running: RunningBroker, request: pytest.FixtureRequest, protocol: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": running.broker.bootstrap_servers,
        "group_id": request.node.name,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
    }


@IN_GROUPS
@pytest.mark.parametrize("raised", RAISED)
def test_a_listener_of_a_blocking_consumer_that_raises_is_told_of(
    raised: type[BaseException], protocol: str, running: RunningBroker, request: pytest.FixtureRequest
) -> None:
    """On the thread that polls: there a call of `sys.exit`, or Ctrl-C, comes out too."""

    def does() -> None:
        raise raised

    with Consumer[bytes | None, bytes | None](**options(running, request, protocol)) as consumer:
        consumer.subscribe(["orders"], listener=Listener(does))
        if issubclass(raised, EXITS):
            with pytest.raises(raised):
                consumer.poll(timeout_ms=PATIENCE_MS)
        with pytest.raises(KafkaError, match=r"Listener\.on_partitions_assigned failed") as caught:
            consumer.poll(timeout_ms=PATIENCE_MS)
        assert raised.__name__ in str(caught.value)
        assert consumer.poll(timeout_ms=PATIENCE_MS)
        consumer.commit()
        assert consumer.health().cluster.failure is None
    wait_for_no_threads()


class Empty(StopIteration):
    pass


@IN_GROUPS
@pytest.mark.parametrize("raised", [StopIteration, Empty])
def test_a_listener_of_a_blocking_consumer_that_runs_out_of_an_iterator_is_told_of(
    raised: type[StopIteration], protocol: str, running: RunningBroker, request: pytest.FixtureRequest
) -> None:
    """A bare `next()`: no future takes a `StopIteration`."""

    def does() -> None:
        raise raised

    with Consumer[bytes | None, bytes | None](**options(running, request, protocol)) as consumer:
        consumer.subscribe(["orders"], listener=Listener(does))
        with pytest.raises(KafkaError, match=rf"Listener\.on_partitions_assigned failed.*{raised.__name__}"):
            consumer.poll(timeout_ms=PATIENCE_MS)
        assert consumer.poll(timeout_ms=PATIENCE_MS)
        consumer.commit()


@IN_GROUPS
def test_a_listener_of_a_blocking_consumer_may_cancel_workers(
    protocol: str, running: RunningBroker, request: pytest.FixtureRequest
) -> None:
    with Consumer[bytes | None, bytes | None](**options(running, request, protocol)) as consumer:
        consumer.subscribe(["orders"], listener=Listener(gathers_cancelled_workers))
        with pytest.raises(KafkaError, match=r"Listener\.on_partitions_assigned failed: CancelledError"):
            consumer.poll(timeout_ms=PATIENCE_MS)
        assert consumer.poll(timeout_ms=PATIENCE_MS)
        consumer.commit()


@pytest.mark.parametrize("raised", RAISED)
def test_the_thread_of_a_blocking_consumer_outlives_what_commit_callbacks_raise(
    raised: type[BaseException],
    running: RunningBroker,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[object] = []

    def callback(*said: object) -> None:
        told.append(said)
        raise raised

    with Consumer[bytes | None, bytes | None]("orders", **options(running, request, "classic")) as consumer:
        assert consumer.poll(timeout_ms=PATIENCE_MS)
        for offset in (1, 2, 3):
            consumer.commit_nowait({part(0): offset}, callback)
            consumer.commit({part(0): offset + 1}, timeout_ms=PATIENCE_MS)
        committed = consumer.committed(part(0))
        assert committed is not None
        assert committed.offset == 4
        assert len(told) == 3
    wait_for_no_threads()
    failures = [record for record in caplog.records if "callback failed" in record.getMessage()]
    assert [record.levelno for record in failures] == [logging.ERROR] * 3


@IN_GROUPS
@pytest.mark.parametrize("kind", ["function", "gathers"])
@pytest.mark.parametrize("raised", [ValueError, asyncio.CancelledError])
def test_so_is_a_listener_of_a_consumer_with_a_thread_of_its_own(
    raised: type[BaseException],
    kind: str,
    protocol: str,
    running: RunningBroker,
    request: pytest.FixtureRequest,
) -> None:
    def does() -> None:
        raise raised

    async def main() -> None:
        listener = Listener(does if kind == "function" else gathers_cancelled_workers)
        async with AsyncConsumer(io_thread=True, **options(running, request, protocol)) as consumer:
            consumer.subscribe(["orders"], listener=listener)
            told: list[KafkaError] = []
            got = False
            while not (told and got):  # in either order: what is told is told by the next call
                try:
                    got |= bool(await consumer.getmany(timeout_ms=100))
                except KafkaError as error:
                    told.append(error)
            assert "Listener.on_partitions_assigned failed" in str(told[0])
            await consumer.commit()
            assert consumer.health().cluster.failure is None

    asyncio.run(main())
    wait_for_no_threads()


def test_a_blocking_consumer_whose_task_is_cancelled_says_so(
    running: RunningBroker, request: pytest.FixtureRequest
) -> None:
    async def cancel() -> None:
        for task in asyncio.all_tasks():
            if task.get_name().startswith("fetching"):
                task.cancel()

    consumer = Consumer[bytes | None, bytes | None]("orders", **options(running, request, "classic"))
    consumer.start()
    assert consumer.poll(timeout_ms=PATIENCE_MS)
    consumer._call(cancel())
    poll(
        lambda: consumer.health().cluster.failure is not None,
        timeout=30,
        failure=lambda: repr(consumer.health()),
    )
    for _ in range(2):
        with pytest.raises(KafkaError, match="'fetching from broker 1' was cancelled"):
            consumer.poll(timeout_ms=PATIENCE_MS)
    with pytest.raises(KafkaError, match="'fetching from broker 1' was cancelled"):
        consumer.commit()
    consumer.close()
    wait_for_no_threads()
