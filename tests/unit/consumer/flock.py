"""Whole consumers in one group on the embedded broker in virtual time: they come, leave, die and hang while
records are written, and everything that they do with the records is written down.

A record counts as done when its consumer has worked on it, which takes time. Checked with each record: nobody
begins behind what is done, and within one ownership the next record follows the one before. Checked at the
end: every record was done, and every partition has one owner.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from kclient.errors import KafkaError
from kclient.testing import Simulation, simulate
from kclient.types import Record, TopicPartition
from tests.unit.consumer.members import GROUP, Crowd, crowd
from tests.unit.consumer.reading import Topic, World, parts

T = TypeVar("T")
PARTITIONS = 6
SESSION = 10.0
LONGEST_WORK = 12.0
OPTIONS: dict[str, Any] = {
    "group_id": GROUP,
    "session_timeout_ms": int(SESSION * 1000),
    "heartbeat_interval_ms": 2_000,
    "max_poll_interval_ms": int(LONGEST_WORK * 1000),
    "request_timeout_ms": 8_000,
    "auto_commit_interval_ms": 1_000,
}


class Sheep:
    """One consumer with an application that reads, works and, if it has to, commits."""

    def __init__(self, flock: Flock, host: str, **options: Any) -> None:
        self.flock = flock
        self.host = host
        self.commits = not options.get("enable_auto_commit", True)
        self.rest = 0.0  # seconds that the next batch takes longer
        self.consumer = flock.world.consumer(**OPTIONS | options)
        self.consumer.subscribe([Topic], listener=self)
        self._next: dict[TopicPartition, int] = {}
        self._work: asyncio.Task[None] | None = None

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    async def start(self) -> None:
        with self.flock.sim.network.host(self.host):
            await self.consumer.start()
            self._work = asyncio.create_task(self._read())

    async def _read(self) -> None:
        random = self.flock.sim.random
        while True:
            got = await self.consumer.getmany(timeout_ms=1_000, max_records=random.choice([1, 10, 50]))
            for partition, records in got.items():
                self._receive(partition, records)
            rest, self.rest = self.rest, 0.0
            await asyncio.sleep(rest + random.choice([0, 0.05, 0.4]))
            for partition, records in got.items():
                self.flock.done[partition].update(record.offset for record in records)
            if self.commits and got:
                # What another member has by now, or what nobody could be told of, is read again by somebody.
                with suppress(KafkaError):
                    await self.consumer.commit(timeout_ms=5_000)

    def _receive(self, partition: TopicPartition, records: list[Record[Any, Any]]) -> None:
        first = records[0].offset
        followed = self._next.get(partition)
        self._next[partition] = records[-1].offset + 1
        if followed is not None and first != followed:
            self.flock.wrong.append(f"{self.host}: {partition} went from {followed} to {first}")
        if followed is None:
            left_out = set(range(first)) - self.flock.done[partition]
            if left_out:
                self.flock.wrong.append(f"{self.host}: {partition} at {first} without {sorted(left_out)}")

    async def stop_working(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
            if not self._work.cancelled():
                self._work.result()

    async def leave(self) -> None:
        """Close in order; of the batch that is being worked on, nothing is done."""
        await self.stop_working()
        await self.consumer._close()

    async def die(self) -> None:
        """As a killed process: its connections break, and nothing more is heard of it."""
        self.flock.sim.network.silence(self.host)
        self.flock.sim.network.reset(self.host)
        await self.stop_working()
        await self.consumer._close(timeout_ms=0)


class Flock:
    """A group of consumers, what is written for them, and what became of it."""

    def __init__(self, around: Crowd, options: dict[str, Any]) -> None:
        self.sim = around.sim
        self.crowd = around
        self.broker = around.broker
        self.world = World(around.sim, around.broker)
        self.options = options
        self.members: dict[str, Sheep] = {}
        self.done: dict[TopicPartition, set[int]] = defaultdict(set)
        self.wrong: list[str] = []
        self._born = 0
        self._hanging: set[str] = set()
        self._chores: set[asyncio.Task[None]] = set()

    # What happens

    async def come(self) -> Sheep:
        self._born += 1
        member = Sheep(self, f"member-{self._born}", **self.options)
        self.members[member.host] = member
        await member.start()
        return member

    async def leave(self) -> None:
        member = self._choose()
        if member is not None:
            del self.members[member.host]
            await member.leave()

    async def die(self) -> None:
        member = self._choose()
        if member is not None:
            del self.members[member.host]
            await member.die()

    async def hang(self) -> None:
        """The cable of a member is pulled for longer than its session."""
        member = self._choose()
        if member is not None:
            self._hanging.add(member.host)
            self.sim.network.silence(member.host)
            self._chores.add(asyncio.create_task(self._heal(member.host)))

    async def _heal(self, host: str) -> None:
        await asyncio.sleep(SESSION * 1.5)
        self.sim.network.heal(host)
        self._hanging.discard(host)

    async def dawdle(self) -> None:
        """An application works on one batch for longer than it may."""
        member = self._choose()
        if member is not None:
            member.rest = LONGEST_WORK * 1.5

    async def move(self) -> None:
        random = self.sim.random
        self.broker.move_coordinator(GROUP, random.choice([1, 2, 3]))
        self.broker.move_leader(Topic, random.randrange(PARTITIONS), random.choice([1, 2, 3]))

    def write(self) -> None:
        for partition in parts(PARTITIONS):
            self.world.fill(partition, records=self.sim.random.randint(1, 40))

    def _choose(self) -> Sheep | None:
        ready = sorted(set(self.members) - self._hanging)
        return self.members[self.sim.random.choice(ready)] if len(ready) > 1 else None

    # How it ends

    async def calm(self, within: float = 90.0) -> None:
        """Until what hung is back, every partition has one owner and everything was done."""
        if self._chores:
            await asyncio.wait(self._chores)
        end = self.sim.loop.time() + within
        while not self.all_is_well():
            assert self.sim.loop.time() < end, f"not calm: {self.owned()}, missing {self.missing()}"
            await asyncio.sleep(0.25)

    def all_is_well(self) -> bool:
        owned = sorted(partition for each in self.owned().values() for partition in each)
        return owned == parts(PARTITIONS) and not self.missing()

    def owned(self) -> dict[str, frozenset[TopicPartition]]:
        return {host: member.consumer.assignment() for host, member in self.members.items()}

    def missing(self) -> dict[TopicPartition, int]:
        ends = {each: self.broker.topics.partition(*each).log.end_offset for each in parts(PARTITIONS)}
        counts = {each: end - len(self.done[each]) for each, end in ends.items()}
        return {each: count for each, count in counts.items() if count}

    async def committed(self) -> dict[TopicPartition, int]:
        found = {}
        async with self.world.consumer(group_id=GROUP) as reader:
            for partition in parts(PARTITIONS):
                place = await reader.committed(partition)
                found[partition] = -1 if place is None else place.offset
        return found

    async def end(self) -> None:
        for member in self.members.values():
            await member.stop_working()
            await member.consumer.close()


def in_a_flock(
    story: Callable[[Flock], Coroutine[Any, Any, T]], options: dict[str, Any], *, seed: int = 0
) -> T:
    """Run a story about a group of consumers; none of them may be left over."""
    settings = {
        "group.consumer.session.timeout.ms": str(int(SESSION * 1000)),
        "group.consumer.heartbeat.interval.ms": "2000",
    }

    async def main(sim: Simulation) -> T:
        async with crowd(sim, 3, settings, **{Topic: PARTITIONS}) as around:
            flock = Flock(around, options)
            try:
                return await story(flock)
            finally:
                await flock.end()

    return simulate(main, seed=seed)


async def herd(flock: Flock, rounds: int = 8) -> None:
    """Everything that happens to groups, in an order of the seed's, while records are written."""
    random = flock.sim.random
    flock.write()
    for _ in range(3):
        await flock.come()
    acts = [flock.come, flock.come, flock.leave, flock.die, flock.hang, flock.dawdle, flock.move]
    for _ in range(rounds):
        flock.write()
        await random.choice(acts)()
        await asyncio.sleep(random.choice([0, 0.1, 1, 3]))
    flock.write()
    await flock.calm()
    assert not flock.wrong, "\n".join(flock.wrong)
