"""`start` and `close` that are cancelled at each step of the event loop: as if never called, or done.

After another `close` nothing is left: no task, no timer, no connection, no thread. On virtual time one run is
made for each step; a consumer with a thread of its own is cancelled in each turn of its caller's loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kclient.admin import AsyncAdmin
from kclient.broker import Broker
from kclient.consumer import AsyncConsumer
from kclient.producer import AsyncProducer
from kclient.testing import RunningBroker, Simulation, simulate
from kclient.types import TopicPartition
from tests.support.threads import wait_for_no_threads

KINDS: dict[str, dict[str, Any]] = {
    "producer": {},
    "admin": {},
    "alone": {},
    "classic": {"group_id": "billing"},
    "consumer": {"group_id": "billing", "group_protocol": "consumer"},
}
CONFIG = {"group.initial.rebalance.delay.ms": "0"}
# A close that was given up ends within its own time, and some turns of the loop.
LONGEST = 5.5

Cancel = Callable[[asyncio.Task[Any]], object]
of_every_kind = pytest.mark.parametrize("kind", KINDS)


def cancel_caller(task: asyncio.Task[Any]) -> None:
    task.cancel()


def cancel_all(task: asyncio.Task[Any]) -> None:
    """What a program does that cancels every task it finds, the one in which a client closes too."""
    task.cancel()
    for each in asyncio.all_tasks(task.get_loop()):
        if each.get_name() == "kclient closes a client":
            each.cancel()


class Steps:
    """Between an event loop and its selector: calls something in one turn, or in each from then on."""

    def __init__(self, loop: Any, act: Callable[[], object], first: int, *, again: bool) -> None:
        self._selector, self._act, self._left, self._again = loop._selector, act, first, again
        self.acted = False
        self._loop = loop
        loop._selector = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def select(self, timeout: float | None) -> Any:
        found = self._selector.select(timeout)
        if self._left == 0 or (self._again and self._left < 0):
            self._act()
            self.acted = True
        self._left -= 1
        return found

    def end(self) -> None:
        self._loop._selector = self._selector


def simulated(sim: Simulation, broker: Broker, kind: str) -> Any:
    options = {"clock": sim.clock} if kind == "producer" else {}
    return client_of(kind, broker.bootstrap_servers, **options)


def client_of(kind: str, servers: str, **options: Any) -> Any:
    options = {"bootstrap_servers": servers, **KINDS[kind], **options}
    if kind == "producer":
        return AsyncProducer(**options)
    if kind == "admin":
        return AsyncAdmin(**options)
    consumer: AsyncConsumer[Any, Any] = AsyncConsumer(auto_offset_reset="earliest", **options)
    consumer.subscribe(["orders"])
    return consumer


async def use(kind: str, client: Any) -> None:
    if kind == "producer":
        await client.send_and_wait("orders", b"x")
    elif kind == "admin":
        await client.list_topics()
    else:
        await client.getone()


async def cancelled(
    work: Coroutine[Any, Any, object], step: int, cancel: Cancel = cancel_caller, *, again: bool = False
) -> bool:
    """Run it, cancelling it in one turn of the loop, or in each from then on; False if it ended before."""
    task = asyncio.ensure_future(work)
    steps = Steps(asyncio.get_running_loop(), lambda: task.done() or cancel(task), step, again=again)
    try:
        while not task.done():
            await asyncio.wait([task])
    finally:
        steps.end()
    if not task.cancelled():
        task.result()
    return steps.acted


def each_step(run: Callable[[Simulation, Broker, int], Coroutine[Any, Any, bool]]) -> None:
    """A simulation for each turn of the loop, until what is to be cancelled ends before."""
    going, step = True, 0
    while going:

        async def main(sim: Simulation, step: int = step) -> bool:
            async with Broker(nodes=2, clock=sim.clock, seed=sim.seed, config=CONFIG) as broker:
                broker.create_topic("orders", replication_factor=2)
                servers = broker.bootstrap_servers
                async with AsyncProducer(bootstrap_servers=servers, clock=sim.clock) as producer:
                    await producer.send_and_wait("orders", b"first")
                await asyncio.sleep(1)  # until the broker has seen that it went
                return await run(sim, broker, step)

        going = simulate(main)
        step += 1
    assert step > 5


async def nothing_left(client: Any, before: set[asyncio.Task[Any]]) -> None:
    """Close it again; nothing may be left then, but what the broker does."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await client.close()
    assert loop.time() - began <= LONGEST
    left = [task for task in asyncio.all_tasks() - before if "/broker/" not in _file_of(task)]
    assert not left


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)


