"""kclient's memberships beside Java's consumer, and librdkafka's, in one group."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kclient.types import TopicPartition
from tests.integration.test_group_membership import Group, in_a_group
from tests.unit.consumer.members import Member
from tools.kafka.jars import JarSet
from tools.kafka.jvm import COMMAND_FLAGS, class_path_flags, require_java
from tools.kafka.provider import PlainKafka
from tools.kafka.versions import CLIENTS_VERSION

PROGRAM = Path(__file__).with_name("JavaMember.java")
STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class Javas:
    """A consumer of Java's, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, topic: str) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self._process = process
        self._topic = topic
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, group: Group, **settings: Any) -> Javas:
        java = require_java(11, "run a Java source file")
        pairs = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        jars = JarSet.clients(CLIENTS_VERSION)
        jars.fetch()
        process = await asyncio.create_subprocess_exec(
            java.program,
            *COMMAND_FLAGS,
            *class_path_flags(java, jars.class_path),
            str(PROGRAM),
            group.kafka.bootstrap(),
            group.id,
            group.topic,
            *pairs,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        member = cls(process, group.topic)
        group.ends_with(member.close)
        return member

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            numbers = line.decode().strip().split(",")
            self.owned = frozenset(TopicPartition(self._topic, int(number)) for number in numbers if number)

    async def close(self) -> None:
        """Leave in order, or be killed."""
        if self._process.returncode is None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(20):
                    await self._process.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._task


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("ours_first", [True, False], ids=["we lead", "Java leads"])
def test_a_classic_group_with_java(kafka: PlainKafka, strategy: str, ours_first: bool) -> None:
    async def story(group: Group) -> None:
        async def one_of_ours() -> Member:
            return await group.ours(partition_assignment_strategy=[strategy], heartbeat_interval_ms=500)

        async def one_of_javas() -> Javas:
            kind = f"org.apache.kafka.clients.consumer.{STRATEGIES[strategy]}"
            return await Javas.start(group, partition_assignment_strategy=kind, heartbeat_interval_ms=500)

        first: Member | Javas = await (one_of_ours if ours_first else one_of_javas)()
        await group.settled(first)
        second: Member | Javas = await (one_of_javas if ours_first else one_of_ours)()
        await group.settled(first, second)
        third = await one_of_ours()
        await group.settled(first, second, third)
        await first.close()
        await group.settled(second, third)

    in_a_group(kafka, story)


def test_a_group_that_the_broker_assigns_with_java_and_librdkafka(kafka: PlainKafka) -> None:
    async def story(group: Group) -> None:
        first = await group.ours(group_protocol="consumer")
        javas = await Javas.start(group, group_protocol="consumer")
        theirs = await group.theirs(group_protocol="consumer")
        await group.settled(first, javas, theirs)
        second = await group.ours(group_protocol="consumer")
        await group.settled(first, javas, theirs, second)
        await javas.close()
        await group.settled(first, theirs, second)

    in_a_group(kafka, story)
