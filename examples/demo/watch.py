"""Looks at the group, its members and Spark twice a second, for the screen and for the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from examples.demo.member import GROUP
from examples.demo.orders import TOPIC
from examples.demo.processes import Child
from kclient import AsyncAdmin, TopicPartition
from kclient.admin import OffsetSpec

EVERY = 0.5


class Sample(NamedTuple):
    """How it was at one moment, in seconds from the first order on."""

    at: float
    produced: int
    members: dict[str, int]
    owners: dict[int, str]
    lag: dict[int, int]
    spark: int


class Watch:
    """Takes samples while it runs."""

    def __init__(
        self,
        bootstrap: str,
        partitions: int,
        members: Mapping[str, Child],
        spark: Child,
        produced: Callable[[], int],
    ) -> None:
        self.samples: list[Sample] = []
        self._admin = AsyncAdmin(bootstrap_servers=bootstrap)
        self._partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        self._members = members
        self._spark = spark
        self._produced = produced
        self._taken = asyncio.Event()
        self._before: dict[str, int] = {}  # what members had done who were killed since

    def bury(self, name: str) -> None:
        """Keep what a member has done, which counts from zero when it comes back."""
        self._before[name] = self._done(name)

    def _done(self, name: str) -> int:
        return self._before.get(name, 0) + int(self._members[name].state.get("done", 0))

    async def run(self, show: Callable[[Sample], None]) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._admin:
            while True:
                lag = await self._lag()
                sample = Sample(
                    loop.time() - began,
                    self._produced(),
                    {name: self._done(name) for name in self._members},
                    self._owners(),
                    lag,
                    int(self._spark.state.get("rows", 0)),
                )
                self.samples.append(sample)
                self._taken.set()
                show(sample)
                await asyncio.sleep(EVERY)

    async def caught_up(self) -> None:
        """Wait until the group has committed everything."""
        while sum(self.samples[-1].lag.values()) or self.samples[-1].produced != self._produced():
            self._taken.clear()
            await self._taken.wait()

    def _owners(self) -> dict[int, str]:
        return {
            partition: name
            for name, child in self._members.items()
            if child.running
            for partition in child.state.get("partitions", ())
        }

    async def _lag(self) -> dict[int, int]:
        """Records that the group has not committed, by partition."""
        # Committed offsets first: asked the other way round, the group may have run ahead of the ends.
        committed = await self._admin.list_consumer_group_offsets(GROUP, self._partitions)
        ends = await self._admin.list_offsets(dict.fromkeys(self._partitions, OffsetSpec.LATEST))
        return {
            each.partition: ends[each].offset
            - (found.offset if (found := committed[each]) is not None else 0)
            for each in self._partitions
        }