@of_every_kind
@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
def test_a_start_that_is_cancelled_at_any_step_leaves_nothing(kind: str, again: bool) -> None:
    async def run(sim: Simulation, broker: Broker, step: int) -> bool:
        before = asyncio.all_tasks()
        client = simulated(sim, broker, kind)
        acted = await cancelled(client.start(), step, again=again)
        await nothing_left(client, before)
        return acted

    each_step(run)


@of_every_kind
def test_a_start_that_was_cancelled_at_any_step_may_be_tried_again(kind: str) -> None:
    async def run(sim: Simulation, broker: Broker, step: int) -> bool:
        before = asyncio.all_tasks()
        client = simulated(sim, broker, kind)
        acted = await cancelled(client.start(), step)
        await client.start()
        await use(kind, client)
        await nothing_left(client, before)
        return acted

    each_step(run)


@of_every_kind
@pytest.mark.parametrize(
    ("cancel", "again"),
    [(cancel_caller, False), (cancel_all, False), (cancel_all, True)],
    ids=["its caller", "all", "all, again and again"],
)
def test_a_close_that_is_cancelled_at_any_step_is_mended_by_another(
    kind: str, cancel: Cancel, again: bool
) -> None:
    async def run(sim: Simulation, broker: Broker, step: int) -> bool:
        before = asyncio.all_tasks()
        client = simulated(sim, broker, kind)
        await client.start()
        await use(kind, client)
        acted = await cancelled(client.close(), step, cancel, again=again)
        await nothing_left(client, before)
        return acted

    logging.getLogger("kclient").setLevel(logging.CRITICAL)
    try:
        each_step(run)
    finally:
        logging.getLogger("kclient").setLevel(logging.NOTSET)


@of_every_kind
@pytest.mark.parametrize("cancel", [cancel_caller, cancel_all])
def test_a_close_that_is_cancelled_at_any_step_leaves_nothing_even_if_nobody_closes_again(
    kind: str, cancel: Cancel
) -> None:
    async def run(sim: Simulation, broker: Broker, step: int) -> bool:
        client = simulated(sim, broker, kind)
        await client.start()
        await use(kind, client)
        acted = await cancelled(client.close(), step, cancel)
        if not client.closed:  # it was cancelled before it had begun
            await client.close()
        await asyncio.sleep(LONGEST)  # it ends by itself, in its own time
        return acted

    each_step(run)


@pytest.fixture
def running() -> Any:
    with RunningBroker(config=CONFIG) as broker:
        broker.broker.create_topic("orders")

        async def fill() -> None:
            async with AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"first")

        asyncio.run(fill())
        yield broker


def each_turn(
    kind: str,
    running: RunningBroker,
    what: Callable[[Any], Coroutine[Any, Any, object]],
    cancel: Cancel,
    *,
    start: bool,
) -> None:
    """The same with a thread of its own: what that does meanwhile differs from run to run."""

    async def main(step: int) -> bool:
        options = {"group_id": f"billing-{step}"} if KINDS[kind] else {}
        consumer = client_of(kind, running.bootstrap_servers, io_thread=True, **options)
        if start:
            await consumer.start()
            await consumer.getone()
        acted = await cancelled(what(consumer), step, cancel)
        before = asyncio.all_tasks()
        await consumer.close()
        assert asyncio.all_tasks() <= before
        assert "kclient consumer kclient" not in {thread.name for thread in threading.enumerate()}
        return acted

    step = 0
    while asyncio.run(main(step)):
        step += 1


@pytest.mark.parametrize("cancel", [cancel_caller, cancel_all])
@pytest.mark.parametrize(
    ("kind", "call"),
    [(kind, call) for kind in ("alone", "classic") for call in ("start", "close", "end_offsets")]
    + [("classic", "commit")],
)
def test_a_call_to_a_consumer_with_a_thread_that_is_cancelled_in_any_turn_leaves_nothing(
    running: RunningBroker, kind: str, call: str, cancel: Cancel, caplog: pytest.LogCaptureFixture
) -> None:
    place = TopicPartition("orders", 0)
    calls: dict[str, Callable[[Any], Coroutine[Any, Any, object]]] = {
        "start": lambda consumer: consumer.start(),
        "close": lambda consumer: consumer.close(),
        "commit": lambda consumer: consumer.commit({place: 1}),
        "end_offsets": lambda consumer: consumer.end_offsets([place]),
    }
    each_turn(kind, running, calls[call], cancel, start=call != "start")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    wait_for_no_threads()
