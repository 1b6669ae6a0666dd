"""The way to one address: shared attempts, waits between failures, idleness, the end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.cluster.link import Link
from kclient.cluster.retry import Backoff
from kclient.config import Endpoint
from kclient.errors import ClientClosedError, KafkaConnectionError, KafkaTimeoutError
from kclient.net.connection import Connection
from kclient.net.dial import dial
from kclient.wire.api import ApiKey
from tests.support import faults
from tests.support.connecting import answered, ask, settings
from tests.support.fake_broker import FakeBroker, FakeCluster
from tests.support.virtual_loop import VirtualLoop, until

Brokers = Callable[..., FakeCluster]


def link_to(
    broker: FakeBroker, max_idle: float | None = None, first_ms: int = 100, most_ms: int = 1000
) -> Link:
    backoff = Backoff(first_ms, most_ms, Random(0))
    return Link(Endpoint(*broker.address), settings(), backoff, max_idle)


def soon(loop: VirtualLoop, seconds: float = 60) -> Deadline:
    return Deadline.after(loop, seconds)


# Dialling


async def test_nothing_is_dialled_until_somebody_asks(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    link = link_to(cluster[1])
    await asyncio.sleep(10)
    assert repr(link) == "<Link broker-1:9092 None>"
    assert loop.network.dialled == []
    await link.close()


async def test_callers_that_come_together_share_one_connection(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    link = link_to(cluster[1])
    connections = await asyncio.gather(*(link.open(soon(loop)) for _ in range(50)))
    assert len(set(map(id, connections))) == 1
    assert await link.open(soon(loop)) is connections[0]
    assert len(loop.network.dialled) == 1
    assert link.connected
    assert repr(link) == "<Link broker-1:9092 <Connection broker-1:9092 open, 0 in flight>>"
    await link.close()


async def test_a_failed_attempt_fails_all_who_share_it_each_with_an_error_of_its_own(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].stop()
    link = link_to(cluster[1])
    failures = await asyncio.gather(*(link.open(soon(loop)) for _ in range(5)), return_exceptions=True)
    assert {type(failure) for failure in failures} == {KafkaConnectionError}
    assert {str(failure) for failure in failures} == {"cannot connect to broker-1:9092: Connection refused"}
    assert len(set(map(id, failures))) == 5
    assert len(loop.network.dialled) == 1
    await link.close()


async def test_cancelling_one_caller_leaves_the_attempt_to_the_others(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(ApiKey.API_VERSIONS, faults.delayed(2))
    link = link_to(cluster[1])
    callers = [asyncio.create_task(link.open(soon(loop))) for _ in range(3)]
    await asyncio.sleep(1)
    assert repr(link) == "<Link broker-1:9092 dialling>"
    callers[0].cancel()
    assert await callers[1] is await callers[2]
    assert callers[0].cancelled()
    assert len(loop.network.dialled) == 1
    await link.close()


async def test_an_attempt_goes_on_without_its_callers_and_serves_the_next(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(ApiKey.API_VERSIONS, faults.delayed(2))
    link = link_to(cluster[1])
    with pytest.raises(KafkaTimeoutError, match="connecting to broker-1:9092 did not end within 1 s"):
        await link.open(soon(loop, 1))
    assert loop.time() == pytest.approx(1)
    await link.open(soon(loop))
    assert len(loop.network.dialled) == 1
    await link.close()


async def test_each_caller_waits_no_longer_than_its_own_deadline(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    cluster[1].freeze()
    link = link_to(cluster[1])

    async def waited(seconds: float) -> float:
        with pytest.raises(KafkaTimeoutError):
            await link.open(soon(loop, seconds))
        return loop.time()

    assert await asyncio.gather(waited(3), waited(0), waited(5)) == pytest.approx([3, 0, 5])
    await link.close()


# Waits between failures


async def test_waits_between_failures_grow_to_their_limit_and_vary(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].stop()
    loop.network.latency = (0, 0)
    link = link_to(cluster[1], first_ms=100, most_ms=800)
    times: list[float] = []
    for _ in range(8):
        with pytest.raises(KafkaConnectionError):
            await link.open(soon(loop))
        times.append(loop.time())
    waits = [after - before for before, after in itertools.pairwise(times)]
    for wait, expected in zip(waits, [0.1, 0.2, 0.4, 0.8, 0.8, 0.8, 0.8], strict=True):
        assert 0.8 * expected <= wait + 1e-4
        assert wait - 1e-4 <= 1.2 * expected
    assert len({round(wait / 0.8, 6) for wait in waits[3:]}) == 4
    await link.close()


async def test_the_first_failure_after_a_success_waits_the_least_again(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    link = link_to(cluster[1])
    cluster[1].stop()
    for _ in range(6):
        with pytest.raises(KafkaConnectionError):
            await link.open(soon(loop))
    cluster[1].start()
    connection = await link.open(soon(loop))
    cluster[1].drop_connections()
    await connection.wait_closed()
    began = loop.time()
    assert link.failures == 1
    await link.open(soon(loop))
    assert loop.time() - began < 0.15
    await link.close()


async def test_a_lost_connection_is_dialled_again_when_next_wanted(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    link = link_to(cluster[1])
    first = await link.open(soon(loop))
    cluster[1].drop_connections()
    await first.wait_closed()
    assert not link.connected
    assert link.pending == 0
    assert link.last_error is not None
    assert "Connection reset" in str(link.last_error)
    await asyncio.sleep(5)
    assert len(loop.network.dialled) == 1
    second = await link.open(soon(loop))
    assert second is not first
    assert answered(await second.call(ask("a"), soon(loop))) == "a"
    await link.close()


async def test_a_connection_that_ends_the_moment_it_is_made_counts_as_lost(
    loop: VirtualLoop, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dial_and_lose(*arguments: Any) -> Connection:
        connection = await dial(*arguments)
        connection.close(KafkaConnectionError("gone again"))
        return connection

    monkeypatch.setattr("kclient.cluster.link.dial", dial_and_lose)
    link = link_to(brokers()[1])
    await link.open(soon(loop))
    assert link.failures == 1
    assert str(link.last_error) == "gone again"
    await link.close()


# Idleness


async def test_a_connection_that_nobody_uses_is_closed_without_being_a_failure(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    link = link_to(cluster[1], max_idle=30)
    connection = await link.open(soon(loop))
    await connection.wait_closed()
    assert loop.time() == pytest.approx(30, abs=0.1)
    assert link.last_error is None
    assert link.failures == 0
    began = loop.time()
    await link.open(soon(loop))
    assert loop.time() - began < 0.05
    await link.close()


async def test_a_connection_in_use_is_kept(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    link = link_to(cluster[1], max_idle=30)
    connection = await link.open(soon(loop))
    for _ in range(10):
        await asyncio.sleep(20)
        await connection.call(ask("a"), soon(loop))
    assert not connection.closed
    cluster[1].plan(ApiKey.FIND_COORDINATOR, faults.delayed(100))
    await connection.call(ask("slow"), soon(loop, 200))
    assert await link.open(soon(loop)) is connection
    await link.close()


async def test_reconnecting_many_times_leaves_one_timer(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    link = link_to(cluster[1], max_idle=1000)
    for _ in range(20):
        connection = await link.open(soon(loop))
        cluster[1].drop_connections()
        await connection.wait_closed()
    await link.open(soon(loop))
    timers = [handle for handle in loop.pending_timers() if "Link." in repr(handle)]
    assert len(timers) == 1
    await link.close()


async def test_an_idle_limit_of_nothing_still_lets_a_connection_be_used(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    link = link_to(brokers()[1], max_idle=0)
    connection = await link.open(soon(loop))
    assert answered(await connection.call(ask("a"), soon(loop))) == "a"
    await connection.wait_closed()
    await link.close()


# The end


async def test_close_while_dialling_ends_the_attempt_and_tells_the_callers(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(ApiKey.API_VERSIONS, faults.silent)
    link = link_to(cluster[1])
    callers = [asyncio.create_task(link.open(soon(loop))) for _ in range(3)]
    await until(lambda: bool(cluster[1].requests))
    await link.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("dial")]
    assert repr(link) == "<Link broker-1:9092 closed>"
    failures = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(failure) for failure in failures] == [KafkaConnectionError] * 3
    with pytest.raises(ClientClosedError):
        await link.open(soon(loop))


async def test_retiring_between_an_attempts_success_and_its_take_over_leaves_no_socket(
    loop: VirtualLoop, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = link_to(brokers()[1])

    async def dial_and_retire(*arguments: Any) -> Connection:
        connection = await dial(*arguments)
        loop.call_soon(link.retire)  # runs after the attempt is done and before its callbacks
        return connection

    monkeypatch.setattr("kclient.cluster.link.dial", dial_and_retire)
    with contextlib.suppress(KafkaConnectionError):
        await link.open(soon(loop))
    await asyncio.sleep(1)
    assert not loop.network.open


async def test_close_fails_requests_in_flight_and_may_be_repeated(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(ApiKey.FIND_COORDINATOR, faults.silent)
    link = link_to(cluster[1])
    connection = await link.open(soon(loop))
    call = asyncio.create_task(connection.call(ask("a"), soon(loop)))
    await asyncio.sleep(1)
    assert link.pending == 1
    await link.close()
    assert not loop.network.open
    await link.close()
    with pytest.raises(KafkaConnectionError, match="was closed"):
        await call
