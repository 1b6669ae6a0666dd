"""Turns of real event loops, asyncio's own and uvloop, and what goes on while the application blocks its own.

The clients are given a clock that only the application's work moves, so nothing depends on the machine.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kclient import AsyncConsumer, AsyncProducer
from kclient.broker.api import RequestContext
from kclient.errors import CommitFailedError
from kclient.producer.stamps import GivenStamps
from kclient.testing import RunningBroker
from kclient.turns import EVERY
from kclient.types import TopicPartition
from kclient.wire.api import ApiKey
from kclient.wire.message import Request
from tests.support.ticker import Ticker

pytestmark = pytest.mark.uvloop

PATIENCE = 60
RECORDS = 1_000
WORK = 0.004


class Work:
    """A clock that is later by each piece of work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        for module in ("kclient.consumer.client", "kclient.producer.client"):
            monkeypatch.setattr(f"{module}.fine_time", lambda _: lambda: self.now)
        monkeypatch.setattr("kclient.producer.core.SystemStamps", lambda: GivenStamps(self, lambda: self.now))

    def wall(self) -> float:
        return self.now

    def __call__(self) -> None:
        self.now += WORK


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


@pytest.mark.parametrize("io_thread", [False, True])
def test_loops_over_records_and_over_send_give_a_turn_for_every_10_ms_of_work(
    work: Work, io_thread: bool
) -> None:
    async def main(bootstrap: str) -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("t", b"first")
            with Ticker() as ticker:
                for _ in range(RECORDS):
                    await producer.send("t", bytes(100))
                    work()
            assert ticker.turns >= RECORDS * WORK / EVERY - 2
        async with AsyncConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", io_thread=io_thread
        ) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            with Ticker() as ticker:
                for _ in range(RECORDS):
                    await consumer.getone()
                    work()
            assert ticker.turns >= RECORDS * WORK / EVERY - 2

    with RunningBroker() as running:
        asyncio.run(main(running.bootstrap_servers))


class Watched:
    """Counts the requests of each kind that a broker gets."""

    def __init__(self, running: RunningBroker) -> None:
        self._seen: list[ApiKey] = []
        self._came = threading.Condition()
        running.broker.faults.hook = self._see

    def _see(self, _: RequestContext, request: Request[Any]) -> None:
        with self._came:
            self._seen.append(ApiKey(request.api_key))
            self._came.notify_all()

    def count(self, kind: ApiKey) -> int:
        return self._seen.count(kind)

    def block_until(self, kind: ApiKey, more: int) -> None:
        """Block the calling thread, and its event loop, until there were so many more of them."""
        wanted = self.count(kind) + more
        with self._came:
            assert self._came.wait_for(lambda: self.count(kind) >= wanted, PATIENCE)


def test_with_a_thread_of_its_own_a_member_outlives_a_loop_that_is_blocked_for_longer_than_its_session() -> (
    None
):
    async def main(running: RunningBroker) -> None:
        watched = Watched(running)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with (
            AsyncProducer(bootstrap_servers=running.bootstrap_servers) as producer,
            AsyncConsumer(
                "t",
                bootstrap_servers=running.bootstrap_servers,
                group_id="g",
                io_thread=True,
                session_timeout_ms=1_000,
                heartbeat_interval_ms=100,
                **options,
            ) as consumer,
        ):
            await producer.send_and_wait("t", b"first")
            await consumer.getone()
            joins = watched.count(ApiKey.JOIN_GROUP)
            watched.block_until(ApiKey.HEARTBEAT, 20)  # two seconds' worth
            await consumer.commit()
            assert watched.count(ApiKey.JOIN_GROUP) == joins

    with RunningBroker(config={"group.min.session.timeout.ms": "500"}) as running:
        asyncio.run(main(running))


def test_a_member_with_a_thread_of_its_own_still_leaves_when_its_application_does_not_come_back() -> None:
    async def main(running: RunningBroker) -> None:
        watched = Watched(running)
        async with (
            AsyncProducer(bootstrap_servers=running.bootstrap_servers) as producer,
            AsyncConsumer(
                "t",
                bootstrap_servers=running.bootstrap_servers,
                group_id="g",
                io_thread=True,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_interval_ms=1_000,
                heartbeat_interval_ms=100,
            ) as consumer,
        ):
            await producer.send_and_wait("t", b"first")
            record = await consumer.getone()
            watched.block_until(ApiKey.LEAVE_GROUP, 1)
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            assert (await consumer.getone()).offset == record.offset  # it joined again, and reads it again

    with RunningBroker() as running:
        asyncio.run(main(running))
