"""Members of a group with slow work, in virtual time: they come and leave in order, and nothing breaks.

Checked with each record: nobody else has it in hand, and nobody has done it. Checked with each commit: it
works. Checked at the end: every record was done once, and that is committed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

from kclient.testing import Simulation, simulate
from kclient.types import Record, TopicPartition
from tests.unit.consumer.members import GROUP, Crowd, crowd
from tests.unit.consumer.reading import Topic, World, parts

PARTITIONS = 4
ROUNDS = 6
OPTIONS: dict[str, Any] = {"group_id": GROUP, "heartbeat_interval_ms": 500, "auto_commit_interval_ms": 3_000}


class Worker:
    """One consumer with an application that takes a batch, works on it and, if it has to, commits it."""

    def __init__(self, shifts: Shifts, name: str) -> None:
        self.name = name
        self._shifts = shifts
        self._commits = not shifts.options["enable_auto_commit"]
        self._one_by_one = shifts.random.random() < 0.2
        self._last = asyncio.Event()
        self._consumer = shifts.world.consumer(Topic, **OPTIONS | shifts.options)
        self.work = asyncio.create_task(self._live())

    async def _live(self) -> None:
        random = self._shifts.random
        async with self._consumer:
            while not self._last.is_set():
                batch = await self._take()
                if not batch:
                    continue
                self._shifts.taken(self.name, batch)
                await asyncio.sleep(random.choice([0, 0.1, 1, 4]))
                self._shifts.finished(batch)
                if self._commits:
                    await self._consumer.commit()

    async def _take(self) -> list[Record[Any, Any]]:
        if self._one_by_one:
            try:
                async with asyncio.timeout(2):
                    return [await self._consumer.getone()]
            except TimeoutError:
                return []
        most = self._shifts.random.choice([3, 10, 30])
        got = await self._consumer.getmany(timeout_ms=2_000, max_records=most)
        return [record for records in got.values() for record in records]

    async def leave(self) -> None:
        """Finish what is in hand, and close."""
        self._last.set()
        await self.work


class Shifts:
    """The members, and what became of the records."""

    def __init__(self, around: Crowd, options: dict[str, Any]) -> None:
        self.world = World(around.sim, around.broker)
        self.random = around.sim.random
        self.options = options
        self._born = 0
        self._written = 0
        self._in_hand: dict[tuple[TopicPartition, int], str] = {}
        self._done: dict[TopicPartition, set[int]] = defaultdict(set)
        self._workers: list[Worker] = []
        self._leaving: list[asyncio.Task[None]] = []

    def taken(self, name: str, batch: list[Record[Any, Any]]) -> None:
        for record in batch:
            partition = TopicPartition(record.topic, record.partition)
            other = self._in_hand.setdefault((partition, record.offset), name)
            assert other == name, f"{name} got {partition} {record.offset}, which {other} works on"
            assert record.offset not in self._done[partition], f"{name} got {partition} {record.offset} again"

    def finished(self, batch: list[Record[Any, Any]]) -> None:
        for record in batch:
            partition = TopicPartition(record.topic, record.partition)
            del self._in_hand[partition, record.offset]
            self._done[partition].add(record.offset)

    async def come(self) -> None:
        self._born += 1
        self._workers.append(Worker(self, f"member-{self._born}"))

    async def leave(self) -> None:
        if len(self._workers) > 1:
            worker = self._workers.pop(self.random.randrange(len(self._workers)))
            self._leaving.append(asyncio.create_task(worker.leave()))

    def write(self) -> None:
        for partition in parts(PARTITIONS):
            count = self.random.randint(1, 6)
            self.world.fill(partition, records=count)
            self._written += count

    async def go_on(self) -> None:
        """Everything that happens, in an order of the seed's, until all records are done."""
        await self.come()
        for _ in range(ROUNDS):
            self.write()
            await self.random.choice([self.come, self.come, self.leave])()
            await asyncio.sleep(self.random.choice([0, 0.3, 2, 5]))
        async with asyncio.timeout(3_600):
            while sum(map(len, self._done.values())) < self._written:
                await asyncio.sleep(1)
                for each in [*(worker.work for worker in self._workers), *self._leaving]:
                    if each.done():
                        each.result()  # what failed is what this test is about
        self._leaving += [asyncio.create_task(worker.leave()) for worker in self._workers]
        await asyncio.gather(*self._leaving)
        await self._check_committed()

    async def _check_committed(self) -> None:
        async with AsyncExitStack() as stack:
            reader = await stack.enter_async_context(self.world.consumer(group_id=GROUP))
            for partition in parts(PARTITIONS):
                place = await reader.committed(partition)
                assert place is not None
                assert place.offset == len(self._done[partition])


def in_shifts(options: dict[str, Any], seed: int) -> None:
    """A group's life from one seed."""
    settings = {"group.consumer.heartbeat.interval.ms": "1000"}

    async def main(sim: Simulation) -> None:
        async with crowd(sim, 1, settings, **{Topic: PARTITIONS}) as around:
            await Shifts(around, options).go_on()

    simulate(main, seed=seed)
