"""The loop itself: time, order, deadlocks, and what it refuses."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kclient.testing import DeadlockError, EndlessLoopError, UnsupportedError, VirtualClock, VirtualLoop


def test_a_year_of_timers_passes_in_moments() -> None:
    loop = VirtualLoop()

    async def year() -> int:
        ticks = 0
        while loop.time() < 365 * 24 * 3600:
            await asyncio.sleep(3600)
            ticks += 1
        return ticks

    began = time.perf_counter()
    assert loop.run_until_complete(year()) == 365 * 24
    assert time.perf_counter() - began < 5
    loop.close()


async def test_work_that_blocks_the_loop_makes_what_is_due_wait(loop: VirtualLoop) -> None:
    called: list[float] = []
    loop.call_later(1, lambda: called.append(loop.time()))
    loop.block(3)
    assert (called, loop.time()) == ([], 3)
    await asyncio.sleep(0.5)
    assert (called, loop.time()) == ([3], 3.5)


async def test_time_jumps_exactly_to_the_next_timer(loop: VirtualLoop) -> None:
    await asyncio.sleep(0.1)
    assert loop.time() == 0.1
    at = loop.time() + 10.0**9  # so late that a nanosecond is less than the next number
    await asyncio.sleep(10.0**9)
    assert loop.time() == at
    await asyncio.sleep(1e-7)
    assert loop.time() >= at


async def test_time_stands_still_while_anything_is_ready(loop: VirtualLoop) -> None:
    loop.call_later(1, lambda: None)
    for _ in range(100):
        await asyncio.sleep(0)
    assert loop.time() == 0.0


async def test_timers_of_one_moment_run_in_the_order_they_were_set(loop: VirtualLoop) -> None:
    ran: list[int] = []
    for number in range(200):
        loop.call_at(1.0, ran.append, number)
    await asyncio.sleep(2)
    assert ran == list(range(200))


async def test_sets_of_tasks_and_futures_have_the_order_of_creation(loop: VirtualLoop) -> None:
    tasks = [loop.create_task(asyncio.sleep(1)) for _ in range(30)]
    futures = [loop.create_future() for _ in range(30)]
    assert [hash(task) for task in tasks] == sorted(hash(task) for task in tasks)
    assert [hash(future) for future in futures] == sorted(hash(future) for future in futures)
    await asyncio.wait(tasks)


async def test_a_group_of_tasks_is_cancelled_in_the_order_of_creation() -> None:
    ended: list[int] = []

    async def member(number: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(number)

    async def family() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(member(number))
            await asyncio.sleep(1)
            raise ValueError("enough")

    with pytest.raises(ExceptionGroup):
        await family()
    assert ended == list(range(20))


def test_a_deadlock_is_found_at_once_and_names_who_waits_and_where() -> None:
    loop = VirtualLoop()

    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_for_ever(), name="the culprit")

    task = loop.create_task(main())
    with pytest.raises(
        DeadlockError, match=r"(?s)deadlock at 0\.0+ s.*the culprit: waits_for_ever \(test_loop"
    ):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_a_deadlock_behind_a_partition_says_so() -> None:
    loop = VirtualLoop()
    loop.network.silence("kafka-1")
    task = loop.create_task(loop.create_connection(asyncio.Protocol, "kafka-1", 9092))
    with pytest.raises(
        DeadlockError, match=r"1 connection\(s\) have bytes that a partition or pause holds back"
    ):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_going_round_for_ever_without_time_passing_is_found() -> None:
    loop = VirtualLoop(max_iterations=1000)

    async def spins() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    task = loop.create_task(spins(), name="spinner")
    with pytest.raises(EndlessLoopError, match=r"(?s)no end after 1000 iterations.*spinner: spins"):
        loop.run_until_complete(task)
    loop.max_iterations = None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        (lambda _: asyncio.to_thread(print), r"no threads, so .* cannot run in one"),
        (lambda loop: loop.create_connection(asyncio.Protocol, "a", 1, ssl=True), "no TLS"),
        (
            lambda loop: loop.create_server(asyncio.Protocol, "a", 1, ssl=ssl.create_default_context()),
            "no TLS",
        ),
        (lambda loop: loop.start_tls(None, None, None), "no TLS"),
        (lambda loop: loop.create_connection(asyncio.Protocol, sock=object()), "no sockets"),
        (lambda loop: loop.create_server(asyncio.Protocol, sock=object()), "no sockets"),
        (lambda loop: loop.connect_accepted_socket(asyncio.Protocol, object()), "no sockets"),
        (lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol), "no datagrams"),
    ],
)
async def test_what_a_simulation_does_not_have_is_refused_with_a_reason(
    loop: VirtualLoop, asks: Callable[[Any], Awaitable[object]], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        await asks(loop)


async def test_the_clock_moves_with_the_loop_and_can_be_set(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, start=1_000_000.0)
    assert clock.wall() == 1_000_000.0
    await asyncio.sleep(90)
    assert clock.wall() == 1_000_090.0
    clock.shift(-3600)
    assert clock.wall() == 996_490.0
    assert loop.time() == 90.0
