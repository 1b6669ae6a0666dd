"""From a killed member to the others owning everything: kclient's consumers against Java's.

`python -m benchmarks.takeover` prints seconds; `run()` returns the same as data. One broker, six partitions,
three members to a group, each in a process of its own. In every round a member of ours and one of Java's are
killed at one moment (`SIGKILL`), each in a group of its own with the same session timeout and heartbeat
interval, and the clock runs until the two that are left hold all partitions. Most of it is the session, which
begins with the last heartbeat before the kill: so the medians of several rounds are compared.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kclient.consumer import AsyncConsumer
from tools.kafka.cluster import KafkaCluster
from tools.kafka.jars import JarSet
from tools.kafka.jvm import COMMAND_FLAGS, require_java
from tools.kafka.versions import CLIENTS_VERSION

PARTITIONS = 6
MEMBERS = 3
ROUNDS = 5
SESSION_MS = 6_000
HEARTBEAT_MS = 1_000
PATIENCE = 60.0
# What may be measured as longer than Java's and still is not: one heartbeat more or less is chance.
TOLERANCE = HEARTBEAT_MS / 1000
_JAVA = Path(__file__).parents[1] / "tests" / "integration" / "JavaMember.java"
_BROKER = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.min.session.timeout.ms": str(SESSION_MS),
}
_CLASSIC = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}


class Row(NamedTuple):
    """One protocol: seconds of each round."""

    protocol: str
    ours: list[float]
    javas: list[float]


class Member:
    """A member in a process, and what it says that it holds."""

    def __init__(self, process: asyncio.subprocess.Process, changed: asyncio.Event) -> None:
        self.owned: frozenset[int] = frozenset()
        self._process = process
        self._changed = changed
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], changed: asyncio.Event) -> Member:
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=nowhere)
        return cls(process, changed)

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self.owned = frozenset(int(number) for number in line.decode().strip().split(",") if number)
            self._changed.set()

    async def end(self) -> None:
        """Without a word; also if it has ended already."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._task


class Team:
    """A group of one client's members."""

    def __init__(self, command: Sequence[str], stack: AsyncExitStack) -> None:
        self._command = command
        self._stack = stack
        self._members: list[Member] = []
        self._changed = asyncio.Event()

    async def fill(self) -> None:
        """Until there are enough members, and each holds its share."""
        while len(self._members) < MEMBERS:
            member = await Member.start(self._command, self._changed)
            self._members.append(member)
            self._stack.push_async_callback(member.end)
        await self._until_shared()

    async def lose_one(self) -> float:
        """Kill the newest member; seconds until the others hold everything."""
        began = time.perf_counter()
        await self._members.pop().end()
        await self._until_shared()
        return time.perf_counter() - began

    async def _until_shared(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self._shared():
                self._changed.clear()
                await self._changed.wait()

    def _shared(self) -> bool:
        owned = [member.owned for member in self._members]
        return sorted(number for each in owned for number in each) == list(range(PARTITIONS)) and (
            {len(each) for each in owned} == {PARTITIONS // len(owned)}
        )


def our_command(servers: str, protocol: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.takeover", servers, protocol]


def java_command(servers: str, protocol: str) -> list[str]:
    java = require_java(11, "run a Java source file")
    jars = JarSet.clients(CLIENTS_VERSION)
    jars.fetch()
    settings = {"group.protocol": protocol}
    if protocol == "classic":
        strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        settings |= {name: str(value) for name, value in _CLASSIC.items()}
        settings["partition.assignment.strategy"] = strategy
    group = f"javas-{protocol}"
    pairs = [f"{name}={value}" for name, value in settings.items()]
    return [
        java.program,
        *COMMAND_FLAGS,
        "-cp",
        jars.class_path,
        str(_JAVA),
        servers,
        group,
        "takeover",
        *pairs,
    ]


async def be_a_member(servers: str, protocol: str) -> None:
    """Print the partitions whenever they change, until somebody ends this process."""
    options: dict[str, Any] = _CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"}
    consumer = AsyncConsumer(
        "takeover",
        bootstrap_servers=servers,
        group_id=f"ours-{protocol}",
        group_protocol=protocol,
        enable_auto_commit=False,
        **(options if protocol == "classic" else {}),
    )
    before = None
    async with consumer:
        while True:
            await consumer.getmany(timeout_ms=50)
            now = ",".join(str(each.partition) for each in sorted(consumer.assignment()))
            if now != before:
                print(now, flush=True)
                before = now


async def measure(servers: str, protocol: str, rounds: int) -> Row:
    row = Row(protocol, [], [])
    async with AsyncExitStack() as stack:
        ours = Team(our_command(servers, protocol), stack)
        javas = Team(java_command(servers, protocol), stack)
        for _ in range(rounds):
            await asyncio.gather(ours.fill(), javas.fill())
            our_time, java_time = await asyncio.gather(ours.lose_one(), javas.lose_one())
            row.ours.append(our_time)
            row.javas.append(java_time)
    return row


def run(rounds: int = ROUNDS) -> list[Row]:
    with KafkaCluster(config=_BROKER) as cluster:
        cluster.create_topic("takeover", PARTITIONS)
        return [
            asyncio.run(measure(cluster.bootstrap(), protocol, rounds))
            for protocol in ("classic", "consumer")
        ]


def table(rows: list[Row]) -> str:
    lines = [f"{'protocol':10} {'kclient s':>10} {'Java s':>10}   rounds (kclient / Java)"]
    for row in rows:
        rounds = ", ".join(f"{ours:.1f}/{javas:.1f}" for ours, javas in zip(row.ours, row.javas, strict=True))
        ours, javas = statistics.median(row.ours), statistics.median(row.javas)
        lines.append(f"{row.protocol:10} {ours:10.2f} {javas:10.2f}   {rounds}")
    return "\n".join(lines)


def behind(rows: list[Row]) -> list[str]:
    return [
        f"takeover after a killed member, {row.protocol}: {statistics.median(row.ours):.1f} s, "
        f"Java's {statistics.median(row.javas):.1f} s"
        for row in rows
        if statistics.median(row.ours) > statistics.median(row.javas) + TOLERANCE
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(be_a_member(*sys.argv[1:]))
    else:
        print(table(run()))
