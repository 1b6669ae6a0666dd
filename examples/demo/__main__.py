"""Starts a broker, a group of three, Spark and a stream of orders; kills a member; counts at the end.

Everything runs in processes of its own that end with this one. `--broker real` takes a real Kafka (it needs
Java, Maven and a checkout) in place of the embedded broker.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from pathlib import Path

from examples.demo import report
from examples.demo.orders import REVENUE_TOPIC, TOPIC, Order, make_orders
from examples.demo.processes import Child, ChildError
from examples.demo.screen import Screen, screen_for
from examples.demo.watch import Watch
from kclient import AsyncAdmin, AsyncProducer
from kclient.admin import NewTopic
from kclient.producer import Delivery

PARTITIONS = 6
MEMBERS = ("anna", "bert", "carl")
VICTIM = "bert"
# When the victim dies and comes back, as shares of the time that orders flow.
DIES, RETURNS = 0.25, 0.65
START_SECONDS, FINISH_SECONDS = 120, 120
TICK = 0.05


class Shop:
    """Sends orders at an even pace and keeps those that were acknowledged."""

    def __init__(self, bootstrap: str, count: int, seconds: float) -> None:
        self.acknowledged: list[Order] = []
        self.failed: list[str] = []
        self._bootstrap = bootstrap
        self._count = count
        self._rate = count / seconds

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        orders = make_orders(self._count)
        sent = 0
        async with AsyncProducer(
            bootstrap_servers=self._bootstrap, linger_ms=5, compression_type="lz4"
        ) as producer:
            began = loop.time()
            while sent < self._count:
                due = min(self._count, int((loop.time() - began) * self._rate) + 1)
                now_ms = int(time.time() * 1000)
                for order in (next(orders)._replace(time_ms=now_ms) for _ in range(due - sent)):
                    delivery = await producer.send(TOPIC, order.value, order.key, timestamp_ms=now_ms)
                    delivery.add_done_callback(partial(self._settle, order))
                sent = due
                await asyncio.sleep(TICK)
        if self.failed:
            raise RuntimeError(f"{len(self.failed)} orders were not delivered, the first: {self.failed[0]}")

    def _settle(self, order: Order, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.acknowledged.append(order)
        else:
            self.failed.append(str(error))


class Demo:
    """One run, in one scratch directory."""

    def __init__(self, options: argparse.Namespace, directory: Path, screen: Screen) -> None:
        self._options = options
        self._directory = directory
        self._screen = screen
        self._members: dict[str, Child] = {}
        self._children: list[Child] = []
        self._events: list[report.Event] = []
        self._runs = 0

    async def run(self) -> report.Verdict:
        try:
            return await self._run()
        finally:
            for child in reversed(self._children):
                await child.kill()

    async def _run(self) -> report.Verdict:
        broker = await self._start("broker", "examples.demo.broker", self._options.broker)
        bootstrap: str = await broker.hear("bootstrap_servers", START_SECONDS)
        self._screen.say(
            f"{'Kafka' if self._options.broker == 'real' else 'the embedded broker'} listens on {bootstrap}"
        )
        async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS), NewTopic(REVENUE_TOPIC, 1)])
        spark = await self._start("Spark", "examples.demo.revenue", bootstrap, str(self._directory))
        for name in MEMBERS:
            await self._join(bootstrap, name)
        await asyncio.gather(*(child.hear("partitions", START_SECONDS) for child in self._members.values()))
        self._screen.say("a group of three has the partitions; Spark is starting")
        await spark.hear("started", START_SECONDS)
        shop = Shop(bootstrap, self._options.orders, self._options.seconds)
        watch = Watch(bootstrap, PARTITIONS, self._members, spark, lambda: len(shop.acknowledged))
        async with _in_background(watch.run(self._screen.show)):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(shop.run())
                tasks.create_task(self._kill_and_bring_back(bootstrap, watch))
            await self._drain(watch, spark)
        await asyncio.gather(*(child.end() for child in self._members.values()))
        windows = await asyncio.to_thread(report.newest_windows, bootstrap, 1)
        self._draw(watch, windows)
        return await asyncio.to_thread(report.judge, shop.acknowledged, self._directory, windows)

    async def _start(self, name: str, module: str, *arguments: str) -> Child:
        child = await Child.start(name, module, *arguments, log=self._directory / f"{name}.log")
        self._children.append(child)
        return child

    async def _join(self, bootstrap: str, name: str) -> None:
        self._runs += 1
        results = self._directory / f"member-{self._runs}.bin"
        self._members[name] = await self._start(name, "examples.demo.member", bootstrap, name, str(results))

    async def _kill_and_bring_back(self, bootstrap: str, watch: Watch) -> None:
        seconds = self._options.seconds
        await asyncio.sleep(DIES * seconds)
        await self._members[VICTIM].kill()
        self._event(watch, f"{VICTIM} was killed")
        await asyncio.sleep((RETURNS - DIES) * seconds)
        watch.bury(VICTIM)
        await self._join(bootstrap, VICTIM)
        self._event(watch, f"{VICTIM} came back")

    def _event(self, watch: Watch, text: str) -> None:
        self._events.append(report.Event(watch.samples[-1].at if watch.samples else 0.0, text))
        self._screen.say(text)

    async def _drain(self, watch: Watch, spark: Child) -> None:
        """Until the group has committed everything and Spark has worked off everything."""
        async with asyncio.timeout(FINISH_SECONDS):
            await watch.caught_up()
            spark.let_go()
            await spark.hear("finished", FINISH_SECONDS)

    def _draw(self, watch: Watch, windows: list[dict[str, object]]) -> None:
        path: Path = self._options.picture
        if report.draw(watch.samples, self._events, windows, path):
            self._screen.say(f"the run as a picture: {path}")
        else:
            self._screen.say("no picture: matplotlib is not installed")


@contextlib.asynccontextmanager
async def _in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--broker", choices=("embedded", "real"), default="embedded")
    parser.add_argument("--orders", type=int, default=120_000, help="how many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=40, help="within which time (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=Path("build/demo.png"), help="where to draw the run")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kclient-demo-") as scratch, screen_for(options.orders) as screen:
        try:
            verdict = asyncio.run(Demo(options, Path(scratch), screen).run())
        except KeyboardInterrupt:
            screen.say("stopped; nothing is left behind")
            return 130
        except ChildError as error:
            screen.say(f"the demo could not go on: {error}")
            return 1
    print(f"\n{verdict.table()}\n")
    outcome = (
        "nothing was lost, and every cent is there" if verdict.holds else "SOMETHING IS WRONG, see the table"
    )
    print(f"{outcome} ({time.perf_counter() - began:.0f} s)")
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
