"""A rebalance storm: members come, go, die and hang while the coordinator moves, then everything calms down.

Checked all the time: no partition has two owners that are both in touch with the coordinator, none is without
one for longer than the protocol takes (see `ownership`), and nobody begins behind what was read. Checked once
it is calm: every partition has one owner, nobody is stuck.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from kclient.errors import KafkaError
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support.positions import FakePositions
from tests.unit.consumer.members import GROUP, Crowd, Member, in_a_crowd
from tests.unit.consumer.ownership import Ownership

MEMBERS = 20
PARTITIONS = 30
SESSION = 10.0
HEARTBEAT = 2.0
BLOCKED = 30.0
ALL = [TopicPartition("orders", number) for number in range(PARTITIONS)]
OPTIONS: dict[str, Any] = {
    "session_timeout_ms": int(SESSION * 1000),
    "heartbeat_interval_ms": int(HEARTBEAT * 1000),
    "rebalance_timeout_ms": 20_000,
    "request_timeout_ms": 8_000,
    "enable_auto_commit": True,
}


class Watched(FakePositions):
    """Positions that know their rivals; the application works on what it got until it asks for more."""

    def __init__(self, storm: Storm, host: str) -> None:
        super().__init__()
        self.storm = storm
        self.host = host
        self.finished: dict[TopicPartition, OffsetAndMetadata] = {}

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        super().assign(partitions)
        self.storm.check(self, partitions)

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        super().revoke(partitions, lost=lost)
        for partition in partitions:
            self.offsets.pop(partition, None)
            self.finished.pop(partition, None)

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return dict(self.finished)

    def poll(self, most: int) -> None:
        """What was handed out is done; hand out more."""
        self.finished = dict(self.offsets)
        for partition, at in self.finished.items():
            self.storm.done[partition] = max(self.storm.done[partition], at.offset)
            if partition not in self.fenced:
                more = self.storm.random.randint(0, most)
                self.offsets[partition] = OffsetAndMetadata(at.offset + more)

    def begin(self, partition: TopicPartition, committed: OffsetAndMetadata | None) -> None:
        """Go where the group committed: nothing before that may have been left out."""
        offset = 0 if committed is None else committed.offset
        if offset > self.storm.done[partition]:
            self.storm.skipped.append(f"{partition} from {self.storm.done[partition]} to {offset}")
        if partition in self.reading:
            self.offsets[partition] = OffsetAndMetadata(offset)


class Storm:
    """One storm, from one seed."""

    def __init__(self, crowd: Crowd, options: dict[str, Any], rounds: int) -> None:
        self.crowd = crowd
        self.random = crowd.sim.random
        self.loop = crowd.sim.loop
        self.options = OPTIONS | options
        self.rounds = rounds
        self.alive: dict[str, Member] = {}
        self.blocked: set[str] = set()
        self.silent: set[str] = set()
        classic = self.options.get("group_protocol") != "consumer"
        self.ownership = Ownership(ALL, self.owned_in_reach, SESSION, HEARTBEAT, joins=classic)
        self.born = 0
        self.doubles: list[str] = []
        self.done: dict[TopicPartition, int] = defaultdict(int)
        self.skipped: list[str] = []
        self.readers: dict[str, asyncio.Task[None]] = {}
        self.chores: set[asyncio.Task[None]] = set()

    async def rage(self) -> float:
        """The storm and the calm after it; the longest that a partition had no owner after a fault."""
        watching = self.loop.create_task(self.ownership.watch())
        try:
            await self.blow()
            await self.calm()
        finally:
            watching.cancel()
            for reader in self.readers.values():
                reader.cancel()
        return self.ownership.longest

    async def blow(self) -> None:
        for _ in range(3):
            await self.come()
        acts = [self.come, self.come, self.leave, self.die, self.hang, self.move, self.stop_node, self.rest]
        for _ in range(self.rounds):
            await self.random.choice(acts)()
            await asyncio.sleep(self.random.choice([0, 0.01, 0.3, 1, 4]))
        while len(self.alive) < 2:
            await self.come()
        if self.chores:
            await asyncio.wait(self.chores)

    async def calm(self) -> None:
        limit = self.loop.time() + self.ownership.limit
        while not self.all_is_well():
            assert self.loop.time() < limit, f"still not calm: {list(self.alive.values())}"
            await asyncio.sleep(0.25)
        assert not self.ownership.too_long, f"without an owner for too long: {self.ownership.too_long[-1]}"
        assert not self.doubles, f"two owners at one time: {self.doubles}"
        assert not self.skipped, f"never read: {self.skipped}"
        await asyncio.sleep(5)
        assert self.all_is_well(), f"did not stay calm: {list(self.alive.values())}"

    def all_is_well(self) -> bool:
        owned = sorted(partition for member in self.alive.values() for partition in member.owned)
        return owned == ALL and all(
            member.state == "stable" and not member.positions.fenced for member in self.alive.values()
        )

    def owned_in_reach(self) -> set[TopicPartition] | None:
        """What those own that can be reached, and whose application gets the records; None without any."""
        reached = [member for host, member in self.alive.items() if host not in self.silent]
        if not reached:
            return None
        return {each for member in reached for each in member.owned - member.positions.fenced}

    def check(self, taker: Watched, partitions: Collection[TopicPartition]) -> None:
        """Whoever else reads these must be out of touch: blocked, or not heard of for a session."""
        for host, member in self.alive.items():
            if host != taker.host and self.in_touch(host, member):
                both = member.owned & frozenset(partitions)
                if both:
                    self.doubles.append(f"{host} {member} still owned {sorted(both)}, given to {taker.host}")

    def in_touch(self, host: str, member: Member) -> bool:
        age = member.membership.health().last_heartbeat_age
        return host not in self.blocked and age is not None and age < SESSION - 2

    async def come(self) -> None:
        if self.born >= MEMBERS:
            return
        self.born += 1
        host = f"member-{self.born}"
        positions = Watched(self, host)
        with self.crowd.sim.network.host(host):
            member = await self.crowd.member("orders", positions=positions, **self.options)
            # Within the host: what the application asks for is cut off with everything else.
            self.readers[host] = self.loop.create_task(self.read(member, positions))
        self.alive[host] = member
        self.ownership.touched()

    async def read(self, member: Member, positions: Watched) -> None:
        """Read on from what was committed, in batches that take two seconds each."""
        while True:
            fresh = [p for p in positions.reading - positions.fenced if p not in positions.offsets]
            if fresh:
                try:
                    found = await member.membership.commits.committed(fresh, member.cluster.deadline(5_000))
                except KafkaError:
                    await asyncio.sleep(0.5)
                    continue
                for partition, committed in sorted(found.items()):
                    positions.begin(partition, committed)
            positions.poll(100)
            await asyncio.sleep(2)

    async def leave(self) -> None:
        host, member = self.take()
        if member is not None:
            # Whoever has not got the answer to its first join cannot say who leaves.
            self.ownership.touched(lost_in_join=member.state != "stable")
            self.chore(member.close(5), host)

    async def die(self) -> None:
        _, member = self.take()
        if member is not None:
            self.ownership.touched(lost_in_join=member.state != "stable")
            await member.vanish()

    def take(self) -> tuple[str, Member | None]:
        candidates = sorted(set(self.alive) - self.blocked)
        if not candidates:
            return "", None
        host = self.random.choice(candidates)
        self.readers[host].cancel()
        return host, self.alive.pop(host)

    async def hang(self) -> None:
        """The machine of a member stands still, or its cable is pulled."""
        candidates = sorted(set(self.alive) - self.blocked)
        if candidates:
            host = self.random.choice(candidates)
            self.blocked.add(host)
            self.silent.add(host)
            self.ownership.touched(lost_in_join=self.alive[host].state != "stable")
            self.crowd.sim.network.silence(host)
            self.chore(self.unblock(host), host)

    async def unblock(self, host: str) -> None:
        await asyncio.sleep(BLOCKED)
        self.crowd.sim.network.heal(host)
        self.silent.discard(host)
        self.ownership.touched()
        # It takes the news that it is no member any more as long as a heartbeat may take.
        await asyncio.sleep(SESSION)
        self.blocked.discard(host)

    async def move(self) -> None:
        self.ownership.touched()
        self.crowd.broker.move_coordinator(GROUP, self.random.choice([1, 2, 3]))

    async def stop_node(self) -> None:
        node = self.random.choice([1, 2, 3])
        if len(self.crowd.broker.running()) == 3:
            self.ownership.touched()
            await self.crowd.broker.stop_node(node)
            self.chore(self.restart(node), f"node {node}")

    async def restart(self, node: int) -> None:
        await asyncio.sleep(self.random.uniform(1, 8))
        await self.crowd.start_node(node)

    async def rest(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 5))

    def chore(self, work: Any, name: str) -> None:
        async def quietly() -> None:
            try:
                await work
                self.ownership.touched()
            except KafkaError as error:
                raise AssertionError(f"{name}: {error}") from error

        task = self.loop.create_task(quietly())
        self.chores.add(task)


def in_a_storm(options: dict[str, Any], seed: int, rounds: int = 10) -> float:
    """One storm; the longest that a partition had no owner after a fault."""
    settings = {
        "group.consumer.session.timeout.ms": str(int(SESSION * 1000)),
        "group.consumer.heartbeat.interval.ms": str(int(HEARTBEAT * 1000)),
    }
    return in_a_crowd(
        lambda crowd: Storm(crowd, options, rounds).rage(),
        seed=seed,
        nodes=3,
        settings=settings,
        orders=PARTITIONS,
    )
